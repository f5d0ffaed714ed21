"""One srun of the batch program: the task that holds Ray on one node, and what is heard of it."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from raybench.launchers.slurm.messages import NodeOrder, NodeState

_LINE_BYTES = 1 << 16
_SAID_BYTES = 800


class NodeStep:
    """Started at once. Where Ray is, is known once it is neither ``starting`` nor has a ``problem``."""

    def __init__(self, name: str, order: NodeOrder, options: Sequence[str], errors: Path) -> None:
        """``options`` are more of srun's. ``errors``: a file for what srun and the task print."""
        self.name = name
        self._errors = errors
        self._state: NodeState | None = None
        with errors.open("wb") as file:
            self._srun = subprocess.Popen(
                srun_words(name, options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
            )
        assert self._srun.stdin is not None
        with contextlib.suppress(OSError):
            self._srun.stdin.write(msgspec.json.encode(order) + b"\n")
            self._srun.stdin.flush()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def starting(self) -> bool:
        """Whether neither Ray nor the end of it was heard of."""
        return self._state is None

    @property
    def address(self) -> str:
        """HOST:PORT of the head; empty before Ray is up."""
        return self._state.address if self._state else ""

    @property
    def token_path(self) -> str:
        """Where the node has the token."""
        return self._state.token_path if self._state else ""

    @property
    def problem(self) -> str:
        """Why Ray is not up here; empty where it is, or was when it was asked to end."""
        if self._state is None:
            return "nothing was heard of it in time"
        return "" if self._state.phase == "ready" else self._state.reason

    def let_go(self) -> None:
        """End the task's input, upon which it takes Ray down."""
        if self._srun.stdin is not None:
            with contextlib.suppress(OSError):
                self._srun.stdin.close()

    def end(self, seconds: float) -> None:
        """Wait for srun to end, then end it."""
        for stop in (self._srun.terminate, self._srun.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._srun.wait(seconds)
                return
            stop()
            seconds = 5.0

    def _listen(self) -> None:
        assert self._srun.stdout is not None
        while line := self._srun.stdout.readline(_LINE_BYTES):
            self._state = state_in(line) or self._state
        if self._state is None:
            self._srun.wait()
            self._state = NodeState(phase="failed", reason=f"srun ended: {self._last_words() or 'without a word'}")

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return " ".join(self._errors.read_bytes()[-_SAID_BYTES:].decode("utf-8", "replace").split())
        return ""


def state_in(line: bytes) -> NodeState | None:
    """What a task says of its node; None for a line that says nothing, such as a login script's."""
    try:
        return msgspec.json.decode(line, type=NodeState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def srun_words(name: str, options: Sequence[str]) -> list[str]:
    """The srun of one node. It may share the job's processors and GPUs with the command, and binds nothing."""
    return [
        *("srun", "--nodes=1", "--ntasks=1", f"--nodelist={name}", "--overlap", "--export=ALL", "--mpi=none"),
        *("--cpu-bind=none", "--kill-on-bad-exit=0", "--unbuffered", "--quiet"),
        *(option if option.startswith("-") else f"--{option}" for option in options),
        *(sys.executable, "-P", "-m", "raybench.launchers.slurm.node_task"),
    ]
