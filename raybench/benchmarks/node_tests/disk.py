"""A disk of the host: whether it gives back what was written to it, and how fast.

``disk-exact`` compares every byte that was read. ``disk-speed`` is GB/s (10^9 bytes), a sample each round: of writing
until the disk has it (``fsync`` is in the time), and of reading it back. Both go past the page cache (O_DIRECT); where
a file system has no such way, the pages are dropped first, and ``setting`` says so. The file has no name from its
first moment on: nothing is left of it, however the tests end.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from typing import NamedTuple

from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_CHUNK = 1 << 20
_FOLDERS = ("/var/tmp", "/tmp")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_FREE_TIMES = 4  # so many times what is written has to be free
_ENOUGH_SECONDS = 30.0  # a disk that does not do one round in this time is in trouble
_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOENT, errno.EINVAL})


class _Place(NamedTuple):
    """A folder with the type of its file system and the model of its disk, as far as the kernel names one."""

    folder: str
    file_system: str
    model: str


def run(plan: Plan) -> None:
    """Write and read a file of ``disk_mib`` in each round, within the plan's time."""
    place = _place(plan.folder)
    if place is None:
        why = f"{plan.folder or ' and '.join(_FOLDERS)}: in memory, or not there"
        return _say("skipped", why, _Place("", "", ""), "")
    try:
        free = os.statvfs(place.folder)
        if free.f_bavail * free.f_frsize < _FREE_TIMES * plan.disk_mib * _CHUNK:
            return _say("missing", f"{place.folder} has too little free space for {plan.disk_mib} MiB", place, "")
        rounds = _Rounds(place, plan)
        try:
            rounds.work()
        finally:
            rounds.close()
    except OSError as error:
        status = "missing" if error.errno in _NOT_OURS else "failed"
        return _say(status, f"{place.folder}: {error.strerror}", place, "")
    return rounds.say()


def _say(status: str, reason: str, place: _Place, setting: str) -> None:
    for test in ("disk-exact", "disk-speed"):
        say(Figure(test, "disk", place.folder, status, reason, place.model, setting))


class _Rounds:
    """The file of the test, open from the first moment on and without a name."""

    def __init__(self, place: _Place, plan: Plan) -> None:
        self.place = place
        self.plan = plan
        self.checked = self.wrong = 0
        self.samples: dict[str, list[float]] = {"write": [], "read": []}
        self._page = mmap.mmap(-1, _CHUNK)  # on whole pages, as O_DIRECT wants it
        self._file, self.direct = _unnamed(place.folder)
        self._ends = time.monotonic() + plan.seconds

    def close(self) -> None:
        os.close(self._file)

    def work(self) -> None:
        """Rounds, until they are done or the time is over."""
        written = os.urandom(_CHUNK)
        for number in range(self.plan.samples):
            self._write(written, number)
            if not self._read(written, number):
                return

    def _write(self, written: bytes, number: int) -> None:
        began = time.perf_counter()
        os.lseek(self._file, 0, os.SEEK_SET)
        for chunk in range(self.plan.disk_mib):
            self._page[:] = written
            self._page[:16] = number.to_bytes(8, "little") + chunk.to_bytes(8, "little")
            if time.monotonic() >= self._ends:
                return
            if os.write(self._file, self._page) != _CHUNK:
                raise OSError(errno.ENOSPC, "the disk took a part only")
        os.fsync(self._file)
        self.samples["write"].append(self._speed(began))

    def _read(self, written: bytes, number: int) -> bool:
        """Read what was written in a round, and compare it; False once the time is over."""
        if len(self.samples["write"]) <= number:
            return False
        if not self.direct:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        spent = 0.0
        os.lseek(self._file, 0, os.SEEK_SET)
        for chunk in range(self.plan.disk_mib):
            began = time.perf_counter()
            count = os.readv(self._file, [self._page])
            spent += time.perf_counter() - began
            must = number.to_bytes(8, "little") + chunk.to_bytes(8, "little") + written[16:]
            self.checked += _CHUNK
            self.wrong += 0 if self._page[:count] == must else _different(self._page[:count], must)
            if time.monotonic() >= self._ends:
                return False
        self.samples["read"].append(self.plan.disk_mib * _CHUNK / max(spent, 1e-9) / 1e9)
        return True

    def _speed(self, began: float) -> float:
        return self.plan.disk_mib * _CHUNK / max(time.perf_counter() - began, 1e-9) / 1e9

    def say(self) -> None:
        """The figures. A disk that was too slow for the rounds has those that it was done with."""
        how = "past the page cache" if self.direct else "pages dropped before reading"
        setting = f"{self.plan.disk_mib} MiB, {self.place.file_system}, {how}"
        say(
            Figure(
                "disk-exact",
                "disk",
                "",
                model=self.place.model,
                setting=setting,
                checked=self.checked,
                wrong=self.wrong,
            )
        )
        for case, samples in self.samples.items():
            late = "" if samples else f"not one round of {self.plan.disk_mib} MiB in {self.plan.seconds:.0f} s"
            status = "ok" if samples else "failed" if self.plan.seconds >= _ENOUGH_SECONDS else "missing"
            say(Figure("disk-speed", "disk", case, status, late, self.place.model, setting, "GB/s", tuple(samples)))


def _different(held: bytes, must: bytes) -> int:
    return sum(one != other for one, other in zip(held, must)) + len(must) - len(held)


def _unnamed(folder: str) -> tuple[int, bool]:
    """A new file without a name, and whether it is read and written past the page cache."""
    for flag in (getattr(os, "O_DIRECT", 0), 0):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC | flag, 0o600), bool(flag)
        except OSError as error:  # noqa: PERF203 - two turns
            refused = error
    raise refused


def _place(named: str) -> _Place | None:
    """The first folder that is on a disk."""
    for folder in [named] if named else _FOLDERS:
        found = _mount(folder)
        if found is not None and found[1] not in _IN_MEMORY:
            return _Place(folder, found[1], _disk_model(found[0]))
    return None


def _mount(folder: str) -> tuple[str, str] | None:
    """The device (``259:1``) and type of the file system that a folder is on; None where that cannot be read."""
    path, best = os.path.realpath(folder), ("", "", "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                fields = before.split()
                point = fields[4].replace("\\040", " ") if len(fields) > 4 else ""
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if after and point and inside and len(point) >= len(best[0]):
                    best = (point, fields[2], after.split()[0])
    except OSError:
        return None
    return (best[1], best[2]) if best[0] and os.path.isdir(path) else None


def _disk_model(device: str) -> str:
    """What the disk under a file system calls itself; empty where it is on none, or on several."""
    folder = os.path.realpath(f"/sys/dev/block/{device}")
    for place in (folder, os.path.dirname(folder)):
        try:
            with open(f"{place}/device/model", encoding="utf-8", errors="replace") as file:
                return " ".join(file.read().split())
        except OSError:  # noqa: PERF203 - two turns
            continue
    return ""
