"""The driver: the process of a run that has Ray in it, forked from the command before Ray is imported.

It is in a session of its own, so that a terminal's signals reach the command alone, which passes them on. The kernel
ends it when the command ends. What it prints goes to a file: Ray's C++ prints stacks where a cluster goes away.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import psutil

from raybench.config import LAUNCHED
from raybench.execution.driver_channel import DriverChannel
from raybench.execution.launched.session import place_of
from raybench.execution.log_files import tail_of
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost
from raybench.execution.ranks.rank_process import die_with_parent
from raybench.execution.record import RunRecord
from raybench.execution.run import Run
from raybench.processes.forked import keep_only, print_to
from raybench.processes.interrupt import Interrupt
from raybench.processes.lost_interrupt import send_lost_interrupts_again
from raybench.processes.process_title import set_title

OUTPUT = "driver.log"
_TITLE = "raybench driver"
_END_SECONDS = 5.0
_EMPTY_LOOKS = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(kw_only=True)
class Driver:
    """A started driver, as the command has it. ``workplace``: the run's temporary folder."""

    pid: int
    connection: Connection
    workplace: Path
    spared: int | None  # the rank host, which the command itself started and ends
    others: frozenset[psutil.Process] = frozenset()  # children that this process had before: a shell's, before `exec`
    status: int | None = None  # as of waitpid

    def interrupt(self) -> None:
        """Ask it to end in order."""
        if not self._waited():
            os.kill(self.pid, signal.SIGINT)

    def end(self) -> None:
        """Kill it where it still runs, and whatever it started and left."""
        if not self._waited():
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        while not self._waited() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._end_left(deadline)

    def ending(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "does not end"
        code = os.waitstatus_to_exitcode(self.status)
        if code < 0:
            return f"was ended by {_signal_name(-code)}"
        tail = tail_of(self.workplace / OUTPUT).strip().splitlines()
        return f"ended with status {code}" + (f": {tail[-1][:200]}" if tail else "")

    def _waited(self) -> bool:
        if self.status is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if done else None
        return self.status is not None

    def _end_left(self, deadline: float) -> None:
        """Ray's daemons end with the driver, and their workers some time after; one that is stopped never does.

        Over only where two looks one after the other see nothing: what changes its parent during a look is in none.
        """
        empty = 0
        while empty < _EMPTY_LOOKS and time.monotonic() < deadline:
            left = self._left()
            empty = 0 if left else empty + 1
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if left:
                time.sleep(0.01)

    def _left(self) -> list[psutil.Process]:
        """By one look at the table of processes: of two, a daemon that ends in between would hide its workers."""
        below: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                below.setdefault(process.ppid(), []).append(process)
        own = [one for one in below.get(os.getpid(), ()) if one.pid != self.spared and one not in self.others]
        for process in own:  # which grows
            own += below.get(process.pid, ())
        return [one for one in own if _runs(one)]


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def start_driver(record: RunRecord, early: PrestartedRankHost | None, workplace: Path) -> Driver:
    """Fork the driver, which begins with the run at once.

    From then on this process adopts what is left below it, so that ``Driver.end`` finds all of it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    others = frozenset(psutil.Process().children(recursive=True))
    here, there = Pipe()
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the driver has its own handlers
    try:
        pid = os.fork()
        if pid == 0:
            _be_driver(record, early, workplace, there, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    there.close()
    spared = early.pid if early else None
    return Driver(pid=pid, connection=here, workplace=workplace, spared=spared, others=others)


def _be_driver(
    record: RunRecord, early: PrestartedRankHost | None, workplace: Path, connection: Connection, parent: int
) -> NoReturn:
    try:
        set_title(_TITLE)
        os.setsid()
        die_with_parent()
        if os.getppid() == parent:
            keep_only(connection.fileno(), *_listeners(record))
            print_to(workplace / OUTPUT)
            _drive(record, early, workplace, DriverChannel(connection))
    finally:
        os._exit(0)  # Ray's clean-up at exit would wait for a cluster that has gone


def _listeners(record: RunRecord) -> tuple[int, ...]:
    """Where ranks that a launcher started will come."""
    return (place_of(os.environ).descriptor,) if record.config.address == LAUNCHED else ()


def _drive(record: RunRecord, early: PrestartedRankHost | None, workplace: Path, channel: DriverChannel) -> None:
    """Do the run, and say how it ended."""
    send_lost_interrupts_again()
    with Interrupt().installed() as interrupt:
        run = Run(record=record, channel=channel, interrupt=interrupt, early=early, workplace=workplace)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            run.measure()
        except (Exception, KeyboardInterrupt) as raised:  # noqa: BLE001 - the end of a process: what is not said here is lost
            channel.failed(raised)
        channel.keep(record)
        channel.end()
