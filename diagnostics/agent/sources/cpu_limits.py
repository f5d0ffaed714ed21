"""What limits of processor time hold processes back: the quotas of their cgroups, of version 2 and of version 1.

A container, a pod (``limits: cpu``), a unit (``CPUQuota=``) and a job may have one. Once a group has used up its share
of a period, all its processes stand still until the next one (Documentation/scheduler/sched-bwc.rst). A process may
have limits at several levels; the one that held it back most since the last look counts.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

FIND_SECONDS = 10.0  # after which limits that were set, and processes that were moved, are found
MAX_LEVELS = 16
_LONGEST_FILE = 4096
_LONGEST_NAME = 120


class Held(NamedTuple):
    """Periods in which a group ran, of these those in which it was held back, and for how many seconds on its CPUs."""

    periods: int
    held_periods: int
    seconds: float

    def since(self, before: "Held") -> "Held":
        """What came since an earlier look; a group that began again counts from there."""
        periods, held = self.periods - before.periods, self.held_periods - before.held_periods
        return Held(max(periods, 0), max(held, 0), max(self.seconds - before.seconds, 0.0))

    def plus(self, more: "Held") -> "Held":
        """Both together."""
        return Held(self.periods + more.periods, self.held_periods + more.held_periods, self.seconds + more.seconds)


NOTHING = Held(0, 0, 0.0)


@dataclass(slots=True)
class _Level:
    """A group that has a limit."""

    name: str
    processors: float
    number: int  # of its open cpu.stat
    last: Held = NOTHING


@dataclass(slots=True)
class _Group:
    """The group of a process: its levels with a limit, and what held it back since it was first looked at."""

    levels: dict[Path, _Level]
    total: Held = NOTHING
    worst: _Level | None = None


class CpuLimits:
    """The limits of processes. ``proc`` and ``sys`` are those file systems. Nothing is read of who has none."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc, self._root = proc, sys / "fs/cgroup"
        self._groups: dict[str, _Group] = {}  # by the text of /proc/PID/cgroup
        self._group_of: dict[int, str] = {}
        self._found = float("-inf")

    def read(self, pids: Iterable[int]) -> dict[str, float]:
        """The series of those that have a limit."""
        pids = tuple(pids)
        if self._group_of.keys() != set(pids) or time.monotonic() - self._found >= FIND_SECONDS:
            self._find(pids)
        for group in self._groups.values():
            _look(group)
        values: dict[str, float] = {}
        for pid, text in self._group_of.items():
            group = self._groups[text]
            if group.worst is not None:
                values[f"process/{pid}/cpu_limit_processors"] = group.worst.processors
                values[f"process/{pid}/cpu_limit_periods"] = group.total.periods
                values[f"process/{pid}/held_back_periods"] = group.total.held_periods
                values[f"process/{pid}/held_back_seconds"] = group.total.seconds
        return values

    def names(self) -> Mapping[int, str]:
        """The group whose limit it is, of each process that has one."""
        worst = ((pid, self._groups[text].worst) for pid, text in self._group_of.items())
        return {pid: level.name for pid, level in worst if level is not None}

    def close(self) -> None:
        """Close the files."""
        for group in self._groups.values():
            for level in group.levels.values():
                os.close(level.number)
        self._groups.clear()
        self._group_of.clear()

    def _find(self, pids: tuple[int, ...]) -> None:
        self._found = time.monotonic()
        own = _text(self._proc / "self/cgroup")
        self._group_of = {pid: _text(self._proc / str(pid) / "cgroup") for pid in pids}
        wanted = set(self._group_of.values())
        for gone in self._groups.keys() - wanted:
            for level in self._groups.pop(gone).levels.values():
                os.close(level.number)
        for text in wanted:
            group = self._groups.setdefault(text, _Group(levels={}))
            _renew(group, dict(_limits(_folders(text, own, self._root))))


def _renew(group: _Group, limits: Mapping[Path, float]) -> None:
    """Take up levels that got a limit, and drop those that lost theirs."""
    for folder in group.levels.keys() - limits.keys():
        os.close(group.levels.pop(folder).number)
    for folder, processors in limits.items():
        level = group.levels.get(folder)
        if level is not None:
            level.processors = processors
            continue
        try:
            number = os.open(folder / "cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        level = _Level(name=_named(folder), processors=processors, number=number)
        held = _held(number)
        if held is None:
            os.close(number)
        else:
            level.last = held
            group.levels[folder] = level
    if group.worst not in group.levels.values():
        group.worst = min(group.levels.values(), key=lambda one: one.processors, default=None)


def _look(group: _Group) -> None:
    """Add what the worst level did since the last look."""
    looks = []
    for folder, level in list(group.levels.items()):
        now = _held(level.number)
        if now is None:
            os.close(group.levels.pop(folder).number)
            continue
        looks.append((now.since(level.last), level))
        level.last = now
    if not looks:
        group.worst = None
        return
    grown, group.worst = max(looks, key=lambda look: (look[0].seconds, look[1] is group.worst))
    group.total = group.total.plus(grown)


def _folders(text: str, own: str, root: Path) -> Iterator[Path]:
    """Where the groups of a process lie that may have a limit, itself first, up to the root of what can be seen.

    ``0::/user.slice/...`` of version 2, ``4:cpu,cpuacct:/docker/...`` of version 1. In a container, the root of what is
    mounted may be the container's own group.
    """
    for controllers, path in _paths(text):
        mounts = [root / controllers, root / "cpu"] if controllers else [root, root / "unified"]
        mount = next((one for one in mounts if _is_group(one)), None)
        if mount is None or ".." in path.split("/"):  # outside of what can be seen
            continue
        parts = [part for part in path.split("/") if part]
        if not _is_group(mount.joinpath(*parts)):
            above = [part for part in dict(_paths(own)).get(controllers, "").split("/") if part]
            if parts[: len(above)] != above:
                continue
            parts = parts[len(above) :]
        for count in range(min(len(parts), MAX_LEVELS), -1, -1):
            yield mount.joinpath(*parts[:count])


def _is_group(folder: Path) -> bool:
    try:
        return (folder / "cgroup.procs").exists()
    except OSError:  # a name too long
        return False


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Controllers (none of version 2) and the path of each hierarchy that may limit processors."""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, found, path = rest.partition(":")
        if found and (not controllers or "cpu" in controllers.split(",")):
            yield controllers, path


def _limits(folders: Iterable[Path]) -> Iterator[tuple[Path, float]]:
    """Those of the folders that have a limit, in processors."""
    for folder in folders:
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        try:
            microseconds, of = int(quota), int(period)
        except ValueError:
            continue  # "max": none
        if microseconds > 0 and of > 0:
            yield folder, microseconds / of


def _held(number: int) -> Held | None:
    """``nr_periods 50``, ``nr_throttled 46``, ``throttled_usec 4200000`` or ``throttled_time`` in nanoseconds.

    None where the group is gone or has no such words.
    """
    try:
        text = os.pread(number, _LONGEST_FILE, 0).decode("ascii", "replace")
        words = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        seconds = (
            int(words["throttled_usec"]) / 1e6 if "throttled_usec" in words else int(words["throttled_time"]) / 1e9
        )
        return Held(int(words["nr_periods"]), int(words["nr_throttled"]), seconds)
    except (OSError, ValueError, KeyError):
        return None


def _named(folder: Path) -> str:
    """The group's path as a reader knows it."""
    text = str(folder)
    return text if len(text) <= _LONGEST_NAME else f"...{text[3 - _LONGEST_NAME :]}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_LONGEST_FILE).decode("utf-8", "replace").strip()
    except OSError:
        return ""
