"""Limits of processor time that hold ranks back: found at each level, of both versions of cgroups."""

from pathlib import Path

import pytest

from diagnostics.agent.judging import Judge
from diagnostics.agent.messages import Event
from diagnostics.agent.sources import cpu_limits
from diagnostics.agent.sources.cpu_limits import CpuLimits
from diagnostics.agent.sources.processes import Processes
from diagnostics.agent.window import Window

from .machine import write

_PID = 7


def process(root: Path, cgroup: str, pid: int = _PID) -> None:
    write(root / "proc", f"{pid}/cgroup", cgroup)


def second(root: Path, folder: str, limit: str, held: tuple[int, int, int] = (0, 0, 0)) -> None:
    """A group of version 2: its limit, and periods, those in which it was held back, and microseconds."""
    place = root / "sys/fs/cgroup" / folder
    write(place, "cgroup.procs", "")
    write(place, "cpu.max", limit)
    words = ("nr_periods", "nr_throttled", "throttled_usec")
    known = [f"{word} {number}" for word, number in zip(words, held, strict=True)] if folder else []
    write(place, "cpu.stat", "\n".join(["usage_usec 5", *known, "nr_bursts 0"]))


def first(root: Path, folder: str, quota: int, held: tuple[int, int, int] = (0, 0, 0)) -> None:
    """The same of version 1, whose times are nanoseconds."""
    place = root / "sys/fs/cgroup" / folder
    write(place, "cgroup.procs", "")
    write(place, "cpu.cfs_quota_us", quota)
    write(place, "cpu.cfs_period_us", 100_000)
    write(place, "cpu.stat", "nr_periods {}\nnr_throttled {}\nthrottled_time {}".format(*held))


def series(limit: float, periods: int, held: int, seconds: float, pid: int = _PID) -> dict[str, float]:
    names = ("cpu_limit_processors", "cpu_limit_periods", "held_back_periods", "held_back_seconds")
    values = (limit, periods, held, seconds)
    return {f"process/{pid}/{name}": value for name, value in zip(names, values, strict=True)}


def event(number: int, text: str) -> Event:
    return Event(monotonic_seconds=float(number), source="processes", device=str(_PID), text=text)


def test_the_limit_of_a_pod_above_its_container_counts_where_it_holds_back(tmp_path: Path) -> None:
    process(tmp_path, "0::/pod/container")
    second(tmp_path, "", "max 100000")
    second(tmp_path, "pod", "200000 100000", (90, 10, 5_000_000))
    second(tmp_path, "pod/container", "150000 100000", (80, 1, 100))
    limits = CpuLimits(tmp_path / "proc", tmp_path / "sys")
    assert limits.read((_PID,)) == series(1.5, 0, 0, 0.0)
    second(tmp_path, "pod", "200000 100000", (100, 18, 6_500_000))
    second(tmp_path, "pod/container", "150000 100000", (90, 1, 100))
    assert limits.read((_PID,)) == series(2.0, 10, 8, 1.5)
    assert limits.names()[_PID].endswith("/sys/fs/cgroup/pod")
    limits.close()


@pytest.mark.parametrize(
    ("cgroup", "folder"),
    [
        ("4:memory:/x\n3:cpu:/job\n0::/", "cpu/job"),
        ("2:cpu,cpuacct:/job", "cpu,cpuacct/job"),
        ("2:cpu,cpuacct:/job", "cpu/job"),  # where the two have a link each
        ("2:cpu,cpuacct:/job:1/a (b)", "cpu,cpuacct/job:1/a (b)"),
    ],
)
def test_version_1_is_read_in_its_own_units(tmp_path: Path, cgroup: str, folder: str) -> None:
    process(tmp_path, cgroup)
    first(tmp_path, folder, 20_000)
    write(tmp_path / "sys/fs/cgroup" / folder.partition("/")[0], "cgroup.procs", "")
    limits = CpuLimits(tmp_path / "proc", tmp_path / "sys")
    assert limits.read((_PID,)) == series(0.2, 0, 0, 0.0)
    first(tmp_path, folder, 20_000, (10, 9, 780_000_000))
    assert limits.read((_PID,)) == series(0.2, 10, 9, 0.78)
    limits.close()


def test_in_a_container_whose_own_group_is_the_root_of_what_it_sees(tmp_path: Path) -> None:
    process(tmp_path, "2:cpu,cpuacct:/docker/4f")
    write(tmp_path / "proc", "self/cgroup", "2:cpu,cpuacct:/docker/4f")
    first(tmp_path, "cpu,cpuacct", 50_000)
    limits = CpuLimits(tmp_path / "proc", tmp_path / "sys")
    assert limits.read((_PID,)) == series(0.5, 0, 0, 0.0)
    process(tmp_path, "2:cpu,cpuacct:/docker/77", pid=8)  # of another container
    process(tmp_path, "0::/../other", pid=9)
    assert limits.read((8, 9)) == {}
    limits.close()


def test_a_limit_that_comes_is_found_and_one_that_goes_is_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, "0::/job")
    second(tmp_path, "", "max 100000")
    second(tmp_path, "job", "max 100000", (70, 60, 9_000_000))
    limits = CpuLimits(tmp_path / "proc", tmp_path / "sys")
    assert limits.read((_PID,)) == {}
    second(tmp_path, "job", "100000 100000", (70, 60, 9_000_000))
    assert limits.read((_PID,)) == {}
    monkeypatch.setattr(cpu_limits, "FIND_SECONDS", 0.0)
    assert limits.read((_PID,)) == series(1.0, 0, 0, 0.0)  # what was before is not told
    write(tmp_path / "sys/fs/cgroup/job", "cpu.stat", "\x00 what")
    assert limits.read((_PID,)) == {}
    second(tmp_path, "job", "max 100000", (80, 70, 9_900_000))
    assert limits.read((_PID,)) == {}
    assert limits._groups["0::/job"].levels == {}


def test_a_process_that_is_held_back_is_told_with_its_group(tmp_path: Path) -> None:
    """As the agent reads it: a rank, second by second."""
    process(tmp_path, "0::/job.slice")
    write(tmp_path / "proc", f"{_PID}/stat", f"7 (python) R {' '.join(['0'] * 40)}")
    write(tmp_path / "proc", f"{_PID}/status", "Name: x")
    second(tmp_path, "", "max 100000")
    second(tmp_path, "job.slice", "50000 100000")
    processes = Processes(tmp_path / "proc", (_PID,), CpuLimits(tmp_path / "proc", tmp_path / "sys"))
    window, found = Window(host="a"), []
    for number in range(7):
        second(tmp_path, "job.slice", "50000 100000", (10 * number, 9 * number, 480_000 * number))
        sample = processes.read()
        assert len(sample.events) == (number == 0)
        window.events.extend(event(number, one.text) for one in sample.events)
        window.add("processes", float(number), sample.values)
        found = Judge().observed(window)
    processes.close()
    (one,) = found
    assert one.finding.rule == "cpu-limit"
    assert one.finding.summary == (
        f"a processors: the limit of the cgroup {tmp_path}/sys/fs/cgroup/job.slice, 0.5 of them, held back process 7 "
        "in 36 of its last 40 periods, for 1.9 s of processors in 4 s"
    )
