"""Logs that a killed driver left: node actors that end meanwhile take their folders with them."""

import os
from pathlib import Path
from typing import Any

import pytest

from raybench.config import RunConfig
from raybench.execution.account import logs_below
from raybench.execution.record import RunRecord


def test_a_folder_that_goes_while_logs_are_looked_for_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("actor-a", "actor-b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"output-rank-{name[-1]}.log").write_text(name)
    real = os.scandir

    def scandir(folder: Any = ".") -> Any:
        if str(folder).endswith("actor-a"):
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    record = RunRecord(config=RunConfig(), run_id="a")
    assert logs_below(tmp_path, record) == {"output-rank-b.log": b"actor-b"}
    assert logs_below(tmp_path / "none", record) == {}
