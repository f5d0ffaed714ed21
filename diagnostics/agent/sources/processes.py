"""The processes of ranks: those that were given by their id."""

import os
from collections.abc import Iterator
from pathlib import Path

from diagnostics.agent.series import device_of
from diagnostics.agent.sources.base import DeviceEvent, Sample
from diagnostics.agent.sources.cpu_limits import CpuLimits

MAX_PROCESSES = 256
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LONGEST_FILE = 4096


class Processes:
    """Processes by id; more may be added at any time. An id that is used again is not taken for the process before.

    With ``limits``, also what a limit of processor time does to them.
    """

    def __init__(self, proc: Path, pids: tuple[int, ...] = (), limits: CpuLimits | None = None) -> None:
        self._proc, self._limits = proc, limits
        self._told: dict[int, str] = {}  # the groups that limit them
        self._open: dict[int, tuple[int, int]] = {}  # what is open of a process stays that process's
        self.watch(pids)

    def watch(self, pids: tuple[int, ...]) -> None:
        """Take up processes. One that has ended meanwhile is passed over."""
        for pid in pids[:MAX_PROCESSES]:
            if pid in self._open or len(self._open) >= MAX_PROCESSES:
                continue
            try:
                stat = os.open(self._proc / str(pid) / "stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                self._open[pid] = stat, os.open(self._proc / str(pid) / "status", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                os.close(stat)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that were there at the last reading."""
        return tuple(self._open)

    def read(self) -> Sample:
        """All processes; those that have ended are left out from then on."""
        values: dict[str, float] = {}
        for pid, (stat, status) in list(self._open.items()):
            try:
                values.update(_stat(pid, os.pread(stat, _LONGEST_FILE, 0)))
                values.update(_switches(pid, os.pread(status, _LONGEST_FILE, 0)))
            except (OSError, ValueError, IndexError):
                self._forget(pid)
        if self._limits is None:
            return Sample(values=values)
        values.update(self._limits.read(self._open))
        return Sample(values=values, events=tuple(self._groups(self._limits)))

    def _groups(self, limits: CpuLimits) -> Iterator[DeviceEvent]:
        """The group whose limit it is, of each process, once."""
        names = limits.names()
        for pid, name in names.items():
            if self._told.get(pid) != name:
                yield DeviceEvent(device=str(pid), text=device_of(name))
        self._told = dict(names)

    def close(self) -> None:
        """Close the files."""
        if self._limits is not None:
            self._limits.close()
        for pid in list(self._open):
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        for number in self._open.pop(pid):
            os.close(number)


def _stat(pid: int, text: bytes) -> dict[str, float]:
    """``1234 (python) R ...``: a name may hold anything, also parentheses (proc_pid_stat(5), fields from 3 on)."""
    fields = text[text.rindex(b")") + 2 :].split()
    state = fields[0]
    if state in {b"Z", b"X"}:
        raise ValueError("the process has ended")
    return {
        f"process/{pid}/resident_bytes": int(fields[21]) * _PAGE_BYTES,
        f"process/{pid}/cpu_seconds": (int(fields[11]) + int(fields[12])) / _TICKS,
        f"process/{pid}/major_faults": int(fields[9]),
        f"process/{pid}/stopped": int(state in {b"T", b"t"}),
        f"process/{pid}/uninterruptible": int(state == b"D"),
    }


def _switches(pid: int, text: bytes) -> dict[str, float]:
    """``voluntary_ctxt_switches:  15``: of the main thread, at the end of the file."""
    _, found, rest = text.partition(b"\nvoluntary_ctxt_switches:")
    voluntary, _, involuntary = rest.partition(b"nonvoluntary_ctxt_switches:")
    if not found:
        return {}
    return {
        f"process/{pid}/voluntary_switches": int(voluntary),
        f"process/{pid}/involuntary_switches": int(involuntary),
    }
