"""Programs of schedulers that hang, flood or leave something behind: an error with its reason, and nothing is left."""

import os
from pathlib import Path

import pytest

from raybench.errors import IncompleteRunError
from raybench.services.nodes import program
from raybench.services.nodes.program import answer_of
from tests.processes.waiting import come_true, has_ended


def script(folder: Path, text: str) -> list[str]:
    path = folder / "sinfo"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path), "-h"]


def test_one_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    words = script(tmp_path, f"trap '' TERM; sleep 61 & echo $! >{tmp_path}/pid; wait; wait")
    with pytest.raises(IncompleteRunError, match="did not answer: no answer within 3 s"):
        answer_of(words, limit_seconds=3)
    child = int((tmp_path / "pid").read_text())
    assert come_true(lambda: has_ended(child))


def test_one_that_floods_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_BYTES", 1 << 20)
    with pytest.raises(IncompleteRunError, match="it printed more than 1 MiB"):
        answer_of(script(tmp_path, "exec yes"), limit_seconds=60)


def test_what_it_printed_is_taken_though_something_of_it_stays(tmp_path: Path) -> None:
    words = script(tmp_path, f"sleep 600 & echo $! >{tmp_path}/pid; echo gpu-01; printf '\\377'")
    assert answer_of(words, limit_seconds=60) == "gpu-01\n\ufffd"
    os.kill(int((tmp_path / "pid").read_text()), 9)
    with pytest.raises(IncompleteRunError, match="did not answer: it ended with 3"):
        answer_of(script(tmp_path, "exit 3"))
    with pytest.raises(IncompleteRunError, match="No such file"):
        answer_of([str(tmp_path / "none"), "-h"])
