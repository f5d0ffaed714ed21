"""A study's result on a terminal or in a pipe."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from raybench.reports.columns import Line
from raybench.reports.study_screen import study_screen
from raybench.reports.study_view import emulated_study_notice, order_text, study_sections, study_title
from raybench.reports.terminal import comment, print_lines, verdict_lines
from raybench.reports.terminal_section import section_lines
from raybench.reports.text import inert
from raybench.verdicts import Conclusion

_STATUS_STYLE = {"complete": "bold green", "partial": "bold yellow", "failed": "bold red"}


def print_study(
    content: dict[str, Any], stream: IO[str], *, folder: Path, full: bool = True, width: int | None = None
) -> None:
    """Print one screen, or tables, answers and remarks in ``full``. ``width`` in columns is for tests."""
    report = folder / "study.html"
    place = report if report.exists() else folder
    if full:
        print_lines(lambda columns: study_lines(content, columns, folder=folder), stream, width)
    else:
        print_lines(lambda columns: study_screen(content, columns, place=place), stream, width)


def study_lines(content: dict[str, Any], width: int, *, folder: Path) -> Iterator[Line]:
    """Everything that is printed, as lines of (text, style) segments at most ``width`` columns wide."""
    conclusion = Conclusion(verdict=content["verdict"], reason=content["verdict_reason"])
    yield from verdict_lines(conclusion, width)
    yield from comment(study_title(content), width, "bold")
    yield from _emulated(content, width)
    yield from comment(order_text(content), width, "dim")
    for section in study_sections(content):
        yield (("#", ""),)
        yield from section_lines(section, width, emulated=bool(content["emulated"]))
    yield (("#", ""),)
    for problem in content["problems"]:
        yield from comment(f"PROBLEM: {inert(problem)}", width, "bold red")
    for remark in content["remarks"]:
        yield from comment(f"note: {inert(remark)}", width, "yellow")
    yield from _emulated(content, width)
    yield _status(content)
    for label, name in (("results", ""), ("report", "study.html")):
        if not name or (folder / name).exists():
            yield (("# ", "dim"), (f"{label}: ", ""), (inert(folder / name), "bold"))  # a path is to be copied
    yield from verdict_lines(conclusion, width)


def _status(content: dict[str, Any]) -> Line:
    done = sum(trial["status"] == "complete" for trial in content["trials"])
    of = f" of {len(content['trials'])}" if done < len(content["trials"]) else ""
    status = content["status"]
    word = "stopped, " if content["stopped"] else ""
    text = f": {word}{done}{of} trials complete"
    return (("# ", "dim"), (status, _STATUS_STYLE[status]), (text, ""))


def _emulated(content: dict[str, Any], width: int) -> Iterator[Line]:
    notice = emulated_study_notice(content)
    for line in textwrap.wrap(f"!! {notice}", width - 2, subsequent_indent="!! ") if notice else ():
        yield (("# ", "dim"), (line, "black on yellow"))
