"""One module of ours at a time on a host: one of an earlier playbook may still run after its connection was cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

_PAUSE_SECONDS = 0.2


@contextlib.contextmanager
def locked(path: str, seconds: float, busy: Exception) -> Iterator[None]:
    """Hold the lock of a file, which is made where it is missing. Raises ``busy`` when it is not free in time."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise busy from None
                time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)
