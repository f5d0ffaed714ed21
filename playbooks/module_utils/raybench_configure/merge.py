"""Taking one change out of a text that has been changed again since."""

from __future__ import annotations

import difflib

Hunk = tuple[int, int, list[str]]


def take_back(before: str, after: str, current: str) -> str | None:
    """``current`` with the change from ``before`` to ``after`` undone, and what was edited since kept.

    The two sets of edits are read as lines that replace lines of ``after``. None where they touch each other: which of
    them is meant is then for a person to say.
    """
    base = after.splitlines(keepends=True)
    ours = _hunks(base, before.splitlines(keepends=True))
    theirs = _hunks(base, current.splitlines(keepends=True))
    if any(_touch(mine, other) for mine in ours for other in theirs):
        return None
    lines = list(base)
    for start, end, replacement in sorted(ours + theirs, key=lambda hunk: hunk[:2], reverse=True):
        lines[start:end] = replacement
    whole = [line if line.endswith("\n") else f"{line}\n" for line in lines[:-1]]
    return "".join([*whole, *lines[-1:]])


def _hunks(base: list[str], changed: list[str]) -> list[Hunk]:
    matcher = difflib.SequenceMatcher(None, base, changed, autojunk=False)
    return [(i1, i2, changed[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def _touch(mine: Hunk, other: Hunk) -> bool:
    """Whether two hunks share a line, or one inserts strictly inside the other or at the very same place."""
    if mine[0] == mine[1] and other[0] == other[1]:
        return mine[0] == other[0]
    return mine[0] < other[1] and other[0] < mine[1]
