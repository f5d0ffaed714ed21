"""Colours by tone, and lines of text as they stand on a terminal."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from raybench.reports.model import Report
from raybench.reports.terminal.columns import Line
from raybench.reports.text import printable

EMULATED = "black on yellow"
STYLES = {
    "soft": "dim",
    "strong": "bold",
    "heading": "bold cyan",
    "emulated": EMULATED,
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "info": "cyan",
    "warning": "yellow",
    "critical": "bold red",
    "pass": "green",
    "fail": "bold red",
    "error": "bold magenta",
    "unknown": "cyan",
    "skipped": "dim",
}
VERDICT_STYLES = {
    "ok": "bold green",
    "pass": "bold green",
    "warning": "bold yellow",
    "warn": "bold yellow",
    "incomplete": "bold yellow",
    "critical": "bold red",
    "fail": "bold red",
    "error": "bold magenta",
    "unknown": "bold magenta",
}


def style_of(tone: str) -> str:
    """The style of a tone; none of one that is not listed."""
    return STYLES.get(tone, "")


def comment(text: str, width: int, style: str = "") -> Iterator[Line]:
    """Text as comment lines no wider than the terminal, continued lines indented; those of emulated figures marked."""
    mark = "!! " if style == EMULATED else ""
    wrapped = textwrap.wrap(
        f"{mark}{printable(text)}", max(20, width - 2), subsequent_indent=mark or "  ", break_on_hyphens=False
    )
    for line in wrapped or [""]:
        yield (("# ", "dim"), (line, style))


def cut(text: str, width: int) -> str:
    """Text of at most so many characters; what is left out is marked."""
    shown = printable(text)
    return shown if len(shown) <= width else f"{beginning(shown, max(width - 3, 0))}..."


def beginning(text: str, length: int) -> str:
    """Not more than so many characters, and no part of a figure, which would read as a smaller one."""
    kept = text[:length]
    _, space, last = kept.rpartition(" ")
    is_part = bool(space) and not text[length : length + 1].isspace() and any(map(str.isdigit, last))
    return kept[: -len(last)].rstrip() if is_part and len(kept) < len(text) else kept


def verdict_lines(report: Report, width: int, most: int | None = None) -> list[Line]:
    """The verdict, first and last of what a command prints; ``most`` characters of its reason."""
    if not report.verdict:
        return []
    reason = cut(report.reason, most) if most else report.reason
    text = f"VERDICT: {report.verdict.upper()}{f': {reason}' if reason else ''}"
    return [*comment(text, width, VERDICT_STYLES.get(report.verdict, "bold"))]


def file_line(label: str, path: Path, remark: str = "") -> Line:
    """Where something is. A path is to be copied, so it is never wrapped."""
    return (("# ", "dim"), (f"{label}: ", ""), (printable(path), "bold"), (remark, "dim"))
