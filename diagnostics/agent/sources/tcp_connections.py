"""The machine's TCP connections as ``ss`` tells them, a line each, for what is counted by peer."""

import re
import subprocess
from pathlib import Path

from diagnostics.agent.sources.base import SourceUnavailableError

MAX_CONNECTIONS = 20_000  # at some 400 characters each
_COMMAND = ("ss", "-tinHO")
_LIMIT_SECONDS = 2.0
_ALLOCATED = re.compile(r"^TCP: .* alloc (\d+)", re.ASCII | re.MULTILINE)
_END = re.compile(r"\[?(?:::ffff:)?([0-9a-fA-F.:]+)(?:%\S+)?\]?:\d+", re.ASCII)


def connection_lines(proc: Path, most: int = MAX_CONNECTIONS) -> list[str]:
    """A line a connection: state, two queues, both ends, and what the kernel knows of it.

    Raises SourceUnavailableError where ``ss`` is missing, fails or does not answer, and among more than ``most``.
    """
    found = _ALLOCATED.search((proc / "net/sockstat").read_text("ascii", "replace"))
    if found is None or int(found[1]) > most:
        raise SourceUnavailableError(f"more than {most:,} TCP connections, or an unknown number")
    return asked().splitlines()


def asked() -> str:
    """What ``ss`` says. Raises SourceUnavailableError where it is missing, fails or does not answer."""
    try:
        done = subprocess.run(
            _COMMAND,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="ascii",
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceUnavailableError(f"{' '.join(_COMMAND)}: {error}") from error
    return done.stdout


def ends_of(line: str) -> tuple[str, str] | None:
    """Both ends of a connection as ``ss`` writes them; None of a line that is none."""
    fields = line.split(maxsplit=5)
    return (fields[3], fields[4]) if len(fields) >= 5 and address_of(fields[4]) else None


def address_of(end: str) -> str:
    """``10.0.0.2`` of ``[::ffff:10.0.0.2]:5555``; empty for what is none."""
    found = _END.fullmatch(end)
    return found[1] if found else ""
