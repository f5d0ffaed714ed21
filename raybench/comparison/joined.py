"""Sides of several results of the same as one side: each of them is a run of it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from raybench.comparison.disturbed import worst_of
from raybench.comparison.side import NOT_JUDGED, FigureKey, Side, SideFigure, label_of
from raybench.comparison.words import worst_word
from raybench.documents.run.same_loss import Curve
from raybench.errors import UsageError


def joined_side(name: str, sides: Sequence[Side]) -> Side:
    """One or more sides as one. What they do not agree on has all of their values; of checks the worst.

    One that is a copy of another counts once, which is remarked.

    Raises UsageError for results of different kinds.
    """
    kinds = {side.kind: side.name for side in sides}
    if len(kinds) > 1:
        said = ", ".join(f"{one} is a {kind}" for kind, one in kinds.items())
        raise UsageError(f"{name} holds results of different kinds: {said}; name those of one kind")
    copies = copies_of(sides)
    sides = [side for number, side in enumerate(sides) if number not in copies]
    remarks = [*(f"{one}: it counts once" for one in copies.values()), *(one for side in sides for one in side.remarks)]
    figures: dict[FigureKey, SideFigure] = {}
    for side in sides:
        for key, figure in side.figures.items():
            figures[key] = _joined(figures[key], figure) if key in figures else figure
    return replace(
        sides[0],
        name=name,
        run_ids=tuple(run_id for side in sides for run_id in side.run_ids),
        machine=_agreed([side.machine for side in sides]),
        configuration=_agreed([side.configuration for side in sides]),
        environment=_agreed([side.environment for side in sides]),
        outcomes=_outcomes([side.outcomes for side in sides]),
        troubles=_outcomes([side.troubles for side in sides]),
        figures=figures,
        losses={label: losses for side in reversed(sides) for label, losses in side.losses.items()},
        curves=_curves(sides),
        gaps=(*dict.fromkeys(gap for side in sides for gap in side.gaps), *_gaps(sides)),
        checks=_checks(sides),
        disturbance=worst_of([side.disturbance for side in sides]),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _joined(before: SideFigure, one: SideFigure) -> SideFigure:
    limits = "its runs had other limits of memory" if before.is_within_other_limits(one) else ""
    allowed, problem = max(before.allowed, one.allowed), before.problem or one.problem or before.unlike(one) or limits
    runs, stolen, lost = (*before.runs, *one.runs), (*before.stolen, *one.stolen), (*before.lost, *one.lost)
    verified = before.verified if before.verified == one.verified else None
    results = before.results + one.results
    return replace(
        before,
        runs=runs,
        stolen=stolen,
        lost=lost,
        allowed=allowed,
        problem=problem,
        verified=verified,
        limits=(*before.limits, *one.limits),
        is_capped=before.is_capped and one.is_capped,
        results=results,
        again=before.again or one.again,
    )


def _agreed(tables: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """What the results say of themselves, each value on which they do not agree with all of its values."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: " | ".join(dict.fromkeys(table.get(name, "-") for table in tables)) for name in names}


def _outcomes(tables: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: worst_word([table[name] for table in tables if name in table]) for name in names}


def _checks(sides: Sequence[Side]) -> Mapping[str, frozenset[str]]:
    """How far each check was answered. Of a run that has no such check it is not judged: nobody asked."""
    names = dict.fromkeys(name for side in sides for name in side.checks)
    return {name: frozenset().union(*(side.checks.get(name, {NOT_JUDGED}) for side in sides)) for name in names}


def _curves(sides: Sequence[Side]) -> Mapping[str, tuple[Curve, ...]]:
    labels = dict.fromkeys(label for side in sides for label in side.curves)
    return {label: tuple(one for side in sides for one in side.curves.get(label, ())) for label in labels}


def _gaps(sides: Sequence[Side]) -> Iterator[str]:
    """What some of the runs have and others lack: figures that are judged, and losses."""
    for key, figure in {key: one for side in sides for key, one in side.figures.items()}.items():
        lack = sum(key not in side.figures for side in sides)
        if lack and figure.is_better:
            yield f"{lack} of {len(sides)} runs have no {label_of(key)}"
    for label in dict.fromkeys(label for side in sides for label in side.curves):
        lack = sum(label in side.losses and label not in side.curves for side in sides)
        if lack:
            yield f"{lack} of {len(sides)} runs have no losses of {label} that can be judged"


_LEAST_SAMPLES = 10  # so many that are all alike to the last digit are the same ones


def copies_of(sides: Sequence[Side]) -> Mapping[int, str]:
    """Which of them, by number, are the result of one before them, and what is said of it.

    They are where all figures, outcomes and times agree, and it is named twice, has the same id, or has too much in
    common to be chance.
    """
    seen: dict[object, Side] = {}
    found = {}
    if len(sides) < 2:
        return {}
    for number, side in enumerate(sides):
        content = (
            side.started_at,
            frozenset(side.figures.items()),
            frozenset(side.outcomes.items()),
            frozenset(side.machine.items()),
        )
        first = seen.setdefault(content, side)
        if first is not side and _is_copy(first, side):
            found[number] = f"{side.name} is the same result as {first.name}"
    return found


def _is_copy(first: Side, side: Side) -> bool:
    if first.name == side.name or first.run_ids == side.run_ids or side.started_at:
        return True
    blocks = (block for one in side.figures.values() for launch in one.launches for block in launch)
    return sum(map(len, blocks)) >= _LEAST_SAMPLES
