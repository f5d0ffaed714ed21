"""Compiled patterns, kept in the user's cache folder: compiling them takes a fifth of the time of a large log.

A file counts only where the user owns it, nobody else may write to it, and its content has the digest that it begins
with. Where nothing can be kept, the patterns are compiled each time.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

MAX_BYTES = 2**24
_DIGEST_BYTES = sha256().digest_size


def file_of(expressions: Sequence[bytes], release: str) -> Path | None:
    """Where a set of expressions that a release compiles is kept; None where the user has no folder for it."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    name = sha256(b"\n".join([release.encode(), os.uname().machine.encode(), *expressions])).hexdigest()
    return folder / "raybench" / f"patterns-{name[:32]}" if folder.is_absolute() else None


def read(file: Path) -> bytes | None:
    """What is kept in a file; None where it is not there, or not to be trusted."""
    try:
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as opened:
            status = os.fstat(number)
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
            content = opened.read(MAX_BYTES) if own else b""
    except OSError:
        return None
    kept = content[_DIGEST_BYTES:]
    return kept if kept and sha256(kept).digest() == content[:_DIGEST_BYTES] else None


def write(file: Path, kept: bytes) -> None:
    """Keep something in a file, as far as the folder can be written to; processes may do so at once.

    Root under ``sudo`` keeps nothing in the home of the user who called it: that user could not write there any more.
    """
    import tempfile  # it takes some milliseconds, and is seldom needed

    with suppress(OSError):
        above = next(folder for folder in file.parents if folder.exists())
        if above.stat().st_uid != os.geteuid():
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix="new-") as folder:
            new = Path(folder) / "patterns"
            new.write_bytes(sha256(kept).digest() + kept)
            new.chmod(0o600)
            new.replace(file)
