"""A study is as grave as its gravest trial, and names it; what a variant does on purpose is no finding."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from raybench.documents.study.plan import Study, Trial, Variant
from raybench.documents.study.result import StudyResult
from raybench.studies.network import network_variant
from raybench.studies.result import result_of
from raybench.studies.trial_findings import grave_trials
from tests.studies.sample import outcomes_of, run_result, training_point

SLOW = {"rule": "slow-rank", "severity": "critical", "summary": "rank 1 (node2) works at 0.55 of the others' speed"}
WARNED = {"rule": "sync-overhead", "severity": "warning", "summary": "55% of a step waits for communication"}
BY_CHOICE = {"rule": "rdma-disabled-by-env", "severity": "warning", "summary": "RDMA is switched off on purpose"}
SECONDS = {"ddp": 0.1, "fsdp": 0.15}


def concluded(made: Mapping[str, Any]) -> StudyResult:
    """A study whose third trial is as ``made`` says, and whose other trials are fine."""
    variants = (Variant(name="ddp"), Variant(name="fsdp"))
    plan = Study(kind="strategy", workload=("train",), variants=variants, repeats=4, seed=1)

    def trained(trial: Trial) -> dict[str, Any]:
        changes = dict(made) if trial.number == 2 else {"verdict": "ok"}
        point = training_point(SECONDS[trial.variant] * (1 + trial.block / 1000))
        return run_result([point]) | changes

    return result_of("study", plan, outcomes_of(plan, trained))


def of(*findings: Mapping[str, str], verdict: str) -> dict[str, Any]:
    return {"findings": list(findings), "verdict": verdict, "verdict_reason": "told by the run"}


def test_a_critical_trial_makes_a_critical_study() -> None:
    result = concluded(of(WARNED, SLOW, verdict="critical"))
    trial = result.trials[2].trial.folder
    assert (result.status, result.conclusion.verdict, result.exit_code) == ("complete", "critical", 1)
    assert result.conclusion.reason.startswith(f"trial {trial}: {SLOW['summary']}; ")
    written = result.to_json()["trials"][2]["findings"][1]
    assert {name: written[name] for name in SLOW} == SLOW
    assert (written["evidence"], written["recommendations"]) == ([], [])


def test_a_trial_of_which_nothing_could_be_judged_leaves_the_study_unknown() -> None:
    result = concluded(of(WARNED, verdict="unknown") | {"verdict_reason": "nothing could be judged; data not checked"})
    assert (result.conclusion.verdict, result.exit_code) == ("unknown", 3)
    assert "nothing could be judged" in result.conclusion.reason


def test_a_warning_stays_a_warning_and_fine_trials_leave_the_answer() -> None:
    assert concluded(of(WARNED, verdict="warning")).conclusion.verdict == "warning"
    fine = concluded(of({"rule": "x", "severity": "info", "summary": "x"}, verdict="ok"))
    assert (fine.conclusion.verdict, fine.exit_code) == ("ok", 0)


def test_what_a_critical_trial_found_is_said_beside_missing_trials() -> None:
    plan = Study(kind="strategy", workload=("train",), variants=(Variant(name="ddp"),), repeats=2, seed=1)
    first = run_result([training_point(0.1)], **of(SLOW, verdict="critical"))
    result = result_of("study", plan, outcomes_of(plan, lambda trial: first if trial.number == 0 else None))
    assert result.exit_code == 3
    assert f"1 of 2 trials complete, their results kept; --resume does the rest; trial 000-ddp: {SLOW['summary']}" in (
        result.conclusion.reason
    )


@pytest.mark.parametrize(
    ("name", "findings", "told"),
    [
        ("tcp", [BY_CHOICE], None),
        ("my-net=eth1", [BY_CHOICE], None),
        ("tcp", [BY_CHOICE, SLOW], SLOW),
        ("rdma", [BY_CHOICE], BY_CHOICE),  # this variant sets nothing: somebody else did
    ],
)
def test_what_the_variant_sets_on_purpose_is_no_finding(
    name: str, findings: Sequence[Mapping[str, str]], told: Mapping[str, str] | None
) -> None:
    plan = Study(kind="network", workload=("train",), variants=(network_variant(name),), repeats=1, seed=1)
    verdict = "critical" if SLOW in findings else "warning"
    result = run_result([training_point(0.1)]) | {"verdict": verdict, "verdict_reason": "told by the run"}
    grave = grave_trials(plan, outcomes_of(plan, lambda _: (result, {"findings": findings})))
    assert [(one.finding, one.gravity) for one in grave] == ([(told["summary"], told["severity"])] if told else [])


def test_wrong_pairs_are_wrong_results_though_a_study_compares_no_pairs() -> None:
    pair = {
        "source_rank": 0, "destination_rank": 1, "message_bytes": 8, "element_count": 2, "bus_factor": 1.0,
        "samples_seconds": [0.1], "rank_seconds": [0.1, 0.1], "verified": False, "wrong_elements": 2,
    }  # fmt: skip
    benchmarks = run_result([training_point(0.1)])["benchmarks"]
    benchmarks.append({"name": "p2p_matrix", "kind": "p2p", "parameters": {}, "status": "failed", "points": [pair]})
    result = concluded({"benchmarks": benchmarks, "status": "failed", "verdict": "critical"})
    assert (result.conclusion.verdict, result.exit_code) == ("critical", 1)
    assert "wrong results in" in result.conclusion.reason
