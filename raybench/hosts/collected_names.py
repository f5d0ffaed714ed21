"""Names of remote files as local ones: whatever a host calls a file, it is written below the host's folder."""

import hashlib
import re
from pathlib import Path

_PLAIN = re.compile(rb"[A-Za-z0-9._+=,@:-]")
_LONGEST = 150
_DIGEST_LETTERS = 12


def local_part(name: str) -> str:
    r"""One part of a path, made plain: ``/``, control characters and the like become ``%XX``, as all of ``..`` does.

    A name that is too long is cut and keeps a digest of the whole.

    >>> local_part("..")
    '%2E%2E'
    >>> local_part("nccl log\n.txt")
    'nccl%20log%0A.txt'
    """
    raw = name.encode("utf-8", "surrogateescape")
    text = "".join(
        chr(byte) if _PLAIN.fullmatch(bytes([byte])) and set(raw) != {ord(".")} else f"%{byte:02X}" for byte in raw
    )
    if len(text) <= _LONGEST:
        return text or "%00"
    return f"{text[:_LONGEST]}~{hashlib.sha256(raw).hexdigest()[:_DIGEST_LETTERS]}"


def local_path(folder: Path, remote: str) -> Path:
    """Where the file at a remote path is written: each part made plain, below ``folder``."""
    parts = [local_part(part) for part in remote.split("/") if part]
    return folder.joinpath(*parts or ["%00"])
