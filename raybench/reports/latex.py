r"""A report as LaTeX, to be put into a paper by ``\input``: its tables as ``tabular``, of figures what they say.

No package is needed beyond LaTeX itself, and no command is left in a text: all of it is escaped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import report_of
from raybench.reports.model import (
    Banner,
    Block,
    Choice,
    Details,
    Facts,
    Figure,
    Finding,
    Grid,
    Heading,
    Notes,
    Preformatted,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.text import printable

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # behind \\ or \item it would begin an option
    "]": "{]}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}


def render_latex(document: Any, diagnosis: Diagnosis | None = None) -> str:
    """A document in short, as a part of a LaTeX file."""
    report = report_of(document, Asked(brief=True, diagnosis=diagnosis))
    head = [f"\\section*{{{escaped(report.name)}}}"]
    if report.verdict:
        head.append(f"\\textbf{{{escaped(report.verdict)}}}: {escaped(report.reason)}\n")
    head += [f"{escaped(line)}\n" for line in (report.lead, report.when) if line]
    foot = [f"{escaped(line)}\n" for line in report.footer]
    return "\n".join((*head, *_lines(report.blocks), *foot)) + "\n"


def escaped(text: object) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_ESCAPED.get(character, character) for character in printable(text))


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        yield from _RENDERED[type(block)](block)


def _heading(block: Heading) -> Iterator[str]:
    yield f"\\{'sub' * (block.level - 1)}section*{{{escaped(block.text)}}}"


def _paragraph(block: Banner) -> Iterator[str]:
    yield f"\\textbf{{{escaped(block.text)}}}\n"


def _text(block: Text) -> Iterator[str]:
    yield f"{escaped(block.text)}{f' ({escaped(block.link)})' if block.link else ''}\n"


def _notes(block: Notes) -> Iterator[str]:
    yield from _list(escaped(note.subject + note.text) for note in block.items)


def _facts(block: Facts) -> Iterator[str]:
    yield from _list(f"{escaped(name)}: {escaped(value)}" for name, value in block.pairs)


def _list(items: Iterator[str]) -> Iterator[str]:
    lines = [f"\\item {item}" for item in items]
    if lines:  # LaTeX refuses a list without an item
        yield from (r"\begin{itemize}", *lines, "\\end{itemize}\n")


def _table(block: Table) -> Iterator[str]:
    """The first columns, which are text, to the left; figures to the right."""
    if not block.grid.headings:
        return
    text = min(block.text_columns, len(block.grid.headings))
    yield r"\begin{table}[ht]\centering"
    yield from _grid(block.grid, "l" * text + "r" * (len(block.grid.headings) - text))
    if block.caption:
        yield f"\\caption{{{escaped(block.caption)}}}"
    yield "\\end{table}\n"


def _grid(grid: Grid, columns: str) -> Iterator[str]:
    yield f"\\begin{{tabular}}{{{columns}}}\n\\hline"
    if any(title for title, _ in grid.groups):
        yield _row(f"\\multicolumn{{{span}}}{{c}}{{{escaped(title)}}}" for title, span in grid.groups)
    yield _row(map(escaped, grid.headings)) + "\n\\hline"
    for row in grid.rows:
        yield _row(f"\\textbf{{{escaped(cell.text)}}}" if cell.tone == "bad" else escaped(cell.text) for cell in row)
    yield "\\hline\n\\end{tabular}"


def _row(cells: "Iterator[str] | map[str]") -> str:
    return f"{' & '.join(cells)} \\\\"


def _figure(block: Figure) -> Iterator[str]:
    yield f"{escaped(block.plot.title)}: {escaped(block.plot.description)}\n"


def _preformatted(block: Preformatted) -> Iterator[str]:
    yield f"\\texttt{{{escaped(block.text)}}}\n"


def _details(block: Details) -> Iterator[str]:
    yield f"\\paragraph{{{escaped(block.summary)}}}\n"
    yield from _lines(block.blocks)


def _choice(block: Choice) -> Iterator[str]:
    yield from _lines(block.forms[0])


def _finding(block: Finding) -> Iterator[str]:
    yield f"\\paragraph{{{escaped(block.headline)}}}\n"
    yield from _lines(block.blocks)


_RENDERED: Mapping[type[Block], Callable[[Any], Iterator[str]]] = {
    Heading: _heading, Banner: _paragraph, Text: _text, Notes: _notes, Facts: _facts, Table: _table, Figure: _figure,
    Preformatted: _preformatted, Details: _details, Choice: _choice, Finding: _finding,
}  # fmt: skip
