"""Reports of large runs: as wide with a thousand nodes as with two, and nothing left out without a word on it."""

import io
import random
import re
from typing import Any

import pytest
from msgspec.structs import replace

from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.result import RunResult
from raybench.peers.findings import with_peers
from raybench.reports.agreement import agreement_of, difference_grid, omitted_facts
from raybench.reports.csv import csv_rows
from raybench.reports.facts import node_facts, node_grid, rank_facts
from raybench.reports.findings_in_short import evidence_view, findings_view
from raybench.reports.html import render_html
from raybench.reports.listed_pairs import listed_pairs
from raybench.reports.pairs import pair_matrices, slow_ends
from raybench.reports.plots.heat_cells import heat_cells
from raybench.reports.rows import dropped_lines
from raybench.reports.spans import names_in_short, spans_in_short
from raybench.reports.summary import summary_of
from raybench.reports.terminal.report import print_document
from raybench.reports.traffic_table import traffic_view

from .sample import cluster, pairs, run_result
from .synthetic import synthetic_cluster, synthetic_diagnosis, synthetic_result


def bare(nodes: int, per_node: int = 8) -> RunResult:
    """A synthetic run without its sweeps, whose size does not depend on the nodes."""
    result = synthetic_result(nodes, per_node)
    return replace(result, benchmarks=result.benchmarks[-1:])


def of_ranks(*values: dict[str, str]) -> ClusterInfo:
    nodes = tuple(
        NodeInfo(name=f"n{index}", address="", ranks=(index,), gpu_count=0, facts={"ranks": {str(index): facts}})
        for index, facts in enumerate(values)
    )
    return ClusterInfo(nodes=nodes, world_size=len(nodes), backend="gloo", emulated=False)


@pytest.mark.parametrize("nodes", [2, 40, 300])
def test_the_nodes_table_is_as_wide_with_two_nodes_as_with_many(nodes: int) -> None:
    found = synthetic_cluster(nodes, 8, random.Random(1))
    assert node_grid(found).headings == ("node", "address", "ranks", "GPUs")
    for view in (node_facts(found), rank_facts(found)):
        assert view.differing is not None or nodes == 2
        assert view.differing is None or (len(view.differing.headings), len(view.differing.rows) < 8) == (4, True)


def test_what_all_ranks_share_and_who_differs() -> None:
    view = rank_facts(synthetic_cluster(40, 8, random.Random(1)))
    assert view.shared_title == "The same on all 320 ranks"
    assert ("niceness", "0") in view.shared
    assert ("device", "by local rank: " + ", ".join(f"cuda:{index}" for index in range(8))) in view.shared
    assert view.differing is not None
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in view.differing.rows}
    assert rows == {
        "omp_threads": ["1", "319 ranks", "4 on rank 17"],
        "memlock": ["unlimited", "319 ranks", "65536 on rank 42"],
    }


def test_one_node_alone_has_no_rule_by_local_rank() -> None:
    facts = {"ranks": {"0": {"omp_threads": "1"}, "1": {"omp_threads": "8"}}}
    node = NodeInfo(name="a", address="", ranks=(0, 1), gpu_count=2, facts=facts)
    view = rank_facts(ClusterInfo(nodes=(node,), world_size=2, backend="nccl", emulated=False))
    assert view.differing is not None
    assert [cell.text for cell in view.differing.rows[0]] == ["omp_threads", "1", "rank 0", "8 on rank 1"]


def test_a_fact_that_some_lack_is_a_difference() -> None:
    view = rank_facts(of_ranks({"niceness": "0", "env.NCCL_IB_DISABLE": "1"}, {"niceness": "0"}, {"niceness": "0"}))
    assert view.shared == (("niceness", "0"),)
    assert view.differing is not None
    assert [cell.text for cell in view.differing.rows[0]][1:] == ["not said", "ranks 1-2", "1 on rank 0"]


def test_interfaces_are_compared_by_name() -> None:
    """Addresses differ by their nature; a NIC that only one node has does not."""
    facts = {
        "10.0.0.1": {"10.0.0.1": "eth0", "::1": "lo"},
        "10.0.0.2": {"10.0.0.2": "eth0", "::1": "lo"},
        "10.0.0.3": {"10.0.0.3": "eth0", "10.0.0.9": "ib0"},
    }
    nodes = [
        NodeInfo(name=name, address=name, ranks=(), gpu_count=0, facts={"interfaces": one})
        for name, one in facts.items()
    ]
    found = ClusterInfo(nodes=tuple(nodes), world_size=0, backend="nccl", emulated=False)
    alike = replace(found, nodes=found.nodes[:2])
    assert node_facts(alike).shared == (("interfaces", "eth0"),)
    differing = node_facts(found).differing
    assert differing is not None
    assert [cell.text for cell in differing.rows[0]] == [
        "interfaces",
        "eth0",
        "10.0.0.1, 10.0.0.2",
        "eth0, ib0 on 10.0.0.3",
    ]


def test_many_values_and_many_facts_say_what_is_left_out() -> None:
    facts = [{f"fact{number}": str(index * number) for number in range(60)} for index in range(100)]
    found = agreement_of(facts)
    grid = difference_grid(found.differences, "node", lambda who: f"{len(who)}")
    assert len(grid.rows) == 40
    assert grid.rows[0][3].text == "100 different values, 0 to 99: in result.json"
    assert str(omitted_facts(found.differences)).startswith("19 further facts in which they differ, in result.json: ")
    several = agreement_of([{"a": str(min(index, 9))} for index in range(100)]).differences
    text = difference_grid(several, "node", lambda who: f"{len(who)}").rows[0][3].text
    assert text.endswith("; 3 further values on 3 nodes, in result.json")


def test_loopback_is_no_traffic_of_a_node() -> None:
    found = synthetic_cluster(40, 8, random.Random(1))
    view = traffic_view(found)
    assert view is not None
    assert [row[0].text for row in view.grid.rows][-1] == "eth0"
    assert "lo" not in {row[0].text for row in view.grid.rows}
    assert "loopback (lo) is left out: what it carries crosses no network" in view.notes
    only = replace(found, nodes=tuple(replace(node, facts={"traffic": {"lo": {}}}) for node in found.nodes))
    assert traffic_view(only) is None


def test_emulated_nodes_count_the_devices_of_their_machine_once() -> None:
    moved = {"eth0": {"sent_bytes": 10**9, "received_bytes": 0}, "ifb0": {"sent_bytes": 0, "received_bytes": 0}}
    nodes = tuple(replace(node, facts={"traffic": moved}) for node in cluster().nodes)
    view = traffic_view(replace(cluster(), nodes=nodes, emulated=True))
    assert view is not None
    assert [cell.text for cell in view.grid.rows[0]][:4] == ["eth0", "1", "1 GB", "0 B"]
    assert "1 device moved nothing: ifb0" in view.notes


def test_findings_over_many_ranks_are_grouped_with_their_number() -> None:
    result = bare(40)
    view = findings_view(result.findings)
    assert len(view.shown) == 7
    assert len(view.omitted) == 1
    assert view.omitted[0].startswith("75 more findings of memlock-limit, on ranks 20, 24, 28")
    assert view.omitted[0].endswith("in result.json")
    lines, more = evidence_view(synthetic_diagnosis(40).findings[0])
    assert (len(lines), more) == (20, "140 further lines: in diagnosis.json")
    few = findings_view(result.findings[:10])
    assert (len(few.shown), few.omitted) == (10, ())


def test_lists_of_ranks_and_names_count_what_they_leave_out() -> None:
    assert spans_in_short(range(0, 8000, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 3,992 more"
    assert spans_in_short([*range(8), 9]) == "0-7, 9"
    assert names_in_short([f"n{number}" for number in range(10)]) == "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
    lines = dropped_lines(synthetic_cluster(300, 8, random.Random(1)))
    assert len(lines) == 2
    assert "were lost: its node actor did not answer" in lines[0]


def test_a_matrix_of_many_ranks_is_drawn_by_node_and_of_many_nodes_by_blocks() -> None:
    result = bare(40)
    matrix = pair_matrices(result.benchmarks[0], result.cluster)[0]
    assert (heat_cells(matrix).kind, heat_cells(matrix).size) == ("node", 40)
    blocks = heat_cells(matrix, most=12)
    assert (blocks.size, blocks.of_rank[319]) == (10, 9)
    assert "two blocks of 4 neighbouring nodes" in str(blocks.merged)
    assert min(blocks.gb_per_second.values()) == min(matrix.gb_per_second.values())
    text = render_html(result)
    assert "2,240 of the 102,080 pairs of 320 ranks were measured" in text
    assert "every pair is in result.json" in text


def test_the_node_that_is_named_is_the_one_that_is_marked() -> None:
    """The first rounds of a matrix pair a healthy node with the slow one and nobody else."""
    for nodes in (10, 40):
        result = with_peers(replace(bare(nodes), findings=()))
        assert [finding.hosts for finding in result.findings] == [("node-0006",)]
        matrix = pair_matrices(result.benchmarks[0], result.cluster, result.findings)[0]
        assert [(end.node, end.rank) for end in slow_ends(matrix)] == [("node-0006", None)]
        slow = [pair for pair in matrix.ranked if pair.is_slow]
        assert slow
        assert all("node-0006" in (pair.source_node, pair.destination_node) for pair in slow)


def test_rows_of_pairs_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = pairs(8, per_node=2, slow=[(0, 7)])
    found = cluster(4, 2)
    listed = listed_pairs(benchmark, found, 10)
    assert (len(listed.points), listed.omitted) == (10, 46)
    assert (0, 7) in {(point.source_rank, point.destination_rank) for point in listed.points}
    assert listed_pairs(benchmark, found, 56).remark is None
    monkeypatch.setattr("raybench.reports.workloads.messages.MOST_CSV_PAIRS", 10)
    monkeypatch.setattr("raybench.reports.workloads.messages.MOST_SUMMARY_PAIRS", 10)
    result = run_result(benchmark, cluster=found)
    rows = list(csv_rows(result))
    assert len(rows) == 11
    assert rows[-1]["warnings"].startswith("46 further pairs, each at ")
    part = summary_of(result)["results"]["communication"]["p2p"]
    assert (len(part["sizes"]), part["left_out"]) == (10, 46)


def test_every_output_grows_no_faster_than_the_nodes() -> None:
    """Eight times the nodes: at most eight times the bytes and a page."""

    def sizes(nodes: int) -> dict[str, int]:
        result, stream = bare(nodes), io.StringIO()
        print_document(result, stream, full=True, width=120)
        return {"html": len(render_html(result, synthetic_diagnosis(nodes))), "terminal": len(stream.getvalue())}

    few, many = sizes(32), sizes(256)
    assert all(many[name] < 8 * few[name] for name in few)
    assert many["html"] < 250_000
    assert many["terminal"] < 15_000


def test_a_rank_is_no_column_and_no_row_of_the_page() -> None:
    text = render_html(bare(256), synthetic_diagnosis(256))
    assert max(len(re.findall("<th", row)) for row in re.findall("<tr>.*?</tr>", text, flags=re.DOTALL)) < 12
    assert text.count("<tr>") < 400
    assert "ranks.17." not in text


def as_text(result: Any) -> str:
    stream = io.StringIO()
    print_document(result, stream, full=True, width=120)
    return stream.getvalue()


def test_the_terminal_says_what_it_leaves_out() -> None:
    text = as_text(bare(256))
    assert "and 240 more nodes: see report.html or result.json" in text
    assert "507 more findings of memlock-limit" in text
    assert "256 nodes are too many for this width: see the heatmap of the report" in text
