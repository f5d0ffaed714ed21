"""How a run stands that goes on now, by what its command writes into its folder."""

import stat
from pathlib import Path

import msgspec

from raybench.documents.live_run import FILE, LiveRun
from raybench.errors import UsageError

_LONGEST_BYTES = 64 * 2**20


def live_folder(path: Path) -> Path:
    """The folder of a run that goes on: this one, or of a folder of runs the one that was written last.

    A run that was killed leaves its file behind, and may have begun after one that goes on. Raises UsageError where
    there is none.
    """
    if _written_at(path) is not None:
        return path
    written = [(at, folder) for folder in path.glob("*") if (at := _written_at(folder)) is not None]
    if written:
        return max(written)[1]
    ended = (path / "result.json").is_file()
    more = f"it has ended: raybench show {path}" if ended else f"there is no {FILE} in it, nor in a folder below it"
    raise UsageError(f"no run goes on in {path}: {more}")


def _written_at(folder: Path) -> float | None:
    try:
        state = (folder / FILE).stat()
    except (OSError, ValueError):
        return None
    return state.st_mtime if stat.S_ISREG(state.st_mode) else None


def live_run(path: Path) -> LiveRun:
    """How the run in a folder stands. Raises UsageError where none goes on, or its file is not what a run writes."""
    place = live_folder(path) / FILE
    try:
        with place.open("rb") as file:
            return msgspec.json.decode(file.read(_LONGEST_BYTES), type=LiveRun)
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}; the run may just have ended") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{place} is not what this version of raybench writes: {error}") from error
