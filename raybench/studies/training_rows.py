"""One row a variant of a training study: throughput, memory and overhead over its blocks, and who is fastest. Pure."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from raybench.documents.study.plan import Study
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.trial import Measured, TrialResult
from raybench.stats import deviation, median
from raybench.studies.compare import ratio_of
from raybench.studies.costs import Costing


def training_rows(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> list[TrainingRow]:
    """A row a variant, in the order of the study. A run of several strategies counts with its first."""
    rows = [_row(variant.name, outcomes) for variant in study.variants]
    return [_priced(row, costing) for row in rows] if costing else rows


def _priced(row: TrainingRow, costing: Costing) -> TrainingRow:
    return replace(row, cost=costing.of(row.node_count, row.samples_per_s, row.tokens_per_s))


def _row(name: str, outcomes: Sequence[TrialResult]) -> TrainingRow:
    mine = [outcome for outcome in outcomes if outcome.trial.variant == name]
    done = usable(mine)
    if not done:
        wrong = "its results were wrong" if any(outcome.wrong for outcome in mine) else "nothing was measured"
        reason = next((outcome.reason for outcome in mine if outcome.reason), wrong)
        return TrainingRow(variant=name, failed=reason)
    figures = [outcome.measured[0] for outcome in done]
    seconds = [figure.seconds for figure in figures]
    checked = any(figure.verified for figure in figures)
    step_seconds = median(seconds)
    memory = _middle(figures, lambda figure: figure.memory_bytes)
    exposed = _middle(figures, lambda figure: figure.exposed_seconds)
    return TrainingRow(
        variant=name,
        label=figures[0].label,
        blocks=len(figures),
        world_size=done[0].world_size,
        node_count=done[0].node_count,
        batch_size_per_rank=figures[0].batch_size_per_rank,
        step_seconds=step_seconds,
        step_seconds_stddev=deviation(seconds, sum(seconds) / len(seconds)),
        samples_per_s=_rate(figures[0].samples_per_s, figures[0], step_seconds),
        tokens_per_s=_rate(figures[0].tokens_per_s, figures[0], step_seconds),
        memory_bytes=None if memory is None else int(memory),
        exposed_seconds=exposed,
        overhead=overhead_of(exposed, step_seconds, figures),
        data_share=_middle(figures, lambda figure: figure.data_share),
        loss=_middle(figures, lambda figure: figure.loss),
        validation_loss=_middle(figures, lambda figure: figure.validation_loss),
        validation_accuracy=_middle(figures, lambda figure: figure.validation_accuracy),
        parameters=figures[0].parameters,
        tflop_per_s_per_rank=_rate(figures[0].tflop_per_s_per_rank, figures[0], step_seconds),
        mfu=_rate(figures[0].mfu, figures[0], step_seconds),
        memory_limit_bytes=figures[0].memory_limit_bytes,
        memory_kind=figures[0].memory_kind,
        verified=checked or None,
    )


def overhead_of(exposed: float | None, seconds: float, figures: Sequence[Measured]) -> float | None:
    """The row's waiting over the row's time, so that it follows from both; None where no run could tell it."""
    if exposed is None or all(figure.overhead is None for figure in figures):
        return None
    return min(exposed / seconds, 1.0)


def peak_text(row: TrainingRow) -> str:
    """``1.25 GiB at its peak``, and whose memory it is where it is no device's."""
    whose = " (the process's RSS)" if row.memory_kind == "rss" else ""
    return f"{(row.memory_bytes or 0) / 2**30:.2f} GiB at its peak{whose}"


def usable(outcomes: Sequence[TrialResult]) -> list[TrialResult]:
    """Those with figures, and none of them wrong."""
    return [outcome for outcome in outcomes if outcome.measured and not outcome.wrong]


def _rate(per_second: float | None, figure: Measured, step_seconds: float) -> float | None:
    """What a step processes, over the row's step time: a row's figures then follow from each other."""
    return None if per_second is None else per_second * figure.seconds / step_seconds


def _middle(figures: Sequence[Measured], value: Callable[[Measured], float | None]) -> float | None:
    known = [found for figure in figures if (found := value(figure)) is not None]
    return median(known) if known else None


def throughput_ratio(name: str, base: str, outcomes: Sequence[TrialResult]) -> Ratio | None:
    """Samples per second of one variant over those of another, block by block; None without common blocks."""
    mine, other = throughput_by_block(name, outcomes), throughput_by_block(base, outcomes)
    blocks = sorted(mine.keys() & other.keys())
    if not blocks:
        return None
    rows = [_row(variant, outcomes).samples_per_s for variant in (name, base)]
    of_rows = rows[0] / rows[1] if rows[0] and rows[1] else None
    return ratio_of([mine[block] for block in blocks], [other[block] for block in blocks], of_rows)


def throughput_by_block(name: str, outcomes: Sequence[TrialResult]) -> dict[int, float]:
    """Samples per second of a variant in each block that measured them."""
    return {
        outcome.trial.block: outcome.measured[0].samples_per_s
        for outcome in usable(outcomes)
        if outcome.trial.variant == name and outcome.measured[0].samples_per_s
    }


def fastest(rows: Sequence[TrainingRow]) -> TrainingRow | None:
    """The row with the most samples per second; None where none has any."""
    return max((row for row in rows if row.samples_per_s), key=lambda row: row.samples_per_s or 0.0, default=None)
