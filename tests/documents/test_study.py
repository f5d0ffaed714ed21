"""A study's documents: loaded by folder or by file, its plan too, and never fine where nobody judged it."""

import json
from pathlib import Path
from typing import Any

import pytest

import raybench
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.part import document_as
from raybench.documents.reading import DocumentError
from raybench.documents.study.plan import Study
from raybench.documents.study.result import StudyResult
from tests.documents.mutation import REPORTS


def stored(name: str) -> Any:
    return json.loads(next(path for path in REPORTS if path.stem == name).read_bytes())


def test_a_study_is_loaded_by_its_folder_and_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(stored("study-plan-5c77f31")))
    with pytest.raises(DocumentError, match=r"no study\.json yet: 'raybench study show") as caught:
        raybench.load(tmp_path)
    assert caught.value.exit_code == 2
    (tmp_path / "study.json").write_text(json.dumps(stored("study-network-5c77f31")))
    study, plan = raybench.load(tmp_path), raybench.load(tmp_path / "plan.json")
    assert isinstance(study, StudyResult)
    assert isinstance(plan, Study)
    assert study.variants == plan.variants
    assert [one.trial for one in study.trials] == list(plan.trials())
    assert study.settings == plan.settings


@pytest.mark.parametrize(
    ("changes", "verdict", "exit_code"),
    [
        ({}, "unknown", 3),
        ({"status": "partial"}, "incomplete", 3),
        ({"problems": ["rdma is refused"]}, "critical", 1),
        ({"verdict": "ok", "verdict_reason": "ddp is fastest"}, "ok", 0),  # near miss: it was judged
    ],
)
def test_a_study_from_before_verdicts_is_never_fine(changes: dict[str, Any], verdict: str, exit_code: int) -> None:
    content = stored("study-strategy-7e1ee8f")
    assert "verdict" not in content
    study = StudyResult.of_json(content | changes, "it")
    assert (study.conclusion.verdict, study.exit_code) == (verdict, exit_code)


@pytest.mark.parametrize(
    ("keys", "value", "why"),
    [
        (("kind",), "speed", "Invalid enum value 'speed' - at `$.kind`"),
        (("variants", 0, "name"), "../up", "'../up' is not a name for a variant"),
        (("trials", 1, "measured", 0, "seconds"), 0, "Expected `float` > 0.0 - at `$.trials[1].measured[0].seconds`"),
        (("answer", "rows", 0, "step_seconds"), None, "a row without a step time - at `$.answer.rows[0]`"),
        (("answer", "fit"), 3, "Expected `object`, got `int` - at `$.answer.fit`"),
        (("answer", "fit", "fixed_seconds"), "x", "Expected `float`, got `str` - at `$.answer.fit.fixed_seconds`"),
    ],
)
def test_damage_is_said_in_a_line_with_its_place(keys: tuple[Any, ...], value: Any, why: str) -> None:
    owner = content = stored("study-batch-size-4074527")
    for key in keys[:-1]:
        owner = owner[key]
    owner[keys[-1]] = value
    with pytest.raises(DocumentError) as caught:
        StudyResult.of_json(content, "the study runs/study.json")
    assert str(caught.value).startswith(f"the study runs/study.json is damaged: {why}")
    assert "\n" not in str(caught.value)


def test_what_a_diagnosis_does_not_say_is_unknown() -> None:
    content = {"schema": "raybench.diagnosis/1", "network": "ib", "ranks": [{"rank": 0, "nics": 2, "later": 1}]}
    diagnosis = document_as(Diagnosis, content | {"later": 2}, "it")
    rank, written = diagnosis.ranks[0], diagnosis.to_json()
    assert (diagnosis.verdict, diagnosis.network) == ("unknown", "ib")
    assert (diagnosis.gdr, diagnosis.tcp_fallback, rank.pid, rank.nics, rank.initialised) == (None, None, None, 2, None)
    assert (written["later"], written["ranks"][0]["later"], "jobs" in written) == (2, 1, False)
    assert diagnosis.in_brief == "unknown, network ib, GPUDirect RDMA unknown, 0 findings"


def test_a_diagnosis_is_no_better_than_its_findings_and_has_those_of_its_jobs() -> None:
    one = stored("diagnosis-c973227")
    content = one | {"jobs": [one | {"job": "a"}, one | {"job": "b", "verdict": "unknown"}]}
    diagnosis = document_as(Diagnosis, content, "it")
    assert (diagnosis.verdict, diagnosis.lines.unreadable) == ("critical", 0)
    assert [(job.job, job.verdict, job.findings) for job in diagnosis.jobs] == [
        ("a", "critical", diagnosis.findings),
        ("b", "unknown", diagnosis.findings),
    ]
    assert document_as(Diagnosis, diagnosis.to_json(), "it") == diagnosis
    with pytest.raises(DocumentError, match=r"it says ok, and a finding is critical - at `\$`"):
        document_as(Diagnosis, content | {"verdict": "ok"}, "it")
    content["jobs"][0]["lines"] = {"read": -1}
    with pytest.raises(DocumentError, match=r"read is -1 - at `\$\.jobs\[0\]\.lines`"):
        document_as(Diagnosis, content, "it")


def test_a_ratio_lies_in_its_interval() -> None:
    content = stored("study-network-7e1ee8f")
    content["answer"]["speedups"][0]["ratio"]["high"] = 1.0
    with pytest.raises(DocumentError, match="its interval does not hold"):
        StudyResult.of_json(content, "it")
