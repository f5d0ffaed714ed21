"""A real selftest, of this machine: two ranks over gloo where it has no GPU, and the verdict says which were proved."""

import json
from pathlib import Path

import pytest

import raybench
from raybench.documents.selftest import SelftestReport
from tests.command import started

CHECKS = "python-packages,torch-import,torch-cuda,ray-cluster,collectives"


@pytest.mark.cluster
def test_a_small_selftest_proves_what_this_machine_can(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    with started("selftest", "--quick", "--only", CHECKS, "--output", str(file)) as command:
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
        [folder] = command.output.glob("selftest-*")
        assert json.loads((folder / "selftest.json").read_text())["verdict"] == "ok"
        assert (folder / str(rows["collectives"].run) / "result.json").is_file()
        assert raybench.load(folder).conclusion == report.conclusion
        assert command.errors == ""  # no terminal, no progress
        assert (command.left_over(), command.left_files()) == ({}, [])
