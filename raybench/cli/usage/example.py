"""Examples of a help in as many columns as there are: a long command goes on after a backslash, its remark below it."""

import re
import textwrap
from collections.abc import Iterator

_REMARK = re.compile(r"^(\s*\S.*?)(?: {3,}| {2,}# ?)(\S.*)$")


def example_lines(epilog: str, width: int, most: int | None = None) -> list[str]:
    """What stands below the options. With ``most`` so many examples alone, and nothing that follows them."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", epilog.strip("\n")):
        kept = paragraph.startswith("\b")
        rows = paragraph.removeprefix("\b").strip("\n").split("\n")
        if most is not None:
            return [rows[0], *_first(rows[1:], width, most)]
        lines += [""] * bool(lines)
        lines += _examples(rows, width) if kept else textwrap.wrap(" ".join(paragraph.split()), width)
    return lines


def _first(rows: list[str], width: int, most: int) -> Iterator[str]:
    """Those of one line first: a page that has no room for options has none for long commands."""
    short = [row for row in rows if len(list(_folded(row, width))) == 1] or rows
    for row in short[:most]:
        yield from _folded(row, width)


def _examples(rows: list[str], width: int) -> Iterator[str]:
    for row in rows:
        yield from _folded(row, width)


def _folded(row: str, width: int) -> Iterator[str]:
    if len(row) <= width:
        yield row
        return
    if not row.startswith("  "):
        yield from textwrap.wrap(row, width)
        return
    found = _REMARK.match(row)
    command, remark = (found[1], found[2]) if found else (row, "")
    if remark and len(command) + len(remark) + 4 <= width:
        yield f"{command}  # {remark}"
        return
    yield from _continued(command, width)
    if remark:
        yield f"      # {remark}"


def _continued(command: str, width: int) -> Iterator[str]:
    """A command in parts that a shell takes as one, cut before an option where that is possible."""
    while len(command) > width:
        cut = max(command.rfind(" -", 6, width - 2), 0) or command.rfind(" ", 6, width - 2)
        if cut <= 0:
            break
        yield f"{command[:cut]} \\"
        command = f"      {command[cut + 1 :]}"
    yield command
