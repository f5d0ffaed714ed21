"""Which releases a path holds, and where builds are kept: needs neither a compiler nor a source of NCCL."""

import tarfile
from pathlib import Path

import pytest

from tests.lab.errors import LabUnavailableError

from .cache import CACHE_VARIABLE, cache_folder, cached
from .coverage import OUT_OF_REACH, rows_by_rule
from .hardware import parse_nics
from .release import find_releases, release_for_tests, unpack
from .scenarios import SCENARIOS


def make_source(folder: Path, number: tuple[int, int, int]) -> Path:
    major, minor, patch = number
    makefiles = folder / "makefiles"
    makefiles.mkdir(parents=True)
    (folder / "src").mkdir()
    (makefiles / "version.mk").write_text(
        f"NCCL_MAJOR   := {major}\nNCCL_MINOR   := {minor}\nNCCL_PATCH   := {patch}\nNCCL_SUFFIX  :=\n"
    )
    return folder


def test_releases_are_found_in_a_folder_an_archive_and_a_checkout(tmp_path: Path) -> None:
    checkout = make_source(tmp_path / "store" / "nccl", (2, 30, 7))
    other = make_source(tmp_path / "nccl-v2.8.4-1", (2, 8, 4))
    archive = tmp_path / "store" / "nccl-v2.8.4-1.tar.xz"
    with tarfile.open(archive, "w:xz") as writer:
        writer.add(other, arcname=other.name)
    (tmp_path / "store" / "notes.txt").write_text("2.27.5")
    found = find_releases(str(tmp_path / "store"))
    assert [(release.tag, release.code, release.cuda_major) for release in found] == [
        ("2.8.4", 2804, 11),
        ("2.30.7", 23007, 12),
    ]
    assert [release.tag for release in find_releases(str(archive))] == ["2.8.4"]
    assert [release.tag for release in find_releases(str(checkout))] == ["2.30.7"]
    assert release_for_tests(found).tag == "2.30.7"
    assert (unpack(found[0], tmp_path / "work") / "src").is_dir()


def test_no_source_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYBENCH_NCCL_SOURCE", raising=False)
    assert find_releases() == []
    assert find_releases(str(tmp_path / "absent")) == []


def test_an_entry_is_made_once_and_never_left_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "builds"))
    made: list[str] = []

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cached("2.27.5", fail)

    def make(folder: Path) -> None:
        (folder / "whole").touch()
        made.append(folder.name)

    for _ in range(2):
        assert [path.name for path in cached("2.27.5", make).iterdir()] == ["whole"]
    assert len(made) == 1


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "builds"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    with pytest.raises(LabUnavailableError, match="chmod go-w"):
        cache_folder()
    folder.chmod(0o755)
    assert cache_folder() == folder


def test_scenarios_have_names_of_their_own_and_say_what_is_broken() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert all(scenario.broken for scenario in SCENARIOS)


def test_every_rule_within_reach_has_a_row_that_fires_and_a_near_miss() -> None:
    found = rows_by_rule(SCENARIOS)
    assert not [(rows.rule, rows.lacks) for rows in found if rows.lacks]
    assert not [rows.rule for rows in found if rows.fires and rows.rule in OUT_OF_REACH]


def test_an_adapter_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="opa"):
        parse_nics("hfi1_0:opa:100")
