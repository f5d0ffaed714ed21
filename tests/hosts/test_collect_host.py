"""Fetching the files of one host: limits, cuts, second collections, a full list of what came."""

import contextlib
import io
import os
import time
from pathlib import Path
from typing import IO

import pytest

from raybench.hosts import collect
from raybench.hosts.collect_host import HostFolder, HostReport, StoppedError
from raybench.hosts.inventory import Host
from raybench.hosts.remote_files import LocalFiles
from raybench.hosts.ssh import SshError


def folder_of(tmp_path: Path, *, file_limit: int = 10**6, host_limit: int = 10**7) -> HostFolder:
    return HostFolder(
        path=tmp_path / "hosts" / "gpu-1",
        report=HostReport(name="gpu-1"),
        file_limit_bytes=file_limit,
        host_limit_bytes=host_limit,
        stopped=lambda: False,
        deadline=time.monotonic() + 60,
    )


class CutFiles(LocalFiles):
    """Files over a connection that ends after so many bytes of the first file that is read."""

    def __init__(self, after: int) -> None:
        self._after = after
        self.opened: list[tuple[str, int]] = []

    def open(self, path: str, offset: int, size: int) -> IO[bytes]:
        self.opened.append((path, offset))
        source, after = super().open(path, offset, size), self._after

        class Cut(io.BytesIO):
            def read(self, count: int | None = -1, /) -> bytes:
                if self.tell() >= after:
                    raise EOFError("the socket is closed")
                return super().read(min(count or 0, after - self.tell()))

        with source:
            return Cut(source.read())


def test_a_cut_transfer_goes_on_where_it_was_with_the_same_bytes(tmp_path: Path) -> None:
    remote = tmp_path / "remote.log"
    content = os.urandom(100_000)
    remote.write_bytes(content)
    folder = folder_of(tmp_path)
    with pytest.raises(SshError) as caught:
        folder.fetch_all(CutFiles(30_000), [str(remote)])
    assert caught.value.cut
    local = folder.path / "files" / str(remote).lstrip("/")
    assert local.read_bytes() == content[:30_000]

    later = folder_of(tmp_path)  # another call of the command
    files = CutFiles(10**9)
    later.fetch_all(files, [str(remote)])
    assert files.opened == [(str(remote), 30_000)]
    assert local.read_bytes() == content
    assert (later.report.resumed, later.report.fetched_bytes) == (1, 70_000)
    later.save()

    third = folder_of(tmp_path)
    files = CutFiles(0)
    third.fetch_all(files, [str(remote)])
    assert files.opened == []
    assert [file.complete for file in third.report.files] == [True]


def test_a_file_that_was_written_anew_is_fetched_anew(tmp_path: Path) -> None:
    remote = tmp_path / "remote.log"
    remote.write_bytes(b"old" * 1000)
    with pytest.raises(SshError):
        folder_of(tmp_path).fetch_all(CutFiles(1000), [str(remote)])
    remote.write_bytes(b"new" * 900)
    folder = folder_of(tmp_path)
    folder.fetch_all(LocalFiles(), [str(remote)])
    assert (folder.path / folder.report.files[0].local).read_bytes() == b"new" * 900


def test_a_longer_file_goes_on_where_it_grew_and_begins_anew_where_another_has_its_name(tmp_path: Path) -> None:
    remote = tmp_path / "nccl.log"
    remote.write_bytes(b"first run\n" * 1000)
    os.utime(remote, (1, 1))
    folder_of(tmp_path).fetch_all(LocalFiles(), [str(remote)])
    remote.write_bytes(b"first run\n" * 1000 + b"more\n")
    os.utime(remote, (2, 2))
    grown = folder_of(tmp_path)
    grown.fetch_all(LocalFiles(), [str(remote)])
    assert (grown.report.resumed, grown.report.fetched_bytes) == (1, 5)
    remote.write_bytes(b"other run\n" * 2000)
    os.utime(remote, (3, 3))
    other = folder_of(tmp_path)
    other.fetch_all(LocalFiles(), [str(remote)])
    assert (other.report.resumed, other.report.fetched_bytes) == (0, 20_000)
    assert (other.path / other.report.files[0].local).read_bytes() == remote.read_bytes()


def test_the_list_is_not_written_anew_for_each_of_many_small_files(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"nccl.{number}").write_text("x")
    folder = folder_of(tmp_path)
    written: list[int] = []
    save = folder.save

    def counted() -> None:
        written.append(len(folder._known))
        save()

    folder.save = counted
    folder.fetch_all(LocalFiles(), [f"{tmp_path}/nccl.*"])
    assert written[-1] == 50
    assert len(written) < 10
    again = folder_of(tmp_path)
    again.fetch_all(CutFiles(0), [f"{tmp_path}/nccl.*"])  # all of them are known to be here
    assert again.report.fetched_bytes == 0


def test_the_tail_of_a_long_file_is_kept_and_said_and_survives_a_cut(tmp_path: Path) -> None:
    remote = tmp_path / "remote.log"
    content = os.urandom(50_000)
    remote.write_bytes(content)
    with pytest.raises(SshError):
        folder_of(tmp_path, file_limit=20_000).fetch_all(CutFiles(5_000), [str(remote)])
    folder = folder_of(tmp_path, file_limit=20_000)
    folder.fetch_all(LocalFiles(), [str(remote)])
    (file,) = folder.report.files
    assert (file.left_out_bytes, file.complete) == (30_000, True)
    head, _, tail = (folder.path / file.local).read_bytes().partition(b"\n")
    assert head == b"[raybench: 30000 bytes left out here, the file is longer than its limit]"
    assert tail == content[30_000:]


def test_the_newest_files_of_a_host_are_kept_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    for number, name in enumerate(("oldest", "old", "new")):
        path = tmp_path / "logs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 1000)
        os.utime(path, (number, number))
    folder = folder_of(tmp_path, host_limit=1500)
    folder.fetch_all(LocalFiles(), [str(tmp_path / "logs")])
    kept = {Path(file.remote).name: file.left_out_bytes for file in folder.report.files}
    assert kept == {"new": 0, "old": 500}
    assert folder.report.notes == [f"{tmp_path}/logs/oldest: left out, the files of this host exceed --host-limit"]


def test_a_link_in_the_way_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    remote = tmp_path / "remote.log"
    remote.write_text("x")
    folder = folder_of(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (folder.path / "files").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SshError, match="would be outside"):
        folder.fetch_all(LocalFiles(), [str(remote)])
    assert not any(path.is_file() for path in (tmp_path / "elsewhere").rglob("*"))


def test_a_collection_that_is_stopped_says_so(tmp_path: Path) -> None:
    remote = tmp_path / "remote.log"
    remote.write_text("x")
    folder = folder_of(tmp_path)
    folder.stopped = lambda: True
    with pytest.raises(StoppedError):
        folder.fetch_all(LocalFiles(), [str(remote)])


@pytest.mark.parametrize(
    ("error", "said"), [(OSError(28, "No space left on device"), "No space"), (KeyError("x"), "KeyError")]
)
def test_a_host_whose_list_of_files_cannot_be_kept_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def reached(_host: object, _plan: object, folder: HostFolder) -> None:
        folder.reached = True

    def fail(_folder: HostFolder) -> None:
        raise error

    monkeypatch.setattr(collect, "_attempts", reached)
    monkeypatch.setattr(HostFolder, "save", fail)
    plan = collect.CollectPlan(folder=tmp_path, file_limit_bytes=1, host_limit_bytes=1, seconds=1)
    report = collect.collect_host(Host(name="gpu-1", address="gpu-1"), plan, lambda: False)
    assert report.status == "partial"
    assert said in report.problems[0]


@pytest.mark.parametrize(
    ("boots", "status", "rebooted"),
    [
        (("5d4f2c1e-0b6a-4a53-9a1c-0d6a1f0c7e11", "a0c1b2d3-1111-4222-8333-944455566677"), "partial", True),
        (("5d4f2c1e-0b6a-4a53-9a1c-0d6a1f0c7e11",) * 2, "complete", False),  # the connection alone was cut
        (("5d4f2c1e-0b6a-4a53-9a1c-0d6a1f0c7e11", "no such file"), "complete", False),
    ],
)
def test_a_host_that_reboots_between_two_attempts_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boots: tuple[str, str], status: str, rebooted: bool
) -> None:
    """Its logs in memory are gone, and what is there when it is back looks whole."""
    said, attempts = iter(boots), iter((LostFiles(), LocalFiles()))

    def answer(_: object, command: str, **__: object) -> tuple[int, bytes]:
        return (0, next(said).encode()) if "boot_id" in command else (127, b"")

    monkeypatch.setattr(collect, "connected", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(collect, "answer_of", answer)
    monkeypatch.setattr(collect, "SftpFiles", lambda _: next(attempts))
    monkeypatch.setattr(collect, "_PAUSE_SECONDS", 0.0)
    plan = collect.CollectPlan(
        folder=tmp_path, patterns=(f"{tmp_path}/none*",), file_limit_bytes=10, host_limit_bytes=10, seconds=60
    )
    report = collect.collect_host(Host(name="gpu-1", address="gpu-1"), plan, lambda: False)
    assert report.status == status
    assert ["it rebooted meanwhile" in one for one in report.problems] == [True] * rebooted


class LostFiles(LocalFiles):
    """Files over a connection that is cut as soon as they are looked for."""

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("__"):
            raise EOFError("the socket is closed")
        return super().__getattribute__(name)
