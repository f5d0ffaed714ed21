"""A real selftest, of this machine: two ranks over gloo where it has no GPU, and the verdict says which were proved."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import raybench
from raybench.cli.selftest import command as command_of_selftest
from raybench.documents.selftest import SelftestReport
from raybench.errors import UsageError
from raybench.services.selftest.table import CHECKS as CHECKS_TABLE
from tests.command import started
from tests.services.selftest.machine import readings

CHECKS = "python-packages,torch-import,torch-cuda,ray-cluster,collectives"


@pytest.mark.cluster
def test_a_small_selftest_proves_what_this_machine_can(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    with started("selftest", "--quick", "--only", CHECKS, "--output", str(file), drawn=False) as command:
        code = command.finish(120)
        report = raybench.load(file)
        assert isinstance(report, SelftestReport)
        results = {check.id: check.result for check in report.checks}
        assert (code, list(results)) == (0, CHECKS.split(",")), command.errors
        assert (results["ray-cluster"], results["collectives"]) == ("passed", "passed")
        rows = {check.id: check for check in report.checks}
        figures = rows["collectives"].figures
        assert (figures["world_size"], figures["wrong_elements"], figures["verified_points"]) == (2, 0, 11)
        assert ("NO GPU PROVED" in command.out, results["torch-cuda"]) == (True, "not-run")
        assert [(one.run, one.rank, one.device) for one in report.ranks] == [
            ("collectives", 0, "cpu"),
            ("collectives", 1, "cpu"),
        ]
        [folder] = command.output.glob("selftest-*")
        assert json.loads((folder / "selftest.json").read_text())["verdict"] == "ok"
        assert (folder / str(rows["collectives"].run) / "result.json").is_file()
        assert raybench.load(folder).conclusion == report.conclusion
        assert command.errors == ""  # no terminal, no progress
        assert (command.left_over(), command.left_files()) == ({}, [])


def test_checks_are_listed_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(command_of_selftest, ["--list"])
    assert (listed.exit_code, len(listed.output.splitlines())) == (0, len(CHECKS_TABLE))
    refused = runner.invoke(command_of_selftest, ["--only", "torch-cdua", "--output-dir", str(tmp_path)])
    assert isinstance(refused.exception, UsageError)
    assert "did you mean 'torch-cuda'?" in str(refused.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_document_that_cannot_be_kept_is_printed_and_never_exit_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raybench.services.selftest.conduct.read_machine", readings)
    words = ["--only", "cudnn", "--output-dir", str(tmp_path), "--output", str(tmp_path / "absent" / "it.json")]
    done = CliRunner().invoke(command_of_selftest, words)
    assert done.exit_code == 3
    assert json.loads(done.stdout)["verdict"] == "ok"
    assert "could not be written" in done.stderr
