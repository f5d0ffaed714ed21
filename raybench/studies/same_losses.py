"""Whether the variants of a study that train the same thing reach the same loss, whatever strategy and ranks. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.same_loss import OTHER_TRAININGS, Curve, LossAgreement, agreements, is_judged
from raybench.documents.study.plan import Study, Variant
from raybench.documents.study.trial import Measured, TrialResult
from raybench.studies.training_rows import usable


def loss_agreements(study: Study, outcomes: Sequence[TrialResult]) -> tuple[LossAgreement, ...]:
    """One of each group of variants with the same model, data, global batch and steps; of the first trial of each."""
    first: dict[str, TrialResult] = {}
    for outcome in usable(outcomes):
        first.setdefault(outcome.trial.variant, outcome)
    kept = [first[one.name] for one in study.variants if one.name in first and not _rounds(one)]
    return tuple(agreements([curve for outcome in kept for curve in _curves(outcome)]))


def _rounds(variant: Variant) -> bool:
    """Whether it sends something else than the gradients: its loss is its own."""
    pairs = zip(variant.arguments, variant.arguments[1:], strict=False)
    return any(option == "--comm-hook" and value != "none" for option, value in pairs)


def _curves(outcome: TrialResult) -> Iterator[Curve]:
    for one in outcome.measured:
        if one.first_loss is None or one.loss is None or not is_judged((one.first_loss, one.loss), one.dtype):
            continue
        if one.label.partition(" ")[0] not in OTHER_TRAININGS:
            yield _curve(one, one.first_loss, one.loss, outcome)


def _curve(one: Measured, first: float, last: float, outcome: TrialResult) -> Curve:
    ranks = None if one.data else outcome.world_size  # random samples are drawn by rank
    batch = (one.batch_size_per_rank or 0) * outcome.world_size
    return Curve(
        name=outcome.trial.variant,
        key=(one.label.partition(" ")[2], one.parameters, one.dtype, one.data, batch, ranks, one.steps),
        dtype=one.dtype or "",
        first=first,
        last=last,
        validation=one.validation_loss,
    )
