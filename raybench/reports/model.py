"""What a report is made of: sections, each a table of cells with notes below it. Plain text, no markup. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell. ``tone``: "", "bad", "warn" or "strong"."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: headings and rows of cells; ``groups`` are (title, columns it spans) above the headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table with its title, and what is to be said below it."""

    title: str
    grid: Grid
    notes: tuple[str, ...] = ()
