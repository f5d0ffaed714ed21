"""A run that was kept, as a call."""

import json
from pathlib import Path

import pytest

import raybench
from raybench.errors import UsageError
from raybench.services.show import kept_run
from tests.reports.sample import run_result, sweep
from tests.reports.synthetic import synthetic_diagnosis


def test_a_run_is_read_with_the_diagnosis_that_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(run_result(sweep()).to_json()))
    (tmp_path / "diagnosis.json").write_text(json.dumps(synthetic_diagnosis(2, 2).to_json()))
    kept = kept_run(tmp_path)
    assert kept.result.run_id == raybench.load(tmp_path).run_id
    assert kept.diagnosis is not None
    assert len(kept.result.log_findings) == len(kept.diagnosis.findings) > 0
    assert (kept.folder, kept.report, kept.remarks) == (tmp_path, None, ())
    (tmp_path / "result.json").rename(tmp_path / "before.json")
    assert kept_run(tmp_path / "before.json").diagnosis is None
    with pytest.raises(UsageError, match="cannot be read"):
        kept_run(tmp_path)


def test_a_diagnosis_that_cannot_be_read_is_said_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(run_result(sweep()).to_json()))
    (tmp_path / "diagnosis.json").write_text("{")
    kept = kept_run(tmp_path)
    assert kept.diagnosis is None
    assert kept.remarks[0].startswith("shown without the diagnosis of its logs: ")
