"""Who takes the processors from the ranks: looked for while tasks wait for one, since every process is looked at."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from diagnostics.agent.sources.base import DeviceEvent, Sample, SourceUnavailableError
from diagnostics.agent.sources.processes import Processes

LOOK_INTERVALS = 2  # between two looks
WAITING_SHARE = 0.2  # of the time, above which it is looked for
MAX_TAKERS = 12  # of one look
MAX_LOOKED_AT = 4096
_LEAST_PROCESSORS = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_FILE = 4096
_INIT = 1
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h; in a container any process may have kthreadd's number
_WAITED = re.compile(rb"^some .*total=(\d{1,20})", re.MULTILINE)  # the first line of /proc/pressure/cpu


class _Process(NamedTuple):
    name: str
    parent: int
    seconds: float
    is_kernels: bool


class Others:
    """The processes that are not of the job and use most. ``watched`` has the ranks'."""

    def __init__(self, proc: Path, watched: Processes) -> None:
        self._proc, self._watched = proc, watched
        self._waited: tuple[float, float] | None = None  # when, and how long tasks had waited by then
        self._before: tuple[float, Mapping[int, _Process]] | None = None
        self._told: set[int] = set()  # whose names were

    def read(self) -> Sample:
        """Nothing while nobody waits or no rank is known."""
        if not self._watched.pids or not self._contended(time.monotonic()):
            self._before = None
            self._told.clear()
            return Sample()
        now, processes = time.monotonic(), dict(_processes(self._proc))
        takers = self._takers(now, processes)
        self._before = now, processes
        new = [pid for pid in takers if pid not in self._told]
        self._told |= set(new)
        return Sample(
            values={f"other/{pid}/processors_used": used for pid, used in takers.items()},
            events=tuple(DeviceEvent(device=str(pid), text=processes[pid].name) for pid in new),
        )

    def close(self) -> None:
        """Nothing is open."""

    def _contended(self, now: float) -> bool:
        try:
            text = (self._proc / "pressure/cpu").read_bytes()
        except OSError:  # a kernel without PSI
            return _load(self._proc / "loadavg") > (os.cpu_count() or 1)
        found = _WAITED.search(text)
        if found is None:
            raise SourceUnavailableError(f"{self._proc}/pressure/cpu does not say how long tasks waited")
        waited = int(found[1]) / 1e6
        before, self._waited = self._waited, (now, waited)
        return before is not None and waited - before[1] >= WAITING_SHARE * (now - before[0])

    def _takers(self, now: float, processes: Mapping[int, _Process]) -> dict[int, float]:
        """How many processors those used that used most since the last look."""
        if self._before is None:
            return {}
        then, before = self._before
        ours = family(self._watched.pids, processes) | {os.getpid()}
        used = {
            pid: (one.seconds - before[pid].seconds) / (now - then)
            for pid, one in processes.items()
            if pid not in ours and not one.is_kernels and pid in before
        }
        most = sorted(used, key=lambda pid: -used[pid])[:MAX_TAKERS]
        return {pid: round(used[pid], 3) for pid in most if used[pid] >= _LEAST_PROCESSORS}


def _load(path: Path) -> float:
    try:
        return float(path.read_bytes().split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError) as error:
        raise SourceUnavailableError(f"{path} does not say the load: {error}") from error


def family(pids: Iterable[int], processes: Mapping[int, _Process]) -> set[int]:
    """The processes, what they started, and who started them."""
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    found, waiting = set[int](), list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    for pid in list(pids):
        while (pid := processes[pid].parent if pid in processes else 0) > _INIT:
            found.add(pid)
    return found


def _processes(proc: Path) -> Iterator[tuple[int, _Process]]:
    names = [name for name in os.listdir(proc) if name.isdigit()]
    for name in names[:MAX_LOOKED_AT]:
        try:
            number = os.open(f"{proc}/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # ended meanwhile
        try:
            yield int(name), _process(os.read(number, _LONGEST_FILE))
        except (OSError, ValueError, IndexError):
            continue
        finally:
            os.close(number)


def _process(text: bytes) -> _Process:
    """``1234 (python) R 1 ...``, see processes.py."""
    end = text.rindex(b")")
    fields = text[end + 2 :].split(maxsplit=13)
    seconds = (int(fields[11]) + int(fields[12])) / _TICKS
    name = text[text.index(b"(") + 1 : end].decode("utf-8", "replace")
    return _Process(name, int(fields[1]), seconds, bool(int(fields[6]) & _KERNEL_THREAD))
