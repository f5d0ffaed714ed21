"""Any document on a terminal or in a pipe: on one screen, or whole.

Lines that are not figures start with ``#``; the verdict is the first line and the last. On a terminal a table is cut to
its width, the least needed columns first; in a pipe it has all of them. Nothing is parsed as markup, and nothing a node
said can send a control character.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.text import Text

from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import screen_of, terminal_report_of
from raybench.reports.model import Report
from raybench.reports.terminal.block import block_lines
from raybench.reports.terminal.columns import Line
from raybench.reports.terminal.comment import comment, file_line, verdict_lines
from raybench.reports.terminal.screen import screen_lines

PIPE_WIDTH = 200
LEAST_WIDTH = 40  # what is narrower, such as COLUMNS=1, runs over the edge
Files = Sequence[tuple[str, Path]]


def print_document(
    document: Any,
    stream: IO[str],
    *,
    files: Files = (),
    full: bool = False,
    asked: Asked | None = None,
    width: int | None = None,
) -> None:
    """Print a document on one screen, or all of it in ``full`` and where it has no form for a screen.

    ``files`` are (what it is, where it lies). ``width`` in columns is for tests.
    """
    wanted = asked or Asked()
    screen = None if full else screen_of(document, wanted)
    if screen is not None:
        print_report(screen, stream, files=files, width=width, is_screen=True)
    else:
        print_report(terminal_report_of(document, wanted), stream, files=files, width=width)


def run_files(folder: Path, page: Path | None, *, full: bool) -> Files:
    """Where a run or a study lies: on a screen its report, or else its folder."""
    if not full:
        return [("report", page or folder)]
    return [("results", folder), *([("report", page)] if page else [])]


def print_report(
    report: Report, stream: IO[str], *, files: Files = (), is_screen: bool = False, width: int | None = None
) -> None:
    """Print a report fitted to the stream's width, and to a screen's height where it is one."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False, force_jupyter=False)
    wanted = width or (console.width if console.is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH)
    columns = max(wanted, LEAST_WIDTH)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    made = screen_lines(report, columns, files) if is_screen else report_lines(report, columns, files)
    shown = Text("\n").join(_text(line, encoding) for line in made)
    console.print(shown, soft_wrap=True)  # once: rich asks for the terminal's size with each call


def _text(line: Line, encoding: str) -> Text:
    return Text.assemble(*((part.encode(encoding, "backslashreplace").decode(encoding), style) for part, style in line))


def report_lines(report: Report, width: int, files: Files = ()) -> Iterator[Line]:
    """All of it, as lines of (text, style) segments at most ``width`` columns wide."""
    verdict = verdict_lines(report, width)
    yield from verdict
    yield from comment(report.name, width, "bold")
    for line in (report.lead, report.when):
        yield from comment(line, width, "dim") if line else ()
    yield from block_lines(report.blocks, width)
    for line in report.footer:
        yield from comment(line, width, "dim")
    for label, path in files:
        yield file_line(label, path)
    yield from verdict
