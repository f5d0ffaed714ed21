"""What a host may take, in Ansible's worker for it: seconds until it has answered, and memory for what it sends."""

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

_LOOK_SECONDS = 0.25
_MOST_GROWTH_BYTES = 64 << 20  # Ansible keeps what comes twice, and copies it with each piece
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024
_MOST_SAID_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16


class HostLimitError(BaseException):
    """A host is over its limit. No Exception, so that a connection plugin does not take it for one of its own."""


class LateError(HostLimitError):
    """The time is over."""


class FloodError(HostLimitError):
    """The host sends far more than any answer has."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise LateError or FloodError in the block, unless the task has a time limit of Ansible's own."""
    if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    deadline, most = time.monotonic() + seconds, _most_memory_bytes() + _MOST_GROWTH_BYTES

    def look(*_: object) -> None:
        late = time.monotonic() >= deadline
        if late or _most_memory_bytes() > most:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise LateError if late else FloodError

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, min(_LOOK_SECONDS, seconds), _LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _most_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES


def end_children() -> None:
    """End the connection's programs and what they started, which Ansible leaves behind when a task runs out of time."""
    asked = ["ps", "-A", "-o", "pid=,ppid="]
    listed = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=10)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    ours = {os.getpid()}
    for _ in range(len(pairs)):
        below = {pid for pid, parent in pairs if parent in ours} - ours
        if not below:
            break
        ours |= below
    for pid in ours - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def said_by(command: Sequence[str], seconds: float) -> tuple[str, str]:
    """Standard error and standard output of a program, as far as they came in time; about 1 MiB of each at most."""
    deadline = time.monotonic() + seconds
    errors, output = bytearray(), bytearray()
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        selector.register(process.stdout, selectors.EVENT_READ, output)
        while selector.get_map() and max(len(errors), len(output)) < _MOST_SAID_BYTES:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE_BYTES)
                key.data.extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            if not ready:
                break
        process.kill()
    return errors.decode("utf-8", "replace"), output.decode("utf-8", "replace")
