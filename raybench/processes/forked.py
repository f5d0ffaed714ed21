"""What a process that was forked from the command, and goes on by itself, keeps of it: as little as possible."""

import contextlib
import os
import sys
from pathlib import Path


def keep_only(*descriptors: int) -> None:
    """Close what the command has open: its end of pipes, and the disk space that it reserves."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number > 2 and number not in descriptors:
            with contextlib.suppress(OSError):
                os.close(number)


def print_to(path: Path) -> None:
    """Read nothing, and print to a file instead of the command's terminal."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for number, descriptor in ((0, source), (1, target), (2, target)):
        os.dup2(descriptor, number)
    os.close(target)
    os.close(source)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
