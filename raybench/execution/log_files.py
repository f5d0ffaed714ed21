"""Log files of ranks: their names, a cap that a C library cannot write past, and what is brought home of them.

NCCL opens NCCL_DEBUG_FILE itself and writes for as long as it runs; with every subsystem on that is a line an
operation. The cap works below it: once the file is too long, its descriptor is pointed (dup2) at a second file, and
from then on at a fresh one each time that has filled, so that the beginning and the end are kept and the middle is not.
"""

import os
import re
import shutil
from collections.abc import Container, Mapping
from pathlib import Path

from raybench.benchmarks.rank.folder import PASSING

ACTIVITY = "activity.txt"  # what every rank did when the run broke, and what the agents saw then
FLIGHT_RECORD = "nccl_trace_rank_"  # and the rank: PyTorch's flight record, as 'raybench diagnose' knows it
_OF_RANK = re.compile(
    rf"(?:(?:nccl|output|trace)-rank-|{FLIGHT_RECORD})([0-9]{{1,7}})(?:[-.][\w.+-]{{1,150}})?", re.ASCII
)
_TAIL_CHARACTERS = 2000
_READ_BLOCK = 2**20


NCCL_LOGS = "nccl-rank-*.log"


def log_name(rank: int) -> str:
    """File name of a rank's NCCL log."""
    return f"nccl-rank-{rank}.log"


def output_name(rank: int) -> str:
    """File name of what a rank printed."""
    return f"output-rank-{rank}.log"


def logs_of(ranks: Container[int], found: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of the files that a node sent whose names are of its own ranks: nobody speaks for another node's."""
    named = {name: _OF_RANK.fullmatch(name) for name in found}
    return {name: found[name] for name, match in named.items() if match and int(match[1]) in ranks}


def remove_files_of_ranks(folder: Path) -> None:
    """Remove what ranks have left in a folder, for those of another run: they must not be taken for theirs."""
    for path in folder.iterdir():
        if path.name.startswith(PASSING):
            shutil.rmtree(path, ignore_errors=True)
        elif _OF_RANK.fullmatch(path.name):
            path.unlink(missing_ok=True)


class LogCap:
    """Keeps the log of one process below a limit: the first half of it, and up to the last half."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path, self._half = path, max(limit_bytes // 2, 1)
        self._descriptor: int | None = None
        self._later = 0

    def enforce(self) -> None:
        """Look at the file's length and move on to the next piece when it is too long. Never raises OSError."""
        try:
            self._enforce()
        except OSError:
            return

    def _enforce(self) -> None:
        current = piece_path(self._path, self._later)
        if not current.exists() or current.stat().st_size < self._half:
            return
        if self._descriptor is None:
            self._descriptor = _descriptor_of(current)
        if self._descriptor is None:
            return
        self._later += 1
        following = os.open(piece_path(self._path, self._later), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(following, self._descriptor)
        os.close(following)
        if self._later > 2:  # the first piece, the last full one and the current one stay
            piece_path(self._path, self._later - 2).unlink(missing_ok=True)


def piece_path(path: Path, number: int) -> Path:
    """The file that holds a piece of a log: the log itself, then ``.1``, ``.2``, ..."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def _descriptor_of(path: Path) -> int | None:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if entry.samefile(path):
                return int(entry.name)
        except OSError:
            continue
    return None


def capped_log(path: Path, limit_bytes: int) -> bytes:
    """The log with its later pieces, cut to the limit with a line that says how much is missing where."""
    pieces = sorted(path.parent.glob(f"{path.name}.[0-9]*"), key=lambda piece: int(piece.suffix[1:]))
    head = _read(path, limit_bytes, end=False)
    if not pieces:
        whole = path.stat().st_size
        if whole <= limit_bytes:
            return head
        half = limit_bytes // 2
        return head[:half] + _gap(whole - 2 * half) + _read(path, half, end=True)
    tail = b"".join(_read(piece, limit_bytes, end=True) for piece in pieces[-2:])
    return head[: limit_bytes // 2] + _gap(None) + tail[-(limit_bytes // 2) :]


def _gap(missing: int | None) -> bytes:
    amount = "an unknown number of" if missing is None else str(missing)
    return f"\n[raybench: {amount} bytes left out here, the log is longer than its limit]\n".encode()


def _read(path: Path, limit_bytes: int, *, end: bool) -> bytes:
    with path.open("rb") as file:
        if end:
            file.seek(max(path.stat().st_size - limit_bytes, 0))
        return file.read(limit_bytes)


def tail_of(path: Path) -> str:
    """The last text of a file; empty where there is none."""
    try:
        return _read(path, _TAIL_CHARACTERS, end=True).decode("utf-8", errors="replace")
    except OSError:
        return ""
