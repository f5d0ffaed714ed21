"""What a report is made of: blocks of plain text, tables and figures, in order. No markup, nothing escaped. Pure.

A builder (``builders/``) makes a Report of a document; a renderer (``formats.py``) makes a file of a Report. A renderer
has to know every class of ``BLOCKS``, and no document.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell. ``tone``: "", "good", "bad", "warn", "strong", "soft" or a verdict of a check.

    ``hint`` is more than fits into it.
    """

    text: str
    tone: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: headings and rows of cells; ``groups`` are (title, columns it spans) above the headings.

    Where room is short, the columns with the highest of ``keep`` go first; those of 0 stay, as all do without it.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    keep: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table with its title, and what is to be said below it."""

    title: str
    grid: Grid
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The title of what follows. ``level`` 2 or 3; ``anchor`` is the name that links use."""

    KIND: ClassVar[str] = "heading"
    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """What no reader may miss. ``tone``: "emulated", "warn" or "bad"."""

    KIND: ClassVar[str] = "banner"
    text: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph. ``tone``: that of a cell or the severity of a finding; ``link`` is an address behind it."""

    KIND: ClassVar[str] = "text"
    text: str
    tone: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of a list; ``subject`` stands in front of the text. ``tone``: as that of a text."""

    text: str
    subject: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """A list. ``apart``: it belongs to nothing that stands above it."""

    KIND: ClassVar[str] = "notes"
    items: tuple[Note, ...]
    apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names with their values. ``wide``: the values are sentences."""

    KIND: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]
    wide: bool = False


_LONGEST_FIGURE = 40  # characters, with its interval and unit: what is longer is a sentence, which may be broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A grid. The first ``text_columns`` are text, the others figures. ``turned``: many columns with long headings.

    ``headed``: on one screen, too, its headings stand above it.
    """

    KIND: ClassVar[str] = "table"
    grid: Grid
    caption: str = ""
    text_columns: int = 1
    turned: bool = False
    headed: bool = False

    @property
    def text_places(self) -> frozenset[int]:
        """The columns that are text, by number: the first ones, and those with a sentence, as of what is to be done."""
        long = {place for row in self.grid.rows for place, cell in enumerate(row) if len(cell.text) > _LONGEST_FIGURE}
        return frozenset({*range(self.text_columns), *long})


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, which says in words what it shows. ``shape``: "" or "square"."""

    KIND: ClassVar[str] = "figure"
    plot: "Plot"
    shape: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preformatted:
    """A command, or a line of a log."""

    KIND: ClassVar[str] = "preformatted"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Blocks that are shown when they are asked for. ``tone``: "" or "stability"."""

    KIND: ClassVar[str] = "details"
    summary: str
    blocks: "tuple[Block, ...]"
    is_open: bool = False
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The same in several forms, the widest first. A terminal takes the first that fits, a page the first."""

    KIND: ClassVar[str] = "choice"
    forms: "tuple[tuple[Block, ...], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding with what is said of it. ``severity``: "critical", "warning" or "info"."""

    KIND: ClassVar[str] = "finding"
    severity: str
    headline: str
    blocks: "tuple[Block, ...]"


Block = Heading | Banner | Text | Notes | Facts | Table | Figure | Preformatted | Details | Choice | Finding
BLOCKS: tuple[type[Block], ...] = (
    Heading, Banner, Text, Notes, Facts, Table, Figure, Preformatted, Details, Choice, Finding,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole of it. ``name`` is what was done (``raybench run RUN``); ``title`` that of a window.

    ``lead`` and ``when`` stand below the name, ``footer`` at the end: how the figures were made.
    """

    name: str
    title: str
    verdict: str
    reason: str
    lead: str
    when: str
    blocks: tuple[Block, ...]
    footer: tuple[str, ...] = ()


def notes_of(texts: "tuple[str, ...] | list[str]", tone: str = "") -> tuple[Notes, ...]:
    """A list of sentences; none of none."""
    return (Notes(items=tuple(Note(text=text, tone=tone) for text in texts)),) if texts else ()


def section_blocks(section: Section, *, level: int = 3, mark: str = "") -> tuple[Block, ...]:
    """A section as blocks; ``mark`` goes behind its title."""
    return (Heading(text=section.title + mark, level=level), Table(grid=section.grid), *notes_of(section.notes))
