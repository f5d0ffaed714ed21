"""Which parameters of a benchmark are not those of the reference. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from raybench.comparison.side import FigureKey, Side, SideFigure

# How often something is measured and from which numbers it begins, not what is measured.
HOW_OFTEN = frozenset(
    {
        "repeats",
        "max_repeats",
        "iters",
        "blocks",
        "warmup",
        "steps",
        "warmup_steps",
        "overlap_steps",
        "saves",
        "limit_seconds",
        "seed",
    }
)
_VERSION = "raybench"  # an older one may not name every parameter
Figures = Mapping[FigureKey, SideFigure]


def renamed_keys(before: Figures, after: Figures) -> Mapping[FigureKey, FigureKey]:
    """From the other side's keys to the reference's, of figures whose parameters alone differ.

    Only where it is clear which: each side has one with that name and point that the other has not.
    """
    ways = (before, after), (after, before)
    loose = [{key: _without_parameters(key) for key in one if key not in two} for one, two in ways]
    counts = [[*names.values()] for names in loose]
    return {
        key: next(own for own, loosely in loose[0].items() if loosely == name)
        for key, name in loose[1].items()
        if counts[0].count(name) == 1 and counts[1].count(name) == 1
    }


def _without_parameters(key: FigureKey) -> FigureKey:
    return FigureKey(benchmark=key.benchmark, point=key.point, quantity=key.quantity)


def other_parameters(reference: Side, other: Side) -> tuple[str, ...]:
    """``ddp of B has batch_size 4, not 2``, once a benchmark, and limits; empty where what was measured is the same."""
    is_same_version = reference.environment.get(_VERSION) == other.environment.get(_VERSION)
    found: dict[str, None] = {}
    for new, old in renamed_keys(reference.figures, other.figures).items():
        pairs = tuple(_differing(old.parameters, new.parameters, is_same_version=is_same_version))
        if pairs:
            text = ", ".join(f"{name} {after}, not {before}" for name, before, after in pairs)
            found[f"{new.benchmark} of {other.name} has {text}"] = None
    return (*found, *dict.fromkeys(_other_limits(reference, other)))


def _other_limits(reference: Side, other: Side) -> Iterator[str]:
    """Where another amount of memory was to be filled: asked for, or what was free."""
    renamed = renamed_keys(reference.figures, other.figures)
    for key, now in other.figures.items():
        before = reference.figures.get(renamed.get(key, key))
        if before and before.limits and now.limits and before.is_within_other_limits(now):
            had, not_ = (f"{min(one.limits) / 2**30:.3g} GiB" for one in (now, before))
            yield f"{key.benchmark} of {other.name} has a limit of {had}, not {not_}"


def _differing(before: str, after: str, *, is_same_version: bool) -> Iterator[tuple[str, str, str]]:
    """What one side does not name is the same there unless the same version wrote both."""
    old, new = _table(before), _table(after)
    for name in dict.fromkeys([*old, *new]):
        is_asked = (name in old and name in new) or is_same_version
        if name not in HOW_OFTEN and is_asked and old.get(name) != new.get(name):
            yield name, value_text(old.get(name)), value_text(new.get(name))


def parameters_of(text: str) -> Mapping[str, Any] | None:
    """The parameters of a run's figure by their names; those of other documents are one text: None."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _table(text: str) -> Mapping[str, Any]:
    found = parameters_of(text)
    return {"setting": text} if found is None else found


def value_text(value: Any) -> str:
    """The value of a parameter: a text as it is, else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
