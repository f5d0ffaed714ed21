"""The diagnostics agent of this machine, as a process below this one: started, told what to watch, heard, ended.

What it says is passed on in pieces of bounded size and rate, whatever it says: a noisy agent costs its own messages. It
ends with its standard input, and the kernel kills it when the thread that started it ends, stopped or not.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from diagnostics.agent.messages import Source, Watch, encode

MODULE = "diagnostics.agent"
_PIECE_BYTES = 2**16
_PAUSE_SECONDS = 0.25
_END_SECONDS = 1.0
_TAIL_BYTES = 1200


class AgentProcess:
    """One agent. ``pass_on`` gets what it says, as bytes with lines in them, from a thread of this object."""

    def __init__(self, host: str, folder: str, pass_on: Callable[[bytes], None]) -> None:
        self._command = [sys.executable, "-P", "-m", MODULE, "--control", f"--host={host}"]
        self._command += [f"--folder={folder}"]
        self._pass_on = pass_on
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._ending = threading.Event()
        self._tail = b""
        self._thread = threading.Thread(target=self._live, daemon=True, name="agent")
        self._thread.start()

    def watch(self, pids: Sequence[int], logs: Sequence[str]) -> None:
        """Have it look at processes of ranks, and at NCCL logs. One that has ended, or does not read, is not told."""
        self._started.wait(_END_SECONDS)
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(encode(Watch(pids=tuple(pids), logs=tuple(logs))).encode() + b"\n")
            process.stdin.flush()

    def end(self) -> None:
        """Close its input, hear what it says last, and kill it where it does not end: it holds nothing."""
        self._ending.set()
        self._started.wait(_END_SECONDS)
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            self._thread.join(_END_SECONDS)
            process.kill()
        self._thread.join(_END_SECONDS)

    def _live(self) -> None:
        """The life of the process, in a thread that lives as long."""
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
            )
        except OSError as error:
            self._say_why(f"it does not start: {error}")
            return
        else:
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)  # one that is stopped, and reads nothing, holds nobody
        finally:
            self._started.set()
        self._hear(self._process)
        status = self._process.wait()
        if not self._ending.is_set():
            words = self._tail.decode("utf-8", "replace").strip().splitlines()
            self._say_why(f"it ended with status {status}" + (f": {words[-1][:300]}" if words else ""))

    def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        """A piece at a time and no faster: meanwhile the pipe is full, and the agent drops what it has to say."""
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            while not self._ending.is_set() and (piece := process.stdout.read(_PIECE_BYTES)):
                self._tail = (self._tail + piece)[-_TAIL_BYTES:]
                self._pass_on(piece)
                self._ending.wait(_PAUSE_SECONDS)
            last = b""
            while len(last) < _PIECE_BYTES and (piece := process.stdout.read(_PIECE_BYTES - len(last))):
                last += piece
            if last:
                self._pass_on(last)

    def _say_why(self, reason: str) -> None:
        """As the agent itself says it of a source that it cannot read."""
        message = Source(monotonic_seconds=time.monotonic(), name="agent", available=False, reason=reason)
        self._pass_on(b"\n" + encode(message).encode() + b"\n")
