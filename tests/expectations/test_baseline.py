"""A run beside an earlier one of the same cluster: found, not found, not comparable, unusable."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError
from raybench.expectations.annotate import with_expectations
from raybench.expectations.baseline import LIMIT, Baseline, baseline_of
from raybench.finding_rules.bandwidth import BELOW_BASELINE, NOT_COMPARABLE
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.run.screen import run_screen
from raybench.reports.terminal.screen import screen_lines
from tests.expectations.test_annotate import all_reduce, cluster
from tests.reports.sample import run_result


def run_of(gb_per_second: float, *, where: ClusterInfo | None = None, noise: float = 0.01) -> RunResult:
    return run_result(all_reduce(gb_per_second, noise=noise), cluster=where or cluster(), variables={}, findings=())


def read_baseline(content: dict[str, Any], where: str) -> Baseline:
    return baseline_of(RunResult.of_json(json.loads(json.dumps(content)), where), where)


def baseline(gb_per_second: float, **options: Any) -> Baseline:
    return read_baseline(run_of(gb_per_second, **options).to_json(), "it")


def rules(result: RunResult) -> list[str]:
    return [finding.rule for finding in result.findings]


def test_a_lost_nic_that_published_spread_hides_is_found_by_an_own_baseline() -> None:
    now = run_of(390 * 7 / 8)  # 341: as fast as healthy systems elsewhere are
    assert rules(with_expectations(now)) == []
    (finding,) = with_expectations(now, baseline(390)).findings
    assert finding.rule == BELOW_BASELINE.id
    assert "88% of this cluster's own run" in finding.summary
    assert finding.severity == "critical"
    assert finding.recommendations


@pytest.mark.parametrize(
    ("share", "found"), [(1.0, []), (1.1, []), (0.96, []), (0.925, [BELOW_BASELINE.id]), (0.5, [BELOW_BASELINE.id])]
)
def test_a_cluster_that_differs_from_itself_by_little_is_no_finding(share: float, found: list[str]) -> None:
    judged = with_expectations(run_of(800 * share), baseline(800))  # too fast for any published figure to object
    assert rules(judged) == found
    shown = judged.benchmarks[0].points[-1].expected
    assert shown is not None
    assert shown.limit == LIMIT
    assert "this cluster's own run" in shown.basis


@pytest.mark.parametrize("noisy", ["now", "then"])
def test_an_interval_that_reaches_the_limit_is_no_finding(noisy: str) -> None:
    slow = with_expectations(run_of(700, noise=0.0), baseline(800, noise=0.0))
    unsure = with_expectations(
        run_of(700, noise=0.5 if noisy == "now" else 0.0), baseline(800, noise=0.5 if noisy == "then" else 0.0)
    )
    assert rules(slow) == [BELOW_BASELINE.id]
    assert rules(unsure) == []


def test_another_shape_is_said_and_published_systems_judge_alone() -> None:
    judged = with_expectations(run_of(366), baseline(800, where=cluster(2)))
    (finding,) = judged.findings
    assert finding.rule == NOT_COMPARABLE.id
    assert "nodes 2 then, 4 now; ranks 16 then, 32 now" in finding.summary
    assert (judged.conclusion.verdict, judged.exit_code) == ("unknown", 3)
    assert judged.conclusion.reason.startswith("not compared with the baseline ")
    assert finding.summary in judged.conclusion.reason
    shown = judged.benchmarks[0].points[-1].expected
    assert shown is not None
    assert "published healthy systems" in shown.basis


def test_without_a_large_message_in_both_nothing_is_judged_and_that_is_said() -> None:
    before = run_of(800).to_json()
    before["benchmarks"][0]["points"] = before["benchmarks"][0]["points"][:1]  # 1 MiB
    (finding,) = with_expectations(run_of(400), read_baseline(before, "it")).findings
    assert finding.rule == NOT_COMPARABLE.id
    assert "no collective in common with this run at 64M or more" in finding.summary


def test_points_that_the_baseline_has_not_keep_the_published_expectation() -> None:
    whole = run_of(366)
    content = whole.to_json()
    content["benchmarks"][0]["points"] = content["benchmarks"][0]["points"][:2]
    points = with_expectations(whole, read_baseline(content, "it")).benchmarks[0].points
    bases = [point.expected.basis for point in points if point.expected is not None]
    assert ["own run" in basis for basis in bases] == [True, True, False, False, False]


def test_emulated_nodes_are_shown_beside_the_baseline_and_that_they_are_not_judged_is_said() -> None:
    where = cluster(emulated=True, backend="gloo")
    judged = with_expectations(run_of(1, where=where), baseline(4, where=where))
    (finding,) = judged.findings
    assert (finding.rule, finding.severity) == (NOT_COMPARABLE.id, "warning")
    assert "emulated nodes share the processors" in finding.summary
    assert "of this shape" not in finding.recommendations[0].text  # it is of this shape, and that does not help
    assert (judged.conclusion.verdict, judged.exit_code) == ("unknown", 3)  # the comparison was asked for
    point = judged.benchmarks[0].points[-1]
    assert point.expected_ratio == pytest.approx(0.25, rel=0.1)
    assert point.expected_text.endswith(", not judged")
    screen = "".join(text for line in screen_lines(run_screen(judged, Asked()), 100, ()) for text, _ in line)
    assert "of the baseline, not judged" in screen
    assert "of expected" not in screen


def test_points_that_are_judged_by_the_baseline_say_no_such_thing() -> None:
    point = with_expectations(run_of(1), baseline(4)).benchmarks[0].points[-1]
    assert point.expected_text == f"{point.expected_ratio:.2f}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "raybench.estimate/1"}, "is no raybench.result/1"),
        ({"benchmarks": []}, "no collective with a bandwidth"),
        ({"benchmarks": [{"kind": "collective"}]}, "is damaged|is not whole"),
        ({"cluster": None}, "is damaged|is not whole"),
    ],
)
def test_what_is_no_baseline_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_baseline({**run_of(366).to_json(), **change}, "it")


@pytest.mark.parametrize(
    "change", [{"ci95_seconds": [0, 0]}, {"ci95_seconds": [1]}, {"samples_seconds": []}, {"bus_factor": "fast"}]
)
def test_a_baseline_with_broken_points_is_refused(change: dict[str, Any]) -> None:
    content = run_of(366).to_json()
    content["benchmarks"][0]["points"][0] |= change
    with pytest.raises(UsageError, match=r"is damaged|is not whole"):
        read_baseline(content, "it")


def test_points_with_wrong_elements_are_no_baseline() -> None:
    wrong = run_of(366)
    benchmark = wrong.benchmarks[0]
    points = tuple(replace(point, wrong_elements=1) for point in benchmark.points)
    with pytest.raises(UsageError, match="no collective"):
        read_baseline(replace(wrong, benchmarks=(replace(benchmark, points=points),)).to_json(), "it")


def test_collectives_that_the_baseline_lacks_are_not_said_to_be_as_fast() -> None:
    known = all_reduce(390)
    now = run_result(known, replace(known, name="all_gather"), cluster=cluster(), variables={}, findings=())
    (check,) = [one for one in with_expectations(now, baseline(390)).checks if one.name == "baseline"]
    assert (check.outcome, check.text) == ("passed", "1 of 2 collectives as fast as the baseline 20261121-014334-a1b2")
