"""Small files of /proc, /sys and of our own: read where they can be, written whole or not at all."""

from __future__ import annotations

import os


def file_text(path: str) -> str | None:
    """What a file holds; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def first_line(path: str) -> str | None:
    """The first line of a file without spaces around it; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return None


def file_number(path: str) -> int | None:
    """The whole number that a file of sysfs holds; None where it cannot be read or holds something else."""
    try:
        return int(first_line(path) or "")
    except ValueError:
        return None


def replace_file(path: str, content: str, mode: int = 0o600) -> None:
    """Write a file so that whoever reads it finds the old one or the new one, after a power cut too. Raises OSError."""
    partial = path + ".partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
