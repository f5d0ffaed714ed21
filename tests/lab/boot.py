"""Starting a node: the plan that its pid 1 carries out, and the process that this machine sees of it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .errors import LabSetupError
from .requirement import search_path

BOOT_SECONDS = 30.0
_INIT = Path(__file__).with_name("init.py")
_OVERLAID = ("/etc", "/var")
_EMPTIED = {"/root": "700", "/tmp": "1777", "/run": "755", "/dev/shm": "1777"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    """A file that a node finds at boot."""

    text: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPlan:
    """What is a node's own: its name, ``files`` by path, the ``daemon`` that it starts, and its folders.

    Folders ``overlaid`` show the machine's content and keep writes to the node; those in ``emptied`` are tmpfs with
    that mode; those in ``visible`` are the machine's, writes included, even below one of the others. The home is empty
    because start-up files of the machine's root could do anything to a shell in a node, and its keys are its own.
    """

    hostname: str
    overlaid: tuple[str, ...] = _OVERLAID
    emptied: dict[str, str] = field(default_factory=_EMPTIED.copy)
    visible: tuple[str, ...] = ()
    files: dict[str, NodeFile] = field(default_factory=dict)
    daemon: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node as this machine sees it: the launcher, our child, and ``init_pid``, pid 1 of the node."""

    launcher: subprocess.Popen[bytes]
    init_pid: int
    log: Path

    def wait_ready(self) -> None:
        """Return once the node is furnished. Raises LabSetupError with what its pid 1 wrote."""
        if _read_line(self.launcher, self.log) != "ready":
            raise LabSetupError(f"the node logging to {self.log} did not come up: {self.log.read_text().strip()}")

    def power_off(self) -> None:
        """Kill pid 1, upon which the kernel kills every process of the node. Does not wait."""
        if self.launcher.poll() is None:
            os.kill(self.init_pid, signal.SIGKILL)  # not reused: the launcher has not reaped it, or is still alive

    def wait_off(self, seconds: float = 60.0) -> None:
        """Return once no process of the node is left. Raises LabSetupError when one does not die."""
        try:
            self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            raise LabSetupError(
                f"pid 1 of a node ({self.init_pid}) is still there {seconds:g} s after SIGKILL: a process of the node "
                "hangs in the kernel; look at its /proc/PID/stack"
            ) from None
        if self.launcher.stdout is not None:
            self.launcher.stdout.close()


def start_machine(plan: BootPlan, log: Path) -> Machine:
    """Start a node and return as soon as its namespaces exist, so that it is furnished and wired at the same time."""
    owner = os.pidfd_open(os.getpid())
    try:
        with log.open("ab") as errors:
            launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_INIT), plan.hostname],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[owner],
                start_new_session=True,
            )
    finally:
        os.close(owner)
    assert launcher.stdin is not None
    with contextlib.suppress(BrokenPipeError), launcher.stdin:
        carried = asdict(plan) | {"owner_descriptor": owner, "path": search_path()}
        launcher.stdin.write(json.dumps(carried).encode())
    return Machine(launcher=launcher, init_pid=int(_read_line(launcher, log)), log=log)


def _read_line(launcher: subprocess.Popen[bytes], log: Path) -> str:
    """One line of a launcher's output. The pipe is read byte by byte: what is not asked for stays in it."""
    assert launcher.stdout is not None
    line, deadline = b"", time.monotonic() + BOOT_SECONDS
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([launcher.stdout], [], [], max(0.0, deadline - time.monotonic()))
        letter = os.read(launcher.stdout.fileno(), 1) if ready else b""
        if not letter:
            launcher.kill()
            launcher.wait()
            raise LabSetupError(f"a node did not come up: {log.read_text().strip() or f'no answer, see {log}'}")
        line += letter
    return line.decode().strip()
