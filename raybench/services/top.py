"""How a run stands that goes on now, by what its command writes into its folder."""

from pathlib import Path

import msgspec

from raybench.documents.live_run import FILE, LiveRun
from raybench.errors import UsageError

_LONGEST_BYTES = 64 * 2**20


def live_run(path: Path) -> LiveRun:
    """The run in a folder, or the latest one in a folder of runs. Raises UsageError where none goes on."""
    folders = [path, *sorted(path.glob("*"), reverse=True)]
    place = next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)
    if place is None:
        ended = (path / "result.json").is_file()
        more = f"it has ended: raybench show {path}" if ended else f"there is no {FILE} in it, nor in a folder below it"
        raise UsageError(f"no run goes on in {path}: {more}")
    try:
        with place.open("rb") as file:
            return msgspec.json.decode(file.read(_LONGEST_BYTES), type=LiveRun)
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}; the run may just have ended") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{place} is not what this version of raybench writes: {error}") from error
