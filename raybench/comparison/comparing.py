"""Sides to a comparison: figures matched, their ratios with intervals that hold together, and the verdict. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from raybench.comparison.changed import changed_between
from raybench.comparison.differing import differing, unlike
from raybench.comparison.disturbed import disturbances, with_disturbance
from raybench.comparison.held_up import held_up
from raybench.comparison.interval import RatioInterval, ratio_interval
from raybench.comparison.judging import and_more, difference_of, judged, regression_of
from raybench.comparison.parameters import other_parameters, renamed_keys
from raybench.comparison.same_losses import loss_agreements, unjudged_losses
from raybench.comparison.side import FigureKey, Launch, Side, SideFigure
from raybench.documents.comparison.comparison import ComparedFigure, ComparedSide, Comparison
from raybench.errors import UsageError
from raybench.stats import geometric_mean, median

ALL_POINTS = "all points"
Pair = tuple[FigureKey, SideFigure, SideFigure]


def compare(sides: Sequence[Side], *, gate: float | None = None, allow_unlike: bool = False) -> Comparison:
    """The first side beside each of the others. ``gate``: 0.05 makes 5 % a regression.

    Raises UsageError for fewer than two sides, for different kinds of documents, and for unlike machines, unless they
    are allowed.
    """
    _check(sides, allow_unlike=allow_unlike)
    reference = sides[0]
    figures = tuple(
        one
        for number, side in enumerate(sides[1:], 1)
        for one in _figures(reference, side, number, gate=gate, others=len(sides) - 1)
    )
    found = tuple(differing(sides))
    changed = changed_between(sides, gated=gate is not None and not allow_unlike)
    conclusion = judged(figures, changed, gate=gate, sides=[side.name for side in sides])
    other = [text for side in sides[1:] for text in other_parameters(reference, side)]
    parameters = f"; {and_more(other)}" if other and other[0] not in conclusion.reason else ""
    return Comparison(
        verdict=conclusion.verdict,
        verdict_reason=with_disturbance(conclusion.reason, sides, figures) + parameters,
        kind=reference.kind,
        gate=gate,
        sides=tuple(map(_compared_side, sides)),
        differences=found,
        figures=figures,
        losses=loss_agreements(sides),
        remarks=_remarks(sides),
    )


def _remarks(sides: Sequence[Side]) -> tuple[str, ...]:
    """Which of the sides is the reference itself, which launches counted for less, and what the sides remark."""
    twice = [text for side in sides[1:] if (text := _shared(sides[0], side))]
    held = [remark for side in sides if (remark := held_up(side))]
    disturbed = [remark for side in sides for remark in disturbances(side)]
    own = [remark for side in sides for remark in side.remarks]
    return tuple(dict.fromkeys([*twice, *unjudged_losses(sides), *disturbed, *held, *own]))


def _shared(reference: Side, side: Side) -> str:
    """That a side is the reference, or has runs that are the reference's too."""
    if (side.run_ids, side.figures, side.outcomes) == (reference.run_ids, reference.figures, reference.outcomes):
        return f"{side.name} is the same result as {reference.name}"
    both = [one for one in side.run_ids if one in reference.run_ids]
    return f"{side.name} and {reference.name} both have run {and_more(both)}" if both else ""


def _check(sides: Sequence[Side], *, allow_unlike: bool) -> None:
    if len(sides) < 2:
        raise UsageError("name two results or more to compare: 'raybench compare A B'")
    kinds = dict.fromkeys(side.kind for side in sides)
    if len(kinds) > 1:
        said = ", ".join(f"{side.name} is a {side.kind}" for side in sides)
        raise UsageError(f"results of different kinds cannot be compared: {said}")
    found = unlike(sides)
    if found and not allow_unlike:
        raise UsageError(
            f"these results are of unlike machines: {'; '.join(found)}. Figures of such differ by design; "
            "--unlike compares them all the same"
        )


def _compared_side(side: Side) -> ComparedSide:
    runs = max((len(figure.runs) for figure in side.figures.values()), default=len(side.run_ids))
    return ComparedSide(
        name=side.name, kind=side.kind, run_ids=side.run_ids, started_at=side.started_at, runs=max(runs, 1)
    )


def _figures(reference: Side, other: Side, number: int, *, gate: float | None, others: int) -> Iterator[ComparedFigure]:
    """Of one pair of sides: summaries of benchmarks first, then their points; last what only one of them has."""
    renamed = renamed_keys(reference.figures, other.figures)
    after = {renamed.get(key, key): figure for key, figure in other.figures.items()}
    pairs = [(key, figure, after[key]) for key, figure in reference.figures.items() if key in after]
    summaries = [*_summaries([pair for pair in pairs if _is_comparable(pair)])]
    count = others * sum(bool(before.is_better) for _, before, _ in [*summaries, *filter(_is_comparable, pairs)])
    for is_summary, some in ((True, summaries), (False, pairs)):
        for key, before, now in some:
            yield _compared(key, before, now, number=number, gate=gate, figures=max(count, 1), is_summary=is_summary)
    for side, have, lack in ((0, reference.figures, after), (number, after, reference.figures)):
        name = (other if side == 0 else reference).name
        yield from (_alone(key, one, number, side, name) for key, one in have.items() if key not in lack)


def _is_comparable(pair: Pair) -> bool:
    return not _problem(*pair[1:])


def _problem(before: SideFigure, after: SideFigure) -> str:
    """Why a figure of two sides is not compared."""
    return before.problem or after.problem or before.unlike(after)


def _summaries(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Of each benchmark with several points of one quantity, the geometric mean of all that both sides have."""
    groups: dict[FigureKey, list[Pair]] = {}
    for pair in pairs:
        if pair[1].is_better:
            groups.setdefault(replace(pair[0], point=ALL_POINTS), []).append(pair)
    for key, group in groups.items():
        if len(group) > 1:
            before, after = (_mean_figure([pair[index] for pair in group]) for index in (1, 2))  # type: ignore[misc]
            if before is not None and after is not None:
                yield key, before, after


def _mean_figure(figures: Sequence[SideFigure]) -> SideFigure | None:
    """The geometric mean, launch by launch and block by block; None where the figures were not launched alike."""
    forms = {tuple(tuple(len(launch) for launch in run) for run in figure.runs) for figure in figures}
    if len(forms) > 1:
        return None
    runs = tuple(
        tuple(_mean_launch(launches) for launches in zip(*runs, strict=True))
        for runs in zip(*(figure.runs for figure in figures), strict=True)
    )
    return replace(figures[0], runs=runs, allowed=max(figure.allowed for figure in figures), order=-1.0)


def _mean_launch(launches: Sequence[Launch]) -> Launch:
    """One sample a block: the geometric mean of the levels of that block in all figures."""
    blocks = zip(*launches, strict=True)
    return tuple((geometric_mean([median(block) for block in some]),) for some in blocks)


def _compared(
    key: FigureKey,
    before: SideFigure,
    after: SideFigure,
    *,
    number: int,
    gate: float | None,
    figures: int,
    is_summary: bool,
) -> ComparedFigure:
    reason = _problem(before, after)
    found = None if reason else ratio_interval(before, after, figures=figures)
    one = ComparedFigure(
        side=number,
        benchmark=key.benchmark,
        parameters=key.parameters,
        point=key.point,
        quantity=key.quantity,
        unit=before.unit,
        is_better=before.is_better,
        values=(before.value, after.value),
        difference="not compared",
        is_summary=is_summary,
        reason=reason,
    )
    return one if found is None else _with_interval(one, found, gate)


def _with_interval(one: ComparedFigure, found: RatioInterval, gate: float | None) -> ComparedFigure:
    with_ratio = structs.replace(
        one,
        values=found.values,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        repeated=found.repeated,
        counts=found.counts,
        allowed=found.allowed,
        least_shown=found.least_shown,
        stolen=None if found.stolen == (None, None) else found.stolen,
        difference=difference_of(one, found),
    )
    return structs.replace(with_ratio, regression=regression_of(with_ratio, gate))


def _alone(key: FigureKey, figure: SideFigure, number: int, side: int, lacking: str) -> ComparedFigure:
    return ComparedFigure(
        side=number,
        benchmark=key.benchmark,
        parameters=key.parameters,
        point=key.point,
        quantity=key.quantity,
        unit=figure.unit,
        is_better=figure.is_better,
        values=(figure.value, None) if side == 0 else (None, figure.value),
        difference="not compared",
        reason=f"{lacking} has none",
    )
