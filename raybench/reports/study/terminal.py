"""A study's result on a terminal or in a pipe."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from raybench.documents.study.result import StudyResult
from raybench.reports.columns import Line
from raybench.reports.study.screen import study_screen
from raybench.reports.study.view import emulated_study_notice, order_text, study_sections, study_title
from raybench.reports.terminal.result import comment, print_lines, verdict_lines
from raybench.reports.terminal.section import section_lines
from raybench.reports.text import printable

_STATUS_STYLE = {"complete": "bold green", "partial": "bold yellow", "failed": "bold red"}


def print_study(
    study: StudyResult, stream: IO[str], *, folder: Path, full: bool = True, width: int | None = None
) -> None:
    """Print one screen, or tables, answers and remarks in ``full``. ``width`` in columns is for tests."""
    report = folder / "study.html"
    place = report if report.exists() else folder
    if full:
        print_lines(lambda columns: study_lines(study, columns, folder=folder), stream, width)
    else:
        print_lines(lambda columns: study_screen(study, columns, place=place), stream, width)


def study_lines(study: StudyResult, width: int, *, folder: Path) -> Iterator[Line]:
    """Everything that is printed, as lines of (text, style) segments at most ``width`` columns wide."""
    conclusion = study.conclusion
    yield from verdict_lines(conclusion, width)
    yield from comment(study_title(study), width, "bold")
    yield from _emulated(study, width)
    yield from comment(order_text(study), width, "dim")
    for section in study_sections(study):
        yield (("#", ""),)
        yield from section_lines(section, width, emulated=bool(study.emulated))
    yield (("#", ""),)
    for problem in study.problems:
        yield from comment(f"PROBLEM: {printable(problem)}", width, "bold red")
    for remark in study.remarks:
        yield from comment(f"note: {printable(remark)}", width, "yellow")
    yield from _emulated(study, width)
    yield _status(study)
    for label, name in (("results", ""), ("report", "study.html")):
        if not name or (folder / name).exists():
            yield (("# ", "dim"), (f"{label}: ", ""), (printable(folder / name), "bold"))  # a path is to be copied
    yield from verdict_lines(conclusion, width)


def _status(study: StudyResult) -> Line:
    done = sum(trial.status == "complete" for trial in study.trials)
    of = f" of {len(study.trials)}" if done < len(study.trials) else ""
    status = study.status
    word = "stopped, " if study.stopped else ""
    text = f": {word}{done}{of} trials complete"
    return (("# ", "dim"), (status, _STATUS_STYLE[status]), (text, ""))


def _emulated(study: StudyResult, width: int) -> Iterator[Line]:
    notice = emulated_study_notice(study)
    for line in textwrap.wrap(f"!! {notice}", width - 2, subsequent_indent="!! ") if notice else ():
        yield (("# ", "dim"), (line, "black on yellow"))
