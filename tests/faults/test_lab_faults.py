"""Machines that go: a node without power, and the one with the head of the cluster."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab_run import LabRun, lab_run, nothing_left

pytestmark = [pytest.mark.lab, pytest.mark.cluster]
TIMEOUT = 20
SWEEP = ["--suite", "quick", "--sizes", "1K:900K:+1K", "--iters", "50", "--timeout", str(TIMEOUT)]


@contextmanager
def broken(fault: Callable[[Lab], None], *, nodes: int, node: int = 0) -> Iterator[tuple[Lab, LabRun]]:
    """A run that has ended after a fault in the middle of its sweep."""
    require_lab()
    with Lab(nodes=nodes) as lab:
        lab.start_ray()
        with lab_run(lab, *SWEEP, node=node) as run:
            run.wait_for_points(2)
            fault(lab)
            begun = time.monotonic()
            status = run.finish(90)
            seconds = time.monotonic() - begun
            print(f"{seconds:.1f} s from fault to exit")
            assert status == 3, run.errors
            assert seconds < TIMEOUT + 15
            result = run.result()
            assert result["status"] == "partial"
            assert len(result["benchmarks"][0]["points"]) == len(run.samples()) >= 2
            assert "Traceback" not in run.out + run.errors
        yield lab, run


@pytest.mark.long  # every day one whose cable is pulled: test_lab_runs.py
def test_a_node_that_loses_power_in_the_middle_of_a_sweep() -> None:
    with broken(lambda lab: lab.nodes[2].kill(), nodes=3) as (lab, run):
        result = run.result()
        finding = result["findings"][0]
        assert (finding["rule"], finding["ranks"], finding["hosts"]) == ("node-lost", [2], ["node3"])
        assert finding["step"].startswith("all_reduce float32 ")
        assert "node node3" in run.out
        assert [dropped["node"] for dropped in result["cluster"]["dropped"]] == ["node3"]
        assert nothing_left(lab, 5)


@pytest.mark.long
def test_a_cluster_whose_head_loses_power() -> None:
    with broken(lambda lab: lab.nodes[0].kill(), nodes=2, node=1) as (lab, run):
        finding = run.result()["findings"][0]
        assert (finding["rule"], finding["hosts"]) == ("cluster-lost", ["node1"])
        assert "head of the Ray cluster does not answer" in run.out
        assert nothing_left(lab, 5)
