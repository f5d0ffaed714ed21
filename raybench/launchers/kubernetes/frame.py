"""A folder of results in what a container prints: an archive in numbered lines, so that logs bring it home.

A pod that has ended takes no ``kubectl cp``. Lines of others between them, time stamps before them and cut ends are
told: only an archive that is whole, by its digest, is unpacked.
"""

import base64
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from raybench.errors import IncompleteRunError

MOST_BYTES = 512 * 2**20  # of the archive, and 8 times that unpacked
_UNPACKED = 8
_MOST_FILES = 100_000
_WIDTH = 12_000  # container runtimes cut lines at 16 KiB
_BEGIN = re.compile(r"RAYBENCH-RESULTS begin lines=([0-9]{1,8}) sha256=([0-9a-f]{64})$")
_PART = re.compile(r"RAYBENCH-RESULTS ([0-9]{1,8}) ([A-Za-z0-9+/=]{1,16000})$")


def framed(folder: Path) -> Iterator[str]:
    """The lines that hold a folder's files. Raises IncompleteRunError where they are too many for a log."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)
    data = buffer.getvalue()
    if len(data) > MOST_BYTES:
        raise IncompleteRunError(
            f"the results are {len(data)} bytes packed, too many for a log; copy {folder} by kubectl cp"
        )
    text = base64.b64encode(data).decode("ascii")
    parts = [text[begin : begin + _WIDTH] for begin in range(0, len(text), _WIDTH)]
    yield f"RAYBENCH-RESULTS begin lines={len(parts)} sha256={hashlib.sha256(data).hexdigest()}"
    yield from (f"RAYBENCH-RESULTS {number} {part}" for number, part in enumerate(parts))


def without_frame(lines: Iterable[str]) -> Iterator[str]:
    """What a person reads of such a log."""
    return (line for line in lines if "RAYBENCH-RESULTS " not in line)


def unpacked(lines: Iterable[str], folder: Path) -> list[Path]:
    """Unpack the last whole archive in these lines into a folder. Returns its files.

    Raises IncompleteRunError where there is none, or it is cut, or it is none of ours.
    """
    data = _joined(lines)
    folder.mkdir(parents=True, exist_ok=True)
    left = MOST_BYTES * _UNPACKED
    written: list[Path] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                left -= member.size
                if not member.isfile() or left < 0 or len(written) >= _MOST_FILES:
                    raise IncompleteRunError(
                        "the results in the log are not as raybench packs them; nothing more is unpacked"
                    )
                archive.extract(member, folder, filter="data")
                written.append(folder / member.name)
    except (tarfile.TarError, zlib.error, OSError, EOFError) as error:
        raise IncompleteRunError(f"the results in the log cannot be unpacked: {error}") from error
    return written


def _joined(lines: Iterable[str]) -> bytes:
    count, digest = 0, ""
    parts: dict[int, str] = {}
    for line in lines:
        text = line.rstrip("\r\n")
        if (begin := _BEGIN.search(text)) is not None:
            count, digest, parts = int(begin[1]), begin[2], {}
        elif digest and (part := _PART.search(text)) is not None:
            parts[int(part[1])] = part[2]
            if len(parts) * _WIDTH > 2 * MOST_BYTES:
                raise IncompleteRunError("the results in the log are longer than any that raybench writes")
    if not digest:
        raise IncompleteRunError("the log has no results: the run did not come to the point where it writes them")
    missing = [number for number in range(min(count, MOST_BYTES // _WIDTH + 1)) if number not in parts]
    if missing:
        raise IncompleteRunError(
            f"the results in the log are cut: {len(missing)} of {count} lines are missing, from line {missing[0]} on"
        )
    data = base64.b64decode("".join(parts[number] for number in range(count)))
    if hashlib.sha256(data).hexdigest() != digest:
        raise IncompleteRunError("the results in the log are damaged: their digest is another")
    return data
