"""Patterns over a host's files, and names that hosts make up."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.hosts.collected_names import local_part, local_path
from raybench.hosts.remote_files import MOST_FILES, FolderEntry, LocalFiles, find


def names(root: Path, *patterns: str) -> list[str]:
    problems: list[str] = []
    found = find(LocalFiles(), [f"{root}/{pattern}" for pattern in patterns], problems.append)
    assert problems == []
    return sorted(file.path.removeprefix(f"{root}/") for file in found)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("nccl.1.log", "nccl.2.log", "other.txt", "job/a/nccl.log", "job/b/nccl.log", ".hidden/nccl.log"):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "root"


def test_patterns_name_files_and_folders_in_any_part(root: Path) -> None:
    assert names(root, "nccl.*") == ["nccl.1.log", "nccl.2.log"]
    assert names(root, "nccl.[1]*", "nccl.1.log") == ["nccl.1.log"]
    assert names(root, "*/*/nccl.log") == ["job/a/nccl.log", "job/b/nccl.log"]
    assert names(root, "jo?") == ["job/a/nccl.log", "job/b/nccl.log"]
    assert names(root, "job/a") == ["job/a/nccl.log"]
    assert names(root, "nothing*", "none/at/all") == []
    assert names(root, ".hid*/*") == [".hidden/nccl.log"]


def test_links_and_pipes_that_are_come_upon_are_not_read_and_loops_end(root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_text("for root only")
    (root / "nccl.link").symlink_to(secret)
    (root / "job" / "loop").symlink_to(root)
    os.mkfifo(root / "nccl.pipe")
    assert names(root, "nccl.*") == ["nccl.1.log", "nccl.2.log"]
    assert names(root, "job") == ["job/a/nccl.log", "job/b/nccl.log"]
    assert names(root, "nccl.link") == ["nccl.link"]  # named in full


class ManyFiles(LocalFiles):
    """A folder of many files, each as old as its number is small, that must not be looked at one by one."""

    def folder(self, path: str) -> Sequence[FolderEntry]:
        return [
            FolderEntry(name=f"nccl.{n}", mode=stat.S_IFREG | 0o644, size_bytes=1, modified_at=float(n))
            for n in range(20_000)
        ]

    def look(self, path: str) -> FolderEntry:
        assert not path.startswith("/tmp/nccl."), "a round trip a file"
        return super().look(path)


def test_of_too_many_files_the_newest_are_kept_and_it_is_said() -> None:
    problems: list[str] = []
    found = find(ManyFiles(), ["/tmp/nccl.*"], problems.append)
    assert [file.path for file in found[:2]] == ["/tmp/nccl.19999", "/tmp/nccl.19998"]
    assert len(found) == MOST_FILES
    assert problems == [f"20000 files match: the newest {MOST_FILES} are kept; name fewer with --path"]
    assert len(find(ManyFiles(), ["/tmp"], problems.append)) == MOST_FILES


class HostileFiles(LocalFiles):
    """A server that answers with names that lead elsewhere."""

    def folder(self, path: str) -> Sequence[FolderEntry]:
        names = ["..", ".", "", "../../etc/passwd", "/etc/passwd", "a\nb", "ok"]
        return [FolderEntry(name=name, mode=stat.S_IFREG | 0o644, size_bytes=1, modified_at=0.0) for name in names]

    def look(self, path: str) -> FolderEntry:
        return FolderEntry(name="x", mode=stat.S_IFREG | 0o644, size_bytes=1, modified_at=0.0)

    def open(self, path: str, offset: int, size: int) -> IO[bytes]:
        raise AssertionError


def test_names_that_lead_elsewhere_are_not_asked_for() -> None:
    found = find(HostileFiles(), ["/var/log/*"], print)
    assert [file.path for file in found] == ["/var/log/a\nb", "/var/log/ok"]


@given(st.text(max_size=300))
def test_whatever_a_remote_path_is_the_local_one_stays_below_the_folder(remote: str) -> None:
    folder = Path("/folder")
    path = local_path(folder, remote)
    assert path != folder
    assert Path(os.path.normpath(path)) == path
    assert path.is_relative_to(folder)
    for part in path.relative_to(folder).parts:
        assert part.isascii()
        assert part.isprintable()
        assert len(part) < 200


def test_different_names_stay_different() -> None:
    made = [local_part(name) for name in ("..", ".", "...", "%2E%2E", "a b", "a%20b", "x" * 400, "x" * 401, "\udcff")]
    assert len(set(made)) == len(made)
