"""A disk of this machine, tested as on any host: bytes compared, nothing left, and what is no figure of a disk."""

import errno
import os
from pathlib import Path

import pytest

from raybench.benchmarks.node_tests import disk
from raybench.benchmarks.node_tests.plan import Plan
from tests.benchmarks.node_tests.said import SMALL, figures_of


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan for a folder of this machine, whatever its file system is."""
    monkeypatch.setattr(disk, "_IN_MEMORY", frozenset())
    return SMALL._replace(folder=str(tmp_path))


def test_what_is_read_is_compared_and_no_file_is_left(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    exact, write, read = figures_of(disk.run, capsys, plan)
    assert (exact["checked"], exact.get("wrong")) == (3 * 2 << 20, None)
    assert [(one["case"], one["unit"], len(one["samples"])) for one in (write, read)] == [
        ("write", "GB/s", 3),
        ("read", "GB/s", 3),
    ]
    assert list(Path(plan.folder).iterdir()) == []


def test_a_byte_that_comes_back_another_is_counted(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    readv = os.readv

    def damaged(file: int, pages: list[bytearray]) -> int:
        count = readv(file, pages)
        pages[0][99] ^= 0x10
        return count

    monkeypatch.setattr(disk.os, "readv", damaged)
    assert figures_of(disk.run, capsys, plan)[0]["wrong"] == 3 * 2  # one byte of each MiB that was read


def test_an_error_of_the_disk_fails_and_one_of_the_folder_does_not(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.os, "fsync", refused)
    assert {one["status"] for one in figures_of(disk.run, capsys, plan)} == {"failed"}
    monkeypatch.undo()
    gone = figures_of(disk.run, capsys, plan._replace(folder="/nowhere"))
    assert {one["status"] for one in gone} == {"skipped"}
    full = figures_of(disk.run, capsys, plan._replace(disk_mib=1 << 40, folder="/var/tmp"))
    assert {one["status"] for one in full} <= {"missing", "skipped"}


def test_a_file_system_in_memory_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_mount", lambda _: ("0:25", "tmpfs"))
    assert disk._place("/dev/shm") is None
    monkeypatch.setattr(disk, "_mount", lambda folder: ("8:1", "xfs") if folder == "/tmp" else ("0:25", "tmpfs"))
    place = disk._place("")
    assert place is not None
    assert (place.folder, place.file_system) == ("/tmp", "xfs")


def test_a_disk_that_is_too_slow_for_one_round_says_so(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(disk.time, "monotonic", lambda: float(next(clock)))
    slow = figures_of(disk.run, capsys, plan._replace(seconds=35.0))
    assert [one["status"] for one in slow if one["test"] == "disk-speed"] == ["failed", "failed"]
    assert "not one round of 2 MiB in 35 s" in slow[1]["reason"]
