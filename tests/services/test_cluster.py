"""What a cluster's report is worth to each command. Brought up for real: tests/playbooks/test_cluster_lab.py."""

from pathlib import Path
from typing import Any

import pytest

from raybench.documents.cluster_status import ClusterNode, ClusterStatus
from raybench.errors import UsageError
from raybench.services.cluster import (
    ClusterOptions,
    FinishedCluster,
    exit_code_of_status,
    exit_code_of_up,
    up,
)


def node(name: str, **more: Any) -> ClusterNode:
    return ClusterNode(name=name, **{"role": "worker", "alive": True, "running": True, **more})


def report(*nodes: ClusterNode, error: str = "", status: str = "successful") -> ClusterStatus:
    return ClusterStatus(action="up", status=status, nodes=(node("head", role="head"), *nodes), error=error)


AWAY = node("w", alive=False, running=None, problem="no route", unreachable=True)
BROKEN = node("w", alive=False, problem="no room on the disk")


@pytest.mark.parametrize(
    ("found", "allow_missing", "check", "code"),
    [
        (report(node("w")), False, False, 0),
        (report(node("w", alive=None)), False, False, 3),  # the head was not asked: unknown is not there
        (report(AWAY), False, False, 3),
        (report(AWAY), True, False, 0),
        (report(BROKEN), True, False, 3),  # reached, and not right: that is no missing host
        (report(node("w", alive=None)), False, True, 0),  # nothing runs yet
        (report(AWAY), False, True, 3),
        (report(error="no playbook"), False, True, 3),
    ],
)
def test_up_is_done_when_every_node_that_is_wanted_is_there(
    found: ClusterStatus, allow_missing: bool, check: bool, code: int
) -> None:
    assert exit_code_of_up(found, allow_missing=allow_missing, check=check) == code


@pytest.mark.parametrize(
    ("found", "code"),
    [(report(node("w")), 0), (report(node("w", alive=False)), 1), (report(AWAY), 3), (report(error="x"), 3)],
)
def test_a_node_that_is_missing_is_a_problem_and_one_that_does_not_answer_is_unknown(
    found: ClusterStatus, code: int
) -> None:
    assert exit_code_of_status(found) == code


@pytest.mark.parametrize(("ended", "said"), [("canceled", "stopped half-way"), ("timeout", "--timeout) half-way")])
def test_what_was_ended_half_way_is_incomplete_and_says_what_to_do(ended: str, said: str) -> None:
    finished = FinishedCluster(report=report(status=ended), judged=0)
    assert finished.exit_code == 3
    assert said in finished.remark
    assert (
        FinishedCluster(report=report(), judged=0).exit_code,
        FinishedCluster(report=report(), judged=0).remark,
    ) == (
        0,
        "",
    )


def test_an_inventory_without_one_head_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("ray_workers: {hosts: {w1: , w2: }}\n")
    with pytest.raises(UsageError, match="has 0 hosts in the group ray_head"):
        up(ClusterOptions(inventory=[str(tmp_path / "hosts.yml")]))
