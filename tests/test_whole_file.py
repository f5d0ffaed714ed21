"""Documents are written whole or not at all, and forced to disk before they take the place of what was there."""

import ast
import errno
import os
import resource
import signal
from pathlib import Path

import pytest

from raybench.whole_file import write_whole

ROOT = Path(__file__).parents[1]
# What writes no document: the kernel's files, scratch files of one process, what came from elsewhere.
OTHERS = {
    "benchmarks/mlx_ring/meeting.py": "the ports of ranks for MLX, in a folder of this rank alone",
    "execution/ranks/rank_host.py": "/proc/self/oom_score_adj",
    "hosts/environment.py": "a lock file for pip in a folder of this run",
    "hosts/collect.py": "facts of a host as they were read, listed in collected.json",
    "launchers/ranks/rank_task.py": "the exit code of a run, for the process beside it, in a folder of this run",
    "launchers/slurm/node_task.py": "what a supervisor is told, in a folder of this job's task alone",
    "run_folder.py": "live.json, replaced each second while a run goes on and removed at its end",
    "whole_file.py": "a terminal or a pipe",
}


def test_a_file_is_synced_before_its_name_and_its_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append(f"sync {'folder' if path.is_dir() else path.read_text()}")
        sync(descriptor)

    def replaced(source: Path, target: Path) -> Path:
        done.append("rename")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(tmp_path / "result.json", "new")
    assert done == ["sync new", "rename", "sync folder"]


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"a")
        write_whole(tmp_path / "private", b"a", private=True)
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o604)
        write_whole(tmp_path / "old", b"a")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()}
    assert modes == {"new": 0o640, "private": 0o600, "old": 0o604}


def test_what_does_not_fit_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            write_whole(path, b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text() == "old"


def test_a_link_is_followed_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    write_whole(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_text_of_a_host_that_is_no_unicode_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    write_whole(tmp_path / "report", "name \udcff")
    assert (tmp_path / "report").read_text() == "name ?"


def test_every_document_is_written_so() -> None:
    """Nothing else in raybench writes a file by Path.write_text and the like."""
    found = set()
    for path in sorted((ROOT / "raybench").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "write_" in source else ():
            if isinstance(node, ast.Attribute) and node.attr in ("write_text", "write_bytes"):
                found.add(str(path.relative_to(ROOT / "raybench")))
    assert found == set(OTHERS)


def test_own_links_are_followed_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "second").symlink_to("folder/new")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    write_whole(tmp_path / "first", "written")
    assert (tmp_path / "folder" / "new").read_text() == "written"
    assert (tmp_path / "first").is_symlink()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_whole(tmp_path / "round", "written")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of somebody else's")
def test_a_link_that_somebody_else_put_into_a_folder_as_tmp_is_not_followed(tmp_path: Path) -> None:
    """As the kernel does (fs.protected_symlinks): ``-o /tmp/report.html`` must not write to root's .bashrc."""
    precious, link = tmp_path / "precious", tmp_path / "shared" / "report.html"
    precious.write_text("old")
    link.parent.mkdir()
    link.parent.chmod(0o1777)
    link.symlink_to(precious)
    os.chown(link, 54321, 54321, follow_symlinks=False)
    with pytest.raises(PermissionError, match="a link that somebody else made"):
        write_whole(link, "new")
    assert precious.read_text() == "old"
    os.chown(link, 0, 0, follow_symlinks=False)
    write_whole(link, "new")
    assert precious.read_text() == "new"
