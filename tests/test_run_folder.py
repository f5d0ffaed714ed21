"""The folder of a run, and what becomes of it on a disk that is full."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.run_folder import RunFolder, new_run_id


def test_ids_sort_by_time_and_differ() -> None:
    ids = [new_run_id() for _ in range(50)]
    assert len(set(ids)) > 45
    assert sorted(one[:15] for one in ids) == [one[:15] for one in ids]


def test_what_is_recorded_is_there_at_once(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.record({"a": 1})
    folder.record({"b": [0.5]})
    assert [json.loads(line) for line in (folder.path / "samples.jsonl").read_text().splitlines()] == [
        {"a": 1},
        {"b": [0.5]},
    ]
    folder.close()
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "samples.jsonl"]
    assert folder.problems == []


def test_a_result_is_written_whole(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.write_json("result.json", {"x": 1})
    folder.write_json("result.json", {"x": 2})
    folder.close()
    assert json.loads((folder.path / "result.json").read_text()) == {"x": 2}
    assert not list(folder.path.glob(".*"))


def test_logs_stay_in_their_folder(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.write_logs({"nccl-rank-0.log": b"x", "../../evil.log": b"y"})
    folder.close()
    assert sorted(path.name for path in (folder.path / "logs").iterdir()) == ["evil.log", "nccl-rank-0.log"]
    assert not (tmp_path.parent / "evil.log").exists()


def test_a_run_that_measured_nothing_leaves_nothing_but_what_is_not_ours(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "deep" / "er"), "run")
    folder.discard()
    assert not folder.path.exists()
    other = RunFolder(str(tmp_path), "other")
    (other.path / "notes").write_text("mine")
    other.discard()
    assert (other.path / "notes").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be written: Not a directory; choose another with --output-dir"):
        RunFolder(str(tmp_path / "file"), "run")
    RunFolder(str(tmp_path), "twice").close()
    with pytest.raises(UsageError, match="File exists"):
        RunFolder(str(tmp_path), "twice")


def test_the_reserve_has_no_name_that_a_killed_run_could_leave(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "run")
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "samples.jsonl"]
    folder.close()


def test_what_was_made_of_a_folder_that_failed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _offset: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UsageError, match="No space left on device"):
        RunFolder(str(tmp_path / "deep" / "er"), "run")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: embedded null byte"):
        RunFolder(str(tmp_path / "a\0b"), "run")


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    mount = tmp_path / "tiny"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", mount], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def fill(folder: Path) -> Path:
    """Take all room that is left."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def test_a_disk_that_fills_up_keeps_the_journal_so_far_and_takes_the_result(tiny: Path) -> None:
    folder = RunFolder(str(tiny), "run")
    for number in range(20):
        folder.record({"number": number, "samples": [0.123456] * 100})
    fill(tiny)
    for number in range(20, 300):
        folder.record({"number": number, "samples": [0.123456] * 100})
    folder.close()
    folder.write_json("result.json", {"all": ["samples"] * 100_000})
    lines = (folder.path / "samples.jsonl").read_text().splitlines()
    numbers = [json.loads(line)["number"] for line in lines]
    assert numbers[:20] == list(range(20))
    assert numbers == sorted(set(numbers))
    assert len(json.loads((folder.path / "result.json").read_text())["all"]) == 100_000
    assert len(folder.problems) == 1
    assert "No space left on device" in folder.problems[0]


def test_a_line_that_did_not_fit_is_not_left_torn(tiny: Path) -> None:
    """Room comes back in the middle of a run: what follows must be readable."""
    folder = RunFolder(str(tiny), "run")
    filler = fill(tiny)
    folder.record({"number": 0, "samples": [0.123456] * 5000})
    filler.unlink()
    folder.record({"number": 1, "samples": [0.5] * 5000})
    folder.close()
    lines = (folder.path / "samples.jsonl").read_text().splitlines()
    assert 1 in [json.loads(line)["number"] for line in lines]


def test_no_room_for_the_reserve_is_said_before_anything_is_measured(tiny: Path) -> None:
    fill(tiny)
    with pytest.raises(UsageError, match="No space left on device"):
        RunFolder(str(tiny), "run")
    assert [path.name for path in tiny.iterdir()] == ["filler"]


def test_the_reserve_is_held_until_it_is_needed(tiny: Path) -> None:
    folder = RunFolder(str(tiny), "run")
    filler = fill(tiny)
    assert filler.stat().st_size < 5 * 2**20
    folder.write_json("result.json", {"big": "x" * (6 * 2**20)})
    folder.close()


def test_a_result_larger_than_all_room_is_an_error_and_leaves_no_half(tiny: Path) -> None:
    folder = RunFolder(str(tiny), "run")
    with pytest.raises(OSError, match="No space left"):
        folder.write_json("result.json", {"big": "x" * (13 * 2**20)})
    folder.close()
    assert not (folder.path / "result.json").exists()
