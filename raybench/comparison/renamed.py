"""Which figures of many runs are the same though their parameters differ: those that a version added alone. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from raybench.comparison.parameters import HOW_OFTEN, parameters_of
from raybench.comparison.side import FigureKey

Name = tuple[str, FigureKey]  # the machine, and the figure on it


def together(figures: Mapping[Name, Collection[str]]) -> list[Sequence[Name]]:
    """Names of figures in groups that are the same, from the runs that have each.

    One figure is another where machine and point are the same, each parameter of both has the same value, but for how
    often it is measured, and no run has both; and only where that is clear: all that could be one must be so among each
    other.
    """
    alike: dict[Name, list[Name]] = {}
    for machine, key in figures:
        alike.setdefault((machine, replace(key, parameters="")), []).append((machine, key))
    return [group for names in alike.values() for group in _groups(names, figures)]


def _groups(names: Sequence[Name], figures: Mapping[Name, Collection[str]]) -> list[Sequence[Name]]:
    given = {name: parameters_of(name[1].parameters) for name in names}
    fits = {name: {name} for name in names}
    for one, other in combinations(names, 2):
        if _agree(given[one], given[other]) and set(figures[one]).isdisjoint(figures[other]):
            fits[one].add(other)
            fits[other].add(one)
    groups: dict[Name, Sequence[Name]] = {}
    for name in names:
        members = [one for one in names if one in fits[name]]
        is_clear = all(fits[one] == fits[name] for one in members)
        groups[members[0] if is_clear else name] = members if is_clear else [name]
    return list(groups.values())


def _agree(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    if one is None or other is None:
        return False
    return all(one[name] == other[name] for name in one.keys() & other.keys() - HOW_OFTEN)
