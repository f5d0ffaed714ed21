"""A failed log stays one, cut anywhere, with its ranks' lines in another order, and without NCCL's marks."""

import random
import sys
from pathlib import Path

import pytest

from tests.diagnostics.judging.verdict_mutations import main, mutants, shuffled
from tests.diagnostics.threads import FOLDER, ThreadLog, diagnose, read_logs

LOGS = [log for log in read_logs(FOLDER / "first.txt") if log.failed]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_a_failed_log_is_never_called_ok_while_a_decisive_line_is_left(log: ThreadLog) -> None:
    random_ = random.Random(log.name)
    for mutant in mutants(log.text, diagnose(log.text), random_, cuts=2):
        assert not mutant.decisive or diagnose(mutant.text).verdict != "ok", mutant.how


def test_the_lines_of_a_process_keep_their_order() -> None:
    lines = [f"n{process}:{process}:7 [0] NCCL INFO {number}" for process in (1, 2) for number in range(9)]
    mixed = shuffled(lines, random.Random(1))
    assert mixed != lines
    for process in (1, 2):
        assert [line for line in mixed if line.startswith(f"n{process}")] == lines[9 * process - 9 : 9 * process]


def test_a_folder_above_the_logs_is_an_error_that_names_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cases").mkdir()
    log = tmp_path / "cases" / "a.log"
    log.write_text("NCCL version 2.27.5+cuda12.4\n")
    for folder, why in ((tmp_path, f"did you mean {tmp_path / 'cases'}?"), (log.parent, "is critical")):
        monkeypatch.setattr(sys, "argv", ["verdict_mutations", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert why in capsys.readouterr().err


def test_the_command_counts_its_mutants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text("n1:1:2 [0] init.cc:9 NCCL WARN Cuda failure 'out of memory'\n" * 3)
    monkeypatch.setattr(sys, "argv", ["verdict_mutations", "--cuts", "2", str(tmp_path)])
    assert main() == 0
    assert "0 called ok with one" in capsys.readouterr().out
