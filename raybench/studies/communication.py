"""What to send gradients as, in buckets of which size, by which algorithm? Each beside the first variant. Pure."""

from collections.abc import Sequence

from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError, unknown_name
from raybench.studies.beside_first import answer_beside_first
from raybench.studies.costs import Costing
from raybench.units import parse_bytes

HOOKS = ("none", "fp16", "bf16", "powersgd")
ALGORITHMS = ("ring", "tree")
BUFFER = "buffer-"
ON_NCCL = ("--backend", "nccl")
_LEAST_BUFFER = 2**16
_CUTTING = HOOKS[1:]


def hook_variant(name: str) -> Variant:
    """The variant of a communication hook. Raises UsageError for one that is not known."""
    if name not in HOOKS:
        raise unknown_name("communication hook", name, HOOKS)
    return Variant(name=name, arguments=("--comm-hook", name))


def bucket_variant(text: str) -> Variant:
    """The variant of a bucket size in MiB. Raises UsageError for what is no such number."""
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise UsageError(f"'{text}' is not a size of buckets; give MiB from 1, such as --bucket-sizes 5,25,100")
    return Variant(name=f"bucket-{int(text)}", arguments=("--bucket-mib", text))


def buffer_variant(text: str) -> Variant:
    """The variant of a size of NCCL's buffers, such as ``8M``. Raises UsageError for what is no size."""
    size = parse_bytes(text)
    if size < _LEAST_BUFFER:
        raise UsageError(f"'{text}' is not a size of NCCL's buffers; give 64K or more, such as --buffer-sizes 4M,8M")
    return Variant(name=f"{BUFFER}{text.strip()}", arguments=(*ON_NCCL, "--env", f"NCCL_BUFFSIZE={size}"))


def algorithm_variant(name: str) -> Variant:
    """The variant of an algorithm of NCCL's all_reduce. Raises UsageError for one that is not known.

    ``NCCL_ALGO=allreduce:tree`` (NCCL 2.24 or later): a bare ``Tree`` is an error for what has no tree, as all_gather.
    """
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return Variant(name=name, arguments=(*ON_NCCL, "--env", f"NCCL_ALGO=allreduce:{name}"))


def check_workload(variants: Sequence[Variant], words: Sequence[str]) -> None:
    """Raise UsageError where the workload has no use for what the variants set: all would measure the same."""
    named = _value(words, "--strategy") or ""
    algorithms = [one.name for one in variants if one.name in ALGORITHMS]
    buffers = [one.name for one in variants if one.name.startswith(BUFFER)]
    if (algorithms or buffers) and _value(words, "--backend") == "gloo":
        option, name = ("--algorithms", "NCCL_ALGO") if algorithms else ("--buffer-sizes", "NCCL_BUFFSIZE")
        raise UsageError(
            f"{option} sets {name}, which NCCL alone reads; over gloo there is nothing to choose: leave out "
            "--backend gloo, on nodes with GPUs"
        )
    sized = [one.name for one in variants if "--bucket-mib" in one.arguments]
    if "fsdp" in named and (sized or algorithms):
        what = "--bucket-sizes is of ddp's buckets" if sized else "--algorithms is of all_reduce"
        raise UsageError(f"{what}, and fsdp gathers and scatters block by block; take --strategy ddp")


def _value(words: Sequence[str], option: str) -> str | None:
    """What an option was given, as ``--option value`` or ``--option=value``."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[place + 1 : place + 2]), None)
    return None


def answer_communication(
    study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None
) -> StrategyAnswer:
    """Recommend the first variant, unless another is faster for certain; what rounds has its loss beside it."""
    return answer_beside_first(study, outcomes, costing, rounding=_CUTTING)
