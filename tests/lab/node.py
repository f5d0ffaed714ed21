"""A node of the lab, as a test handles it: run commands in it, list its processes, cut its cable, kill it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from .boot import Machine
from .errors import NodeDownError
from .network import Cable
from .process import Process, children_of, leftovers, pid_namespace, processes_of

_ENTER = Path(__file__).with_name("enter.py")
Stream = int | IO[str] | None


class Node:
    """A running node. ``number`` counts from 1; the control node, which carries the bridge, is number 0.

    ``environment`` is what commands get: nothing is inherited from the test's own. Ray adds its token to it.
    """

    def __init__(
        self, *, hostname: str, address: str, machine: Machine, cables: Sequence[Cable], environment: Mapping[str, str]
    ) -> None:
        self.number = cables[0].number
        self.hostname = hostname
        self.address = address
        self.machine = machine
        self.cables = tuple(cables)  # by rail
        self.environment = dict(environment)
        self._namespace = pid_namespace(machine.init_pid)
        self._commands: list[subprocess.Popen[str]] = []
        self._settled = False

    def __repr__(self) -> str:
        return f"Node({self.number}, {self.hostname}, {self.address}, {'up' if self.alive else 'down'})"

    @property
    def alive(self) -> bool:
        """Whether the node has not been killed."""
        return self.machine.launcher.poll() is None

    def run(
        self,
        command: Sequence[str | Path],
        *,
        timeout: float | None = 60.0,
        environment: Mapping[str, str] | None = None,
        folder: str | Path = "/",
        text_in: str | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the node to its end, with its output as text.

        Raises subprocess.TimeoutExpired after killing the command's whole session, and with ``check``
        subprocess.CalledProcessError on a status other than 0. The status is negative where a signal ended it.
        """
        arguments = [str(part) for part in command]
        stdin = subprocess.PIPE if text_in is not None else subprocess.DEVNULL
        process = self.popen(
            arguments,
            environment=environment,
            folder=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                out, errors = process.communicate(text_in, timeout)
            except BaseException:
                kill_session(process)
                raise
        done = subprocess.CompletedProcess(arguments, process.returncode, out, errors)
        if check:
            done.check_returncode()
        return done

    def popen(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        folder: str | Path = "/",
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> subprocess.Popen[str]:
        """Start a command in the node. What is returned is its escort outside, see ``enter.py``.

        ``send_signal`` and ``terminate`` reach the command, ``kill`` kills it but not its children
        (``kill_session`` does), and ``returncode`` is the command's. To stop it, signal ``command_pid(process)``.
        """
        if not self.alive:
            raise NodeDownError(f"{self.hostname} was killed: {command[0]} cannot run in it")
        escort = [sys.executable, "-I", "-S", str(_ENTER), str(self.machine.init_pid), str(folder)]
        process = subprocess.Popen(
            [*escort, *map(str, command)],
            env=self.environment | dict(environment or {}),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        self._commands.append(process)
        return process

    def processes(self) -> list[Process]:
        """Every process in the node, pid 1 first. Empty once the node was killed.

        The kernel gives a dead namespace's number to the next one, as to a node of a lab that runs beside this one.
        """
        return [] if self._settled else processes_of(self._namespace)

    def signal(self, process: Process, number: signal.Signals) -> None:
        """Signal a process of the node, say with SIGSTOP or SIGCONT. Raises ProcessLookupError when it is gone."""
        if self._settled or pid_namespace(process.pid) != self._namespace:
            raise ProcessLookupError(f"{process} is not in {self.hostname}")
        os.kill(process.pid, number)

    def leftover_processes(self) -> list[Process]:
        """Processes of the node that neither the lab nor Ray's daemons account for: what commands left behind."""
        return leftovers(self.processes())

    def unplug(self) -> None:
        """Cut the node's link: its carrier goes, and nobody else hears a word."""
        for cable in self.cables:
            cable.unplug()

    def plug(self) -> None:
        """Mend the node's link."""
        for cable in self.cables:
            cable.plug()

    def kill(self, *, silent: bool = True) -> None:
        """Let the node lose power, and return when no process of it is left.

        Its link goes silent first, as with a real machine, so that no peer sees a connection close. Unless ``silent``,
        the kernel closes the connections of the dying processes, as when all of them crash: peers notice at once.
        """
        if self.alive and silent:
            self.unplug()
        self.shut_off()
        self.settle()

    def shut_off(self) -> None:
        """Kill every process of the node at once. Does not wait; ``settle`` does."""
        self.machine.power_off()

    def settle(self) -> None:
        """Wait until nothing of a node that was shut off is left, the escorts of its commands included."""
        self.machine.wait_off()
        self._settled = True
        for command in self._commands:
            command.wait(60)


def command_pid(process: subprocess.Popen[str]) -> int:
    """The pid, as this machine counts, of the command behind an escort. Raises ProcessLookupError when it has ended."""
    for child in children_of(process.pid):
        return child
    raise ProcessLookupError(f"the command behind escort {process.pid} has ended")


def kill_session(process: subprocess.Popen[str]) -> None:
    """Kill a command with all that it started in its session. Its escort ends when it has reaped it."""
    try:
        os.killpg(command_pid(process), signal.SIGKILL)
    except ProcessLookupError:  # it has ended, or its escort has not got as far as a session
        process.kill()
