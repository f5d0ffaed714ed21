"""The console blocks of the guides are typed in order, and print what stands there (``...`` is any text)."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs/guide").glob("*.md"))
TYPED = [path for path in GUIDES if "```console" in path.read_text(encoding="utf-8")]
LOG = ROOT / "tests/diagnostics/cases/hca-filter-excludes-all/emulated_hca_filter_excludes_all/input.log"
RESULT = ROOT / "tests/documents/samples/collective-26f0ebe.json"


def sessions(page: str) -> Iterator[tuple[str, list[str]]]:
    """(what is typed, lines that it prints) for each prompt of a page's console blocks."""
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, *printed = part.rstrip("\n").split("\n")
            yield typed, printed


def missing(shown: Sequence[str], printed: Sequence[str]) -> str | None:
    """The first line of ``shown`` that ``printed`` lacks, in order; white space counts as one space."""
    rest = iter(" ".join(line.split()) for line in printed)
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("..."))
        if not any(re.fullmatch(pattern, one) for one in rest):
            return line
    return None


@pytest.mark.parametrize("guide", TYPED, ids=lambda path: path.stem)
def test_a_guide_prints_what_it_shows(guide: Path, tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path / "nccl_debug.log")
    (tmp_path / "runs/monday").mkdir(parents=True)
    shutil.copy(RESULT, tmp_path / "runs/monday/result.json")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    for typed, shown in sessions(guide.read_text(encoding="utf-8")):
        done = subprocess.run(
            ["bash", "-c", typed], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, typed
        assert missing(shown, done.stdout.split("\n")) is None, f"$ {typed}\n{done.stdout}{done.stderr}"


def test_a_line_that_is_not_printed_would_be_found() -> None:
    assert missing(["one", "a ... c"], ["one", "two", "a b c"]) is None
    assert missing(["a ... c", "one"], ["one", "a b c"]) == "one"
    assert missing(["two  words"], ["two words"]) is None
    assert missing(["three"], ["thirty three"]) == "three"
    assert dict(sessions("```console\n$ raybench -V\nraybench 1\n$ true\n```")) == {
        "raybench -V": ["raybench 1"],
        "true": [],
    }
    assert len(TYPED) >= 4
