"""What is not the same on all sides: machine, configuration, environment, outcomes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from raybench.comparison.parameters import HOW_OFTEN
from raybench.comparison.side import Side
from raybench.documents.comparison.comparison import Differing

About = Literal["machine", "configuration", "environment", "outcome"]


def differing(sides: Sequence[Side]) -> Iterator[Differing]:
    """The machine first, since it decides whether figures can be compared at all.

    Of each, what all sides say comes before what one does not, as an older version's result has no word of some.
    """
    yield from _of_tables("machine", [side.machine for side in sides])
    yield from _of_tables("configuration", [side.configuration for side in sides])
    yield from _of_tables("environment", [side.environment for side in sides])
    yield from _of_tables("outcome", [{**side.outcomes, **side.troubles} for side in sides])
    yield from (one for one in _of_tables("outcome", [_checks(side) for side in sides]) if None not in one.values)


def _checks(side: Side) -> Mapping[str, str]:
    """How far each check of a run was answered."""
    return {f"check {name}": " and ".join(sorted(words)) for name, words in side.checks.items()}


def _of_tables(about: About, tables: Sequence[Mapping[str, str]]) -> Iterator[Differing]:
    names = dict.fromkeys(name for table in tables for name in table)
    rows = [(name, tuple(table.get(name) for table in tables)) for name in names]
    for name, values in sorted(rows, key=lambda row: None in row[1]):
        if len(set(values)) > 1:
            yield Differing(about=about, name=name, values=values)


def other_settings(sides: Sequence[Side]) -> tuple[str, ...]:
    """What was asked for or set otherwise and is said by all: ``NCCL_ALGO Ring and Tree``; versions may differ."""
    found = [
        *_of_tables("configuration", [side.configuration for side in sides]),
        *_of_tables("environment", [_variables(side) for side in sides]),
    ]
    decided = [one for one in found if None not in one.values and one.name.rpartition(".")[2] not in HOW_OFTEN]
    return tuple(f"{one.name} {' and '.join(dict.fromkeys(map(str, one.values)))}" for one in decided)


def _variables(side: Side) -> Mapping[str, str]:
    """Of NCCL and its like; none that says what is logged, and where."""
    variables = [name for name in side.environment if name.removeprefix("env.").isupper()]
    return {name: side.environment[name] for name in variables if "DEBUG" not in name}


def unlike(sides: Sequence[Side]) -> tuple[str, ...]:
    """How machines differ: ``nodes 2 and 4``; empty where they are alike."""
    found = _of_tables("machine", [side.machine for side in sides])
    return tuple(f"{one.name} {' and '.join('unknown' if v is None else v for v in one.values)}" for one in found)
