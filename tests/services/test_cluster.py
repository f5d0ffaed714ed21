"""What a cluster's report is worth to each command. Brought up for real: tests/playbooks/test_cluster_lab.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.cluster_status import ClusterNode, ClusterStatus
from raybench.errors import UsageError
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import terminal_report_of
from raybench.services.cluster import ClusterOptions, FinishedCluster, up


def node(name: str, **more: Any) -> ClusterNode:
    return ClusterNode(name=name, **{"role": "worker", "alive": True, "running": True, **more})


def report(*nodes: ClusterNode, error: str = "", status: str = "successful") -> ClusterStatus:
    return ClusterStatus(action="up", status=status, nodes=(node("head", role="head"), *nodes), error=error)


AWAY = node("w", alive=False, running=None, problem="no route", unreachable=True)
BROKEN = node("w", alive=False, problem="no room on the disk")


@pytest.mark.parametrize(
    ("found", "allow_missing", "check", "verdict", "code"),
    [
        (report(node("w")), False, False, "ok", 0),
        (report(node("w", alive=None)), False, False, "incomplete", 3),  # the head was not asked: unknown is not there
        (report(AWAY), False, False, "incomplete", 3),
        (report(AWAY), True, False, "warning", 0),
        (report(node("w", alive=False)), True, False, "warning", 0),
        (report(BROKEN), True, False, "incomplete", 3),  # reached, and not right: that is no missing host
        (report(node("w", alive=None)), False, True, "ok", 0),  # nothing runs yet
        (report(AWAY), False, True, "incomplete", 3),
        (report(AWAY), True, True, "warning", 0),
        (report(error="no playbook"), False, True, "incomplete", 3),
    ],
)
def test_up_is_done_when_every_node_that_is_wanted_is_there(
    found: ClusterStatus, allow_missing: bool, check: bool, verdict: str, code: int
) -> None:
    found = replace(found, allow_missing=allow_missing, check=check)
    assert (found.verdict, FinishedCluster(report=found).exit_code) == (verdict, code)


def test_what_check_and_missing_workers_leave_undone_is_said() -> None:
    away = terminal_report_of(replace(report(AWAY), allow_missing=True), Asked()).reason
    assert away == "1 of 2 nodes alive; without w"
    checked = terminal_report_of(replace(report(node("w", running=False)), check=True), Asked()).reason
    assert checked == "nothing was done (--check); 1 of 2 nodes alive"


@pytest.mark.parametrize(
    ("found", "verdict", "code"),
    [
        (report(node("w")), "ok", 0),
        (report(node("w", alive=False)), "critical", 1),
        (report(node("w", running=False)), "critical", 1),  # the head's table has it, and it does not run
        (report(node("w", alive=None, running=None)), "unknown", 3),
        (report(AWAY), "incomplete", 3),
        (report(error="x"), "incomplete", 3),
    ],
)
def test_a_node_that_is_missing_is_a_problem_and_one_that_does_not_answer_is_unknown(
    found: ClusterStatus, verdict: str, code: int
) -> None:
    found = replace(found, action="status")
    assert (found.verdict, FinishedCluster(report=found).exit_code) == (verdict, code)


@pytest.mark.parametrize(("ended", "said"), [("canceled", "stopped half-way"), ("timeout", "--timeout) half-way")])
def test_what_was_ended_half_way_is_incomplete_and_says_what_to_do(ended: str, said: str) -> None:
    finished = FinishedCluster(report=report(status=ended))
    assert (finished.report.verdict, finished.exit_code) == ("incomplete", 3)
    assert said in finished.remark
    assert (FinishedCluster(report=report()).exit_code, FinishedCluster(report=report()).remark) == (0, "")


def test_an_inventory_without_one_head_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("ray_workers: {hosts: {w1: , w2: }}\n")
    with pytest.raises(UsageError, match="has 0 hosts in the group ray_head"):
        up(ClusterOptions(inventory=[str(tmp_path / "hosts.yml")]))
