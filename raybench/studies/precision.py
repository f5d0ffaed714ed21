"""In which type to compute? Each beside the first: speed, memory, and the loss that it reaches. Pure."""

from collections.abc import Sequence

from raybench.benchmarks.training.options import SHORT_DTYPES
from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.errors import unknown_name
from raybench.studies.beside_first import answer_beside_first
from raybench.studies.costs import Costing

PRECISIONS = tuple(SHORT_DTYPES)
_ROUNDING = tuple(name for name in PRECISIONS if name != "fp32")


def precision_variant(text: str) -> Variant:
    """The variant of a type, by its short or its long name. Raises UsageError for one that is not known."""
    names = {long: short for short, long in SHORT_DTYPES.items()} | {name: name for name in PRECISIONS}
    if text not in names:
        raise unknown_name("type to compute in named", text, PRECISIONS)
    return Variant(name=names[text], arguments=("--dtype", names[text]))


def answer_precision(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> StrategyAnswer:
    """Recommend the first type, unless another is faster for certain; the loss of each stands beside it."""
    return answer_beside_first(study, outcomes, costing, rounding=_ROUNDING)
