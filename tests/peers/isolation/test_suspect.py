"""Who is accused by findings, and what is read of a run by node."""

from collections.abc import Callable

import pytest
from msgspec import convert
from msgspec.structs import replace

from diagnostics.findings import Finding, Severity
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import Check
from raybench.finding_rules.registry import all_rules
from raybench.peers.findings import with_peers
from raybench.peers.isolation.reading import reading_of
from raybench.peers.isolation.steps import partners_of
from raybench.peers.isolation.suspect import ACCUSING, Suspect, lost_nodes, suspects_of
from raybench.peers.judgement import LARGE, MODERATE
from tests.peers.sample import BETWEEN, Pair, matrix
from tests.reports.sample import run_result, sweep


def cluster(nodes: int, per_node: int) -> ClusterInfo:
    return ClusterInfo(
        nodes=tuple(
            NodeInfo(
                name=f"node{number + 1}",
                address=f"10.0.0.{number + 1}",
                ranks=tuple(range(number * per_node, (number + 1) * per_node)),
                gpu_count=per_node,
            )
            for number in range(nodes)
        ),
        world_size=nodes * per_node,
        backend="nccl",
        emulated=False,
    )


def run(
    nodes: int, per_node: int, *findings: Finding, share: Callable[[Pair], float] = lambda _: 1.0, block_count: int = 5
) -> RunResult:
    points = tuple(matrix(nodes, per_node, share, block_count=block_count))
    pairs = sweep("p2p_matrix", kind="p2p", points=points)
    return run_result(pairs, cluster=cluster(nodes, per_node), findings=findings)


def finding(rule: str, *hosts: str, ranks: tuple[int, ...] = (), severity: Severity = "critical") -> Finding:
    """One that ended the run where it is of a kind that does."""
    ended = () if rule in ("node-lost", "rank-stopped") else None
    said = {"summary": rule, "explanation": ""}
    return Finding(
        rule=rule, severity=severity, confidence="likely", hosts=hosts, ranks=ranks, broken_with=ended, **said
    )


def test_every_accusing_rule_is_one_that_there_is() -> None:
    assert set(ACCUSING) <= {rule.id for rule in all_rules()}


def test_a_node_that_its_own_matrix_accuses_is_a_suspect_and_a_clean_run_has_none() -> None:
    slow = with_peers(run(4, 2, share=lambda pair: 0.3 if {4, 5} & set(pair) else 1.0))
    assert [(one.node, one.other, one.rules, one.limit) for one in suspects_of(slow)] == [
        ("node3", None, ("slow-node",), LARGE)
    ]
    assert suspects_of(with_peers(run(4, 2))) == ()


def test_what_says_nothing_of_a_node_accuses_nobody() -> None:
    others = (finding("tcp-fallback", "node1"), finding("slow-node", "elsewhere"), finding("slow-node"))
    assert suspects_of(run(3, 1, *others, finding("slow-node", "node2", severity="info"))) == ()


def left_open(*hosts: str, rule: str = "slow-tcp-paths", undecided: bool = True) -> Check:
    return Check(name="tcp paths", outcome="not judged", text="", undecided=undecided, hosts=hosts, rule=rule)


def test_who_may_be_meant_by_an_open_check_is_a_suspect_after_those_that_are_accused() -> None:
    result = run(5, 1, finding("slow-node", "node2"))
    opened = replace(result, checks=(left_open("node4", "node2", "node3", "node1"),))
    told = [(one.node, one.is_open, one.aspects, one.rules) for one in suspects_of(opened)]
    assert told == [
        ("node2", False, ("bandwidth",), ("slow-node",)),
        ("node4", True, ("bandwidth",), ("slow-tcp-paths",)),
        ("node3", True, ("bandwidth",), ("slow-tcp-paths",)),
    ]
    (check,) = opened.checks
    assert convert(check.to_json(), Check) == check


def test_a_check_that_is_closed_or_names_no_node_of_the_run_makes_no_suspect() -> None:
    checks = (left_open("node1", undecided=False), left_open("elsewhere"), left_open("node1", rule="tcp-fallback"))
    assert suspects_of(replace(run(4, 1), checks=checks)) == ()


def test_findings_on_one_node_are_one_suspect_and_a_path_to_it_is_none() -> None:
    told = (
        finding("slow-way", "node1", "node2"),
        finding("slow-node", "node2", severity="warning"),
        finding("rank-stopped", "node2", ranks=(1,)),
        finding("slow-way", "node3", "node4"),
    )
    first, path = suspects_of(run(4, 1, *told))
    assert (first.node, first.rules, first.broke, first.limit) == ("node2", ("slow-node", "rank-stopped"), True, LARGE)
    assert first.aspects == ("bandwidth", "speed")
    assert (path.name, path.nodes) == ("the path between node3 and node4", ("node3", "node4"))
    (moderate,) = suspects_of(run(3, 1, finding("slow-node", "node2", severity="warning")))
    assert moderate.limit == MODERATE


def test_one_rank_of_a_node_is_looked_at_on_its_own_rail() -> None:
    result = run(3, 2, finding("slow-rank", "node2", ranks=(3,)), share=lambda pair: 0.25 if 3 in pair else 1.0)
    (suspect,) = suspects_of(result)
    assert (suspect.places, suspect.ranks, suspect.name) == ((1,), (3,), "rank 3 (node2)")
    pairs = reading_of(result, suspect.places, accused="node2").pairs
    medians = {pair: sorted(blocks)[len(blocks) // 2] / BETWEEN for pair, blocks in pairs.items()}
    assert medians == {
        ("node1", "node2"): pytest.approx(0.25, rel=0.1),
        ("node2", "node3"): pytest.approx(0.25, rel=0.1),
        ("node1", "node3"): pytest.approx(1.0, rel=0.1),
    }


def test_the_slower_direction_of_two_nodes_counts() -> None:
    pairs = reading_of(run(3, 1, share=lambda pair: 0.2 if pair == (2, 0) else 1.0)).pairs
    assert max(pairs["node1", "node3"]) < 0.3 * BETWEEN < min(pairs["node1", "node2"])


def test_lost_nodes_are_those_of_the_finding_that_says_so() -> None:
    told = (finding("node-lost", "node2"), finding("slow-node", "node1"))
    assert lost_nodes(run(3, 1, *told)) == ("node2",)


def test_nobody_who_is_accused_is_a_partner_and_neighbours_come_first() -> None:
    nodes = tuple(f"node{number}" for number in range(1, 10))
    suspects = [Suspect(node=name, aspects=("bandwidth",), rules=("slow-node",)) for name in ("node5", "node6")]
    partners = partners_of(suspects[0], nodes, suspects)
    assert partners.instead == "node4"
    assert len(partners.nodes) == 4
    assert not {"node4", "node5", "node6"} & set(partners.nodes)
    assert "node3" in partners.nodes or "node7" in partners.nodes


def test_a_node_whose_tcp_paths_are_slow_is_a_suspect_and_so_is_the_path_between_two() -> None:
    (node,) = suspects_of(run(4, 1, finding("slow-tcp-paths", "node2")))
    assert (node.nodes, node.aspects) == (("node2",), ("bandwidth",))
    path = finding("slow-tcp-paths", "node2", "node3", severity="warning")
    (between,) = suspects_of(run(4, 1, path))
    assert between.nodes == ("node2", "node3")
    (alone,) = suspects_of(run(4, 1, path, finding("slow-node", "node3")))
    assert alone.nodes == ("node3",)
