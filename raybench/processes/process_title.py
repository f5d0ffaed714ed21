"""The command line by which ``ps`` shows this process: a fork shows its parent's, with all that the user typed."""

import contextlib
import ctypes
from pathlib import Path

_ARG_START, _ARG_END = 45, 46  # fields 48 and 49 of proc(5), counted from the state on


def set_title(title: str) -> None:
    """Write over this process's own arguments, where the kernel says where they lie. A longer title is cut."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        if 0 < start < end:  # 0 where it is not told
            room = end - start
            ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)
