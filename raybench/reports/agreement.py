"""Facts of many nodes or ranks by value: what all share, which value most have, and who differs. Pure.

A column a fact would be wider than any screen with two nodes, and a row a rank longer than any page with a thousand:
``omp_threads: 1 on 7,999 ranks; 4 on rank 17`` is as long with two ranks as with eight thousand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from raybench.reports.model import Cell, Grid
from raybench.reports.text import counted

Facts = Mapping[str, str]
Named = Callable[[Sequence[int]], str]  # members by index as text: ``ranks 0-7 and 12 more``
MOST_OTHERS = 6  # values beside the commonest that are shown with who has them
MOST_FACTS = 40
NOT_SAID = "not said"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact in which members differ. ``values`` are (text, indexes of the members that have it), commonest first."""

    name: str
    values: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """(name, value) of the facts that all members share, and the facts in which they differ."""

    shared: tuple[tuple[str, str], ...]
    differences: tuple[Difference, ...]


def agreement_of(facts: Sequence[Facts]) -> Agreement:
    """The facts of all members by value; a fact that a member lacks is ``not said`` by it."""
    shared, differences = [], []
    for name in dict.fromkeys(name for one in facts for name in one):
        values: dict[str, list[int]] = {}
        for index, one in enumerate(facts):
            values.setdefault(one.get(name, NOT_SAID), []).append(index)
        if len(values) == 1:
            shared.append((name, next(iter(values))))
        else:
            ordered = sorted(values.items(), key=lambda item: -len(item[1]))
            differences.append(Difference(name=name, values=tuple((text, tuple(who)) for text, who in ordered)))
    return Agreement(shared=tuple(shared), differences=tuple(differences))


def difference_grid(differences: Sequence[Difference], noun: str, named: Named) -> Grid:
    """A row a fact: the commonest value and on how many, then every other value with who has it."""
    return Grid(
        headings=("fact", "value", "on", "elsewhere"),
        rows=tuple(_difference_row(one, noun, named) for one in differences[:MOST_FACTS]),
    )


def omitted_facts(differences: Sequence[Difference]) -> str | None:
    """The sentence on the facts that the grid has no row for; None where it has all."""
    rest = [one.name for one in differences[MOST_FACTS:]]
    if not rest:
        return None
    names = f"{', '.join(rest[:10])}{', ...' if len(rest) > 10 else ''}"
    return f"{counted(len(rest), 'further fact')} in which they differ, in result.json: {names}"


def _difference_row(one: Difference, noun: str, named: Named) -> tuple[Cell, ...]:
    (value, members), *others = one.values
    if len(members) == 1 and len(others) >= MOST_OTHERS:  # every one its own
        texts = sorted((text for text, _ in one.values), key=_natural)
        span = f"{counted(len(texts), 'different value')}, {texts[0]} to {texts[-1]}: in result.json"
        return Cell(text=one.name), Cell(text="-"), Cell(text="-"), Cell(text=span)
    parts = [f"{text} on {named(who)}" for text, who in others[:MOST_OTHERS]]
    if len(others) > MOST_OTHERS:
        rest = others[MOST_OTHERS:]
        on = counted(sum(len(who) for _, who in rest), noun)
        parts.append(f"{counted(len(rest), 'further value')} on {on}, in result.json")
    where = named(members) if len(members) < 3 else counted(len(members), noun)
    return Cell(text=one.name), Cell(text=value), Cell(text=where), Cell(text="; ".join(parts), tone="warn")


def _natural(text: str) -> tuple[bool, float, str]:
    """Numbers by their size, before other text."""
    number = text.replace(".", "", 1)
    return (False, float(text), "") if number.isdecimal() and number.isascii() else (True, 0.0, text)
