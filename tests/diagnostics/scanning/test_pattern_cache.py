"""Compiled patterns are kept for the user alone, and only what was kept whole is taken."""

import os
from pathlib import Path

import pytest

from diagnostics.scanning import pattern_cache, search

EXPRESSIONS = tuple(b"word%d" % number for number in range(search.MIN_KEPT))


def test_what_is_kept_is_found_by_its_expressions_and_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = pattern_cache.file_of(EXPRESSIONS, "1")
    assert file is not None
    assert pattern_cache.read(file) is None
    pattern_cache.write(file, b"compiled")
    assert pattern_cache.read(file) == b"compiled"
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({file, pattern_cache.file_of(EXPRESSIONS, "2"), pattern_cache.file_of(EXPRESSIONS[1:], "1")}) == 3


@pytest.mark.parametrize("harm", ["cut", "changed", "writable", "link", "folder"])
def test_a_file_that_may_be_another_s_or_is_damaged_is_not_taken(tmp_path: Path, harm: str) -> None:
    file = tmp_path / "patterns"
    pattern_cache.write(file, b"compiled")
    content = file.read_bytes()
    if harm == "cut":
        file.write_bytes(content[:-1])
    elif harm == "changed":
        file.write_bytes(content[:-1] + b"?")
    elif harm == "writable":
        file.chmod(0o620)
    else:
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other") if harm == "link" else file.mkdir()
    assert pattern_cache.read(file) is None


@pytest.mark.parametrize("kept", [b"", b"no database", None])
def test_patterns_are_compiled_where_what_is_kept_is_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bytes | None
) -> None:
    hyperscan = pytest.importorskip("hyperscan")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache") if kept is not None else "/proc/nowhere")
    file = pattern_cache.file_of(EXPRESSIONS, hyperscan.__version__)
    assert file is not None
    if kept is not None:
        pattern_cache.write(file, kept)
    for _ in range(2):
        search.compiled_database.cache_clear()
        assert search.matches(search.compiled_database(EXPRESSIONS), b"a word7, a word49") == [7, 16, 17]
    assert (pattern_cache.read(file) is None) == (kept is None)
    search.compiled_database.cache_clear()


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert pattern_cache.file_of(EXPRESSIONS, "1") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a folder is given to another user")
def test_root_keeps_nothing_in_the_home_of_another_user(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    pattern_cache.write(tmp_path / "raybench" / "patterns", b"compiled")
    assert list(tmp_path.iterdir()) == []
