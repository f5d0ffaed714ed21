"""Variants each beside the first one, which is what to use unless another is faster for certain. Pure."""

from collections.abc import Collection, Iterator, Sequence

from raybench.documents.study.plan import Study
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.trial import TrialResult
from raybench.studies.compare import self_ratio
from raybench.studies.costs import Costing, saving
from raybench.studies.strategy import ALIKE, LESS
from raybench.studies.training_rows import fastest, throughput_by_block, throughput_ratio, training_rows

_EARLY = "a loss after so few steps says that gradients still arrive, and not where a long training would end"


def answer_beside_first(
    study: Study, outcomes: Sequence[TrialResult], costing: Costing | None, *, rounding: Collection[str]
) -> StrategyAnswer:
    """Recommend the first variant, unless another is faster beyond its interval and beyond what repeats differ by.

    ``rounding``: variants that are less exact than the others, whose loss a reader has to know.
    """
    rows = tuple(training_rows(study, outcomes, costing))
    price = costing.price if costing else None
    best, remarks = fastest(rows), tuple(_remarks(rows, rounding))
    if best is None:
        return StrategyAnswer(
            rows=rows, ratios={}, recommended=None, why="nothing was measured", remarks=remarks, price=price
        )
    base = next(row for row in rows if row.samples_per_s)
    ratios = _over(best, rows, outcomes)
    gains = _over(base, rows, outcomes)
    noise = max(self_ratio(list(throughput_by_block(name, outcomes).values())) for name in (base.variant, *gains))
    faster = {name: gain for name, gain in gains.items() if is_faster(gain, noise)}
    name = max(faster, key=lambda one: faster[one].value, default=base.variant)
    chosen = next(row for row in rows if row.variant == name)
    beside = [row for row in rows if row.variant in gains]
    told = [
        f"{_told(row, gains[row.variant], base, faster=row.variant in faster)}{_loss(row, base, rounding)}"
        for row in beside
    ]
    return StrategyAnswer(
        rows=rows,
        ratios=ratios,
        recommended=name,
        why="; ".join([*(told or ["it is the only one that was measured"]), *saving(chosen, base, price)]),
        certain=bool(faster) or all(gain.side_of(1 + ALIKE) == "below" for gain in gains.values()),
        remarks=remarks,
        price=price,
    )


def _over(base: TrainingRow, rows: Sequence[TrainingRow], outcomes: Sequence[TrialResult]) -> dict[str, Ratio]:
    others = [row.variant for row in rows if row.variant != base.variant]
    return {name: ratio for name in others if (ratio := throughput_ratio(name, base.variant, outcomes))}


def is_faster(gain: Ratio, noise: float) -> bool:
    """Whether a gain is more than `ALIKE` with its whole interval, and than one variant differs from itself."""
    return gain.side_of(1 + ALIKE) == "above" and gain.value > noise


def _told(row: TrainingRow, gain: Ratio, base: TrainingRow, *, faster: bool) -> str:
    """``fp16 is faster: it reaches 1.31 of the throughput of none (95 % interval 1.22 to 1.40), last loss ...``."""
    between = "" if gain.low is None else f" (95 % interval {gain.low:.2f} to {gain.high:.2f})"
    rate = f"it reaches {gain.text} of the throughput of {base.variant}{between}"
    return f"{row.variant} {_side(gain, faster=faster)}: {rate}{_memory(row, base)}"


def _side(gain: Ratio, *, faster: bool) -> str:
    if faster:
        return "is faster"
    if gain.side_of(1.0) == "below":
        return "is slower"
    return f"gains less than {ALIKE:.0%}" if gain.side_of(1 + ALIKE) == "below" else "shows no clear difference"


def _memory(row: TrainingRow, base: TrainingRow) -> str:
    """Where it differs by what counts, and is a device's: the memory of a process is not the model's alone."""
    if row.memory_kind == "rss" or not row.memory_bytes or not base.memory_bytes:
        return ""
    share = row.memory_bytes / base.memory_bytes
    return "" if abs(1 - share) < 1 - LESS else f", with {share:.2f} of its memory"


def _loss(row: TrainingRow, base: TrainingRow, rounding: Collection[str]) -> str:
    if row.loss is None or base.loss is None or not base.loss:
        return ", loss unknown" if row.variant in rounding else ""
    if row.validation_loss is not None and base.validation_loss:
        apart = row.validation_loss / base.validation_loss - 1
        return f", validation loss {row.validation_loss:.4f} against {base.validation_loss:.4f} ({apart:+.2%})"
    return f", last loss {row.loss:.4f} against {base.loss:.4f} ({row.loss / base.loss - 1:+.2%})"


def _remarks(rows: Sequence[TrainingRow], rounding: Collection[str]) -> Iterator[str]:
    yield from (f"{row.variant}: {row.failed}" for row in rows if row.failed)
    if any(row.variant in rounding and row.samples_per_s for row in rows):
        yield _EARLY
