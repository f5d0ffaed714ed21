"""One verdict for every document: which it is, why, and the exit code that goes with it."""

from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import raybench
from diagnostics.findings import Finding
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.preflight import PreflightReport
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.isolation import Isolation, Suspicion
from raybench.documents.run.verdict import BASELINE, Check
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import terminal_report_of
from raybench.reports.markdown import render_markdown
from raybench.reports.summary import summary_of
from raybench.services.diagnose import exit_code_of as diagnosis_exit_code
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions
from raybench.services.expected import SystemOptions, expected_bandwidth
from raybench.services.fabric import plan
from raybench.verdicts import EXIT_CODES
from tests.documents.mutation import REPORTS, SAMPLES
from tests.found import found
from tests.reports.sample import point, run_result, sweep

NOT_COMPARED = Check(name=BASELINE, outcome="not judged", text="not compared with the baseline r")
UNKNOWN = Check(name="bandwidth", outcome="not judged", text="bandwidth not judged (no expected figure)")


def finding(severity: str, summary: str = "node b is slow", **keys: Any) -> Finding:
    return found(severity=severity, summary=summary, **keys)


def incident(rule: str, severity: str, summary: str) -> Finding:
    return found(rule=rule, severity=severity, summary=summary, victims=[])


def test_what_was_verified_is_ok_and_what_was_not_judged_is_said() -> None:
    conclusion = run_result(checks=(UNKNOWN,)).conclusion
    assert conclusion.verdict == "ok"
    assert conclusion.reason == "data verified, no finding; bandwidth not judged (no expected figure)"


def test_a_run_of_which_nothing_was_judged_is_unknown() -> None:
    unchecked = sweep(points=(point(verified=None),))
    conclusion = run_result(unchecked, checks=(UNKNOWN,)).conclusion
    assert (conclusion.verdict, conclusion.exit_code) == ("unknown", 3)
    assert conclusion.reason == "nothing could be judged; data not checked; bandwidth not judged (no expected figure)"


@pytest.mark.parametrize(
    ("changes", "verdict", "code", "reason"),
    [
        ({"findings": (finding("info"),)}, "ok", 0, "data verified"),
        ({"findings": (finding("warning"),)}, "warning", 0, "node b is slow"),
        ({"findings": (finding("warning", "w"), finding("critical"))}, "critical", 1, "node b is slow (and 1 more"),
        ({"log_findings": (finding("critical", "TCP"),)}, "critical", 1, "TCP"),
        ({"checks": (NOT_COMPARED,), "findings": (finding("warning"),)}, "unknown", 3, "not compared with the base"),
        ({"checks": (NOT_COMPARED,), "findings": (finding("critical"),)}, "critical", 1, "node b is slow"),
        ({"checks": (UNKNOWN,), "findings": (finding("warning"),)}, "warning", 0, "node b is slow"),
        ({"status": "partial"}, "incomplete", 3, "the run is partial"),
        ({"problems": ("result.csv could not be written",)}, "incomplete", 3, "result.csv could not be written"),
        (
            {"status": "partial", "findings": (incident("rank-died", "critical", "rank 1: killed"),)},
            "incomplete",
            3,
            "rank 1: killed",
        ),
    ],
)
def test_the_gravest_thing_decides(changes: dict[str, Any], verdict: str, code: int, reason: str) -> None:
    result = run_result(**changes)
    assert (result.conclusion.verdict, result.exit_code) == (verdict, code)
    assert result.conclusion.reason.startswith(reason)


def test_a_finding_beside_what_broke_the_run_is_not_lost() -> None:
    both = (incident("rank-died", "critical", "rank 1: killed"), finding("critical"))
    assert run_result(status="partial", findings=both).conclusion.reason == "rank 1: killed; node b is slow"


def test_a_run_stopped_by_its_user_is_incomplete_in_one_line_and_not_critical() -> None:
    cut = replace(sweep(), status="partial", reason="stopped by you during all_reduce float32 1M")
    never = replace(
        sweep("broadcast", points=()), status="failed", reason="stopped by you during all_reduce float32 1M"
    )
    stopped = incident("interrupted", "info", "stopped by you during all_reduce float32 1M")
    conclusion = run_result(cut, never, status="partial", findings=(stopped,)).conclusion
    assert (conclusion.verdict, conclusion.exit_code) == ("incomplete", 3)
    assert conclusion.reason == f"stopped by you during all_reduce float32 1M; {len(cut.points)} measured points kept"


def test_wrong_data_comes_before_everything() -> None:
    bad = sweep(points=(point(verified=False, wrong_elements=7),))
    conclusion = run_result(replace(bad, status="failed"), status="failed").conclusion
    assert (conclusion.verdict, conclusion.exit_code) == ("critical", 1)
    assert "7 elements differ" in conclusion.reason


def test_one_benchmark_that_failed_makes_a_run_incomplete_whatever_its_status_says() -> None:
    failed = replace(sweep("broadcast", points=()), status="failed", reason="no memory")
    assert run_result(sweep(), failed).conclusion.reason == "broadcast: no memory"


def test_a_benchmark_that_was_skipped_is_named_beside_what_was_measured() -> None:
    skipped = replace(sweep("alltoall", points=()), status="skipped", reason="gloo has none")
    result = run_result(sweep(), skipped)
    assert result.conclusion.verdict == "ok"
    assert result.conclusion.reason.endswith("alltoall was skipped: gloo has none")
    assert result.to_json()["checks"][-1]["outcome"] == "not judged"
    assert run_result(skipped).conclusion.verdict == "unknown"


def test_a_checkpoint_that_was_not_compared_is_not_called_verified() -> None:
    saved = CheckpointPoint(label="local", durable_seconds=(1.0, 1.0, 1.0), tensor_bytes=10**9)
    benchmark = replace(sweep("checkpoint", points=()), kind="checkpoint", workload=(saved,))
    assert run_result(benchmark).conclusion.verdict == "unknown"
    assert run_result(replace(benchmark, workload=(replace(saved, verified=True),))).conclusion.verdict == "ok"


def test_every_document_of_a_run_has_the_same_verdict() -> None:
    result = run_result(findings=(finding("warning"),), checks=(UNKNOWN,))
    content, summary = result.to_json(), summary_of(result)
    assert (content["verdict"], content["verdict_reason"]) == ("warning", "node b is slow")
    assert (summary["verdict"], summary["verdict_reason"]) == ("warning", "node b is slow")
    assert "**warning**: node b is slow" in render_markdown(result)
    assert {check["check"] for check in content["checks"]} == {"data", "bandwidth"}
    assert set(EXIT_CODES.values()) == {0, 1, 3}


def test_how_ranks_that_were_stopped_left_their_logs_is_no_fault() -> None:
    """Near miss: another finding of the logs stays, and so does this one of a run that nothing had broken."""
    stopped = incident("interrupted", "info", "stopped by you during all_reduce")
    died, fallback = (finding("critical", text) for text in ("A rank's process went away", "TCP fallback"))
    died = replaced(died, rule="peer-died")
    result = run_result(status="partial", findings=(stopped,), log_findings=(died, fallback))
    assert "went away" not in result.conclusion.reason
    assert result.conclusion.reason.endswith("; TCP fallback")
    assert run_result(log_findings=(died,)).conclusion.verdict == "critical"


# Exit codes by the words of a diagnosis and of checks, as `raybench diagnose --help` and `preflight --help` say.
OWN_EXIT_CODES: dict[type, dict[str, set[int]]] = {
    Diagnosis: {"ok": {0, 3}, "warning": {1}, "critical": {1}, "unknown": {2, 3}},  # 3: not read to the end
    PreflightReport: {"pass": {0}, "unknown": {0}, "warn": {0}, "fail": {1, 3}, "error": {3}},  # 3: no answer
}


@pytest.mark.parametrize("path", [*REPORTS, *SAMPLES], ids=lambda path: path.stem)
def test_the_verdict_that_is_shown_and_the_exit_code_are_one_fact(path: Path) -> None:
    document = raybench.load(path)
    shown = terminal_report_of(document, Asked()).verdict
    known = {word: {code} for word, code in {**EXIT_CODES, "": 0}.items()}
    assert _exit_code(document) in OWN_EXIT_CODES.get(type(document), known)[shown]


def _exit_code(document: Any) -> int:
    """That of the command that writes it, by its service."""
    if isinstance(document, Diagnosis):
        return diagnosis_exit_code(document)
    conclusion = getattr(document, "conclusion", None)
    return int(getattr(document, "exit_code", conclusion.exit_code if conclusion else 0))


SIMULATED = plan({"nodes": 8, "simulate": True, "trials": 2})


@pytest.mark.parametrize(
    "document",
    [
        plan({"nodes": 8}),
        SIMULATED,
        replaced(SIMULATED, simulation=replaced(SIMULATED.simulation, exact=1)),
        estimate(EstimateOptions(model="llama-8b", gpu="H100")).report,
        estimate(EstimateOptions(model="llama-70b", gpu="H100")).report,
        estimate(EstimateOptions(model="llama-8b")).report,
        expected_bandwidth(SystemOptions(gpu="H100"), sizes="1G"),
        expected_bandwidth(SystemOptions(gpu="H100", nodes=2), sizes="1G"),
    ],
    ids=lambda document: type(document).__name__,
)
def test_what_is_computed_ends_as_its_verdict(document: Any) -> None:
    shown = terminal_report_of(document, Asked()).verdict
    assert document.exit_code == {**EXIT_CODES, "": 0}[shown]


@pytest.mark.parametrize(
    ("outcome", "severity", "verdict", "exit_code"),
    [
        ("unknown", "warning", "unknown", 3),
        ("not confirmed", "warning", "warning", 0),
        ("unknown", "critical", "critical", 1),
    ],
)
def test_an_isolation_that_was_asked_for_and_could_not_tell_is_not_fine(
    outcome: Any, severity: str, verdict: str, exit_code: int
) -> None:
    suspect = Suspicion(
        name="node3", nodes=("node3",), rules=("slow-node",), outcome=outcome, reason="figures varied too much"
    )
    accused = found(severity=severity, summary="node3 is slow", hosts=("node3",))
    run = run_result(findings=(accused,), isolation=Isolation(seconds=1.0, suspects=(suspect,)))
    assert (run.conclusion.verdict, run.conclusion.exit_code) == (verdict, exit_code)
    if verdict == "unknown":
        assert run.conclusion.reason.startswith("whether node3 is at fault is not known: figures varied too much")
