"""Which process a number stands for: numbers are used again, the start time with them is not."""

from __future__ import annotations

from .files import file_text


def fields(stat: str) -> list[str]:
    """Fields of /proc/PID/stat from the third on, the state first (proc(5)).

    The name before them stands in brackets and may hold any character, brackets too.
    """
    return stat.rpartition(")")[2].split()


def start_ticks(pid: int | str) -> int | None:
    """When a process began, in clock ticks since the boot; None once it has ended, a zombie too."""
    found = fields(file_text(f"/proc/{pid}/stat") or "")
    return int(found[19]) if len(found) > 19 and found[0] not in ("Z", "X") else None
