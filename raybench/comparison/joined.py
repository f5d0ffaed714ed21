"""Sides of several results of the same as one side: each of them is a run of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from raybench.comparison.disturbed import worst_of
from raybench.comparison.side import FigureKey, Side, SideFigure
from raybench.errors import UsageError
from raybench.verdicts import SEVERITY


def joined_side(name: str, sides: Sequence[Side]) -> Side:
    """One or more sides as one. What they do not agree on has all of their values; of checks the worst.

    Raises UsageError for results of different kinds.
    """
    kinds = {side.kind: side.name for side in sides}
    if len(kinds) > 1:
        said = ", ".join(f"{one} is a {kind}" for kind, one in kinds.items())
        raise UsageError(f"{name} holds results of different kinds: {said}; name those of one kind")
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
        figures=figures,
        disturbance=worst_of([side.disturbance for side in sides]),
        remarks=tuple(dict.fromkeys(remark for side in sides for remark in side.remarks)),
    )


def _joined(before: SideFigure, one: SideFigure) -> SideFigure:
    allowed, problem = max(before.allowed, one.allowed), before.problem or one.problem
    runs, stolen = (*before.runs, *one.runs), (*before.stolen, *one.stolen)
    return replace(before, runs=runs, stolen=stolen, allowed=allowed, problem=problem)


def _agreed(tables: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """What the results say of themselves, each value on which they do not agree with all of its values."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: " | ".join(dict.fromkeys(table.get(name, "-") for table in tables)) for name in names}


def _outcomes(tables: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _outcome([table[name] for table in tables if name in table]) for name in names}


def _outcome(words: Sequence[str]) -> str:
    """The worst word of a check; of anything else all of them."""
    if all(word in SEVERITY for word in words):
        return max(words, key=SEVERITY.index)
    return " | ".join(dict.fromkeys(words))
