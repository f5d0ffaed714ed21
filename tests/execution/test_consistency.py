"""Nodes that differ, and ranks that do not see their node's GPUs."""

from typing import Any

import pytest

from raybench.execution.consistency import differences, masked_devices
from raybench.metadata import COMPARED

SAME: dict[str, Any] = {"python": "3.11.7", "torch": "2.9", "nccl": "2.27", "driver": "580.1", "raybench": "0.1"}


def nodes(*changes: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"node{index}", SAME | change) for index, change in enumerate(changes)]


def test_equal_nodes_do_not_differ_whatever_else_they_have() -> None:
    assert differences(nodes({}, {"hostname": "x", "kernel": "6.1"}, {"cpu_count": 3})) == []
    assert differences(nodes({})) == []


@pytest.mark.parametrize("software", COMPARED)
def test_the_odd_node_is_named_with_both_versions(software: str) -> None:
    (finding,) = differences(nodes({}, {software: "other"}, {}))
    assert finding.hosts == ("node1",)
    assert (finding.rule, finding.severity) == ("versions-differ", "critical")
    assert software in finding.summary
    assert "node1 has other" in finding.summary
    assert str(SAME[software]) in finding.summary


def test_what_one_node_lacks_is_a_difference_and_what_all_lack_is_not() -> None:
    assert differences(nodes({}, {"nccl": None}, {}))[0].summary.endswith("node1 has not installed")
    assert differences(nodes({"nccl": None}, {"nccl": None})) == []


def test_each_software_is_a_finding_of_its_own() -> None:
    assert len(differences(nodes({}, {"torch": "1", "nccl": "2"}, {"torch": "3"}))) == 2


def gpus(count: int) -> dict[str, Any]:
    return {"gpus": [{"index": str(index)} for index in range(count)]}


def test_ranks_that_see_fewer_gpus_than_their_node_has_are_said() -> None:
    facts = [("a", gpus(8)), ("b", gpus(8))]
    (finding,) = masked_devices(
        facts, [("a", {"visible_gpus": "8"}), ("b", {"visible_gpus": "8"}), ("b", {"visible_gpus": "1"})]
    )
    assert (finding.rule, finding.hosts, finding.severity) == ("devices-masked", ("b",), "critical")
    assert "b (1 of 8)" in finding.summary


def test_ranks_that_see_all_or_have_none_are_fine() -> None:
    assert masked_devices([("a", gpus(8))], [("a", {"visible_gpus": "8"})]) == []
    assert masked_devices([("a", gpus(0))], [("a", {})]) == []
    assert masked_devices([("a", gpus(8))], [("a", {"niceness": "0"})]) == []
