"""What else has this machine's processors while something is measured: two files, read before and after. No torch.

A hypervisor that runs other virtual machines on them shows in ``steal`` of /proc/stat. One that says nothing leaves
that column at 0 since the boot: on a virtual machine a column of zeros is unknown, not zero.
"""

import os
import re
import time
from functools import cache
from pathlib import Path

import msgspec

from raybench.documents.run.machine_use import MachineUse

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_FIRST_BYTES = 8192  # of /proc/cpuinfo: the flags of the first processor
_PROC = Path("/proc")


class MachineSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """What its processors did, all of them together, over ``seconds``; None is unknown. See ``MachineUse``."""

    seconds: float
    processors: int
    busy: float | None = None
    stolen: float | None = None
    waiting: float | None = None


def machine_use(launch: int, rank: int, machine: MachineSeconds) -> MachineUse:
    """What a rank said of its machine, as in a result."""
    return MachineUse(
        launch=launch,
        rank=rank,
        seconds=machine.seconds,
        processors=machine.processors,
        busy_seconds=machine.busy,
        stolen_seconds=machine.stolen,
        waiting_seconds=machine.waiting,
    )


class MachineUseMeter:
    """From when it is made. ``proc``: where the kernel's figures are."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._began, self._first = time.monotonic(), _reading(proc)

    def until_now(self) -> MachineSeconds:
        """What the machine did since then."""
        grown = [
            None if before is None or now is None or now < before else now - before
            for before, now in zip(self._first, _reading(self._proc), strict=True)
        ]
        busy, stolen, waiting = grown
        return MachineSeconds(
            seconds=max(time.monotonic() - self._began, 1e-6),
            processors=os.cpu_count() or 1,
            busy=busy,
            stolen=stolen,
            waiting=waiting,
        )


def _reading(proc: Path) -> tuple[float | None, float | None, float | None]:
    """Seconds since the boot: processors busy, stolen from them, and some task waiting for one."""
    return (*_processors(proc), _waiting(proc))


def _processors(proc: Path) -> tuple[float | None, float | None]:
    try:
        with (proc / "stat").open(encoding="ascii") as file:
            values = [int(word) * _TICK for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None, None
    if len(values) < 8 or not any(values):
        return None, None
    user, nice, system, _, _, interrupts, soft, stolen = values
    return user + nice + system + interrupts + soft, None if stolen == 0 and _is_virtual(proc) else stolen


def _waiting(proc: Path) -> float | None:
    try:
        text = (proc / "pressure" / "cpu").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else None


@cache
def _is_virtual(proc: Path) -> bool:
    try:
        with (proc / "cpuinfo").open(encoding="utf-8", errors="replace") as file:
            return "hypervisor" in file.read(_FIRST_BYTES).split()
    except OSError:
        return True  # what is not known is taken for what leaves the most unknown
