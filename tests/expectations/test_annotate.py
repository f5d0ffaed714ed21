"""Measured beside expected in a run: the shape read from the nodes, the finding, and every reason for silence."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, NodeInfo
from raybench.documents.run.facts import RdmaPort
from raybench.documents.run.result import RunResult
from raybench.expectations.annotate import with_expectations
from raybench.expectations.regimes import NoExpectation, System
from raybench.expectations.shape import chosen_by_nccl, system_of
from raybench.metadata import rdma_ports
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.run.tables import run_tables
from raybench.reports.csv import csv_rows
from raybench.reports.html import render_html
from raybench.reports.markdown import render_markdown
from raybench.reports.terminal.report import report_lines
from tests.reports.sample import launches, pairs, point, run_result

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"


def ports(
    count: int, gbit: float = 400.0, state: str = "ACTIVE", link_layer: str = "InfiniBand"
) -> list[dict[str, Any]]:
    return [
        {"device": f"mlx5_{index}", "port": "1", "gbit": gbit, "state": state, "link_layer": link_layer}
        for index in range(count)
    ]


def cluster(
    nodes: int = 4, *, gpu: str = H100, hcas: list[dict[str, Any]] | None = None, **changes: Any
) -> ClusterInfo:
    members = tuple(
        NodeInfo(
            name=f"n{node}",
            address=f"10.0.0.{node}",
            ranks=tuple(range(8 * node, 8 * node + 8)),
            gpu_count=8,
            facts={"gpus": [{"name": gpu}] * 8, "rdma_ports": ports(8) if hcas is None else hcas},
        )
        for node in range(nodes)
    )
    return replace(ClusterInfo(nodes=members, world_size=8 * nodes, backend="nccl", emulated=False), **changes)


def all_reduce(gb_per_second: float, world_size: int = 32, noise: float = 0.01) -> BenchmarkResult:
    factor = 2 * (world_size - 1) / world_size
    sizes = (2**20, GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    points = tuple(
        point(size, samples=launches(size * factor / gb_per_second / 1e9, noise=noise), bus_factor=factor)
        for size in sizes
    )
    parameters = {"dtype": "float32", "reduce_op": "sum", "root": None, "in_place": True}
    return BenchmarkResult(
        name="all_reduce", kind="collective", parameters=parameters, status="complete", points=points
    )


def judged(*benchmarks: BenchmarkResult, where: ClusterInfo | None = None, **variables: str) -> RunResult:
    return with_expectations(run_result(*benchmarks, cluster=where or cluster(), variables=variables, findings=()))


def test_a_healthy_run_has_ratios_and_no_finding() -> None:
    result = judged(all_reduce(366))
    assert result.findings == ()
    measured = result.benchmarks[0].points[-1]
    assert measured.expected_ratio == pytest.approx(1, abs=0.06)
    shown = measured.to_json()["expected"]
    assert shown["ratio"] == pytest.approx(measured.busbw_gb_per_s / shown["busbw_gb_per_s"])
    assert "8 x 400 Gbit/s a node" in shown["basis"]


def test_a_lost_nic_is_found_with_figures_basis_and_advice() -> None:
    (finding,) = judged(all_reduce(366 * 7 / 8)).findings
    assert finding.rule == "bandwidth-below-expected"
    assert "GB/s at 8G, expected" in finding.summary
    assert "published healthy systems" in finding.explanation
    assert finding.recommendations


def test_an_interval_that_reaches_the_limit_is_no_finding() -> None:
    slow = judged(all_reduce(330, noise=0.0))
    noisy = judged(all_reduce(330, noise=0.5))
    assert len(slow.findings) == 1
    assert noisy.findings == ()


@pytest.mark.parametrize(
    ("where", "variables", "words"),
    [
        (cluster(emulated=True), {}, "emulated nodes"),
        (cluster(backend="gloo"), {}, "the backend is gloo"),
        (cluster(gpu="NVIDIA H100 80GB HBM3 MIG 1g.10gb"), {}, "slice of a GPU"),
        (cluster(gpu="Tesla P100"), {}, "no device named 'Tesla P100'"),
        (cluster(gpu="NVIDIA A10G"), {}, "no published figures of A10G"),
        (cluster(gpu="NVIDIA GB200"), {}, "NVLink domain is not known"),
        (cluster(hcas=[]), {}, "NICs of the nodes are not known"),
        (cluster(), {"NCCL_IB_DISABLE": "1"}, "TCP sockets"),
        (cluster(), {"NCCL_NET": "Socket"}, "TCP sockets"),
        (cluster(nodes=0, world_size=0), {}, "which GPUs"),
    ],
)
def test_what_cannot_be_known_says_why_at_every_point(
    where: ClusterInfo, variables: dict[str, str], words: str
) -> None:
    result = judged(all_reduce(100), where=where, **variables)
    assert result.findings == ()
    for measured in result.benchmarks[0].points:
        assert words in measured.to_json()["expected"]["unknown"]
    remark = next(iter_text(result, "expected bandwidth"))
    assert words in remark


def iter_text(result: RunResult, words: str) -> Any:
    lines = ("".join(text for text, _ in line) for line in report_lines(run_tables(result, Asked()), 400))
    return (line for line in lines if words in line)


def test_pairs_and_broken_points_do_not_stop_the_rest() -> None:
    broken = replace(all_reduce(366), points=(point(GIB, samples=()), *all_reduce(366).points))
    result = judged(broken, pairs(4))
    assert result.benchmarks[0].points[0].expected is None
    assert result.benchmarks[0].points[1].expected is not None
    assert result.benchmarks[1].points[0].expected is not None


def shape(where: ClusterInfo, **variables: str) -> System:
    system = system_of(where, variables)
    assert not isinstance(system, NoExpectation), system
    return system


def test_the_best_equipped_node_says_what_is_expected_of_all() -> None:
    whole = cluster()
    lame = replace(whole.nodes[0], facts={**whole.nodes[0].facts, "rdma_ports": [*ports(7), *ports(1, 10, "DOWN")[:1]]})
    system = shape(replace(whole, nodes=(lame, *whole.nodes[1:])))
    assert (system.nics, system.nic_gbit, system.family) == (8, 400, "rdma")


def test_half_the_gpus_have_half_the_nics() -> None:
    whole = cluster(2)
    nodes = tuple(replace(node, ranks=tuple(range(4 * index, 4 * index + 4))) for index, node in enumerate(whole.nodes))
    assert shape(replace(whole, nodes=nodes, world_size=8)).nics == 4


@pytest.mark.parametrize(("seen", "counted"), [(4, 4), (8, 8), (10, 8), (12, 8), (16, 16), (32, 32)])
def test_nics_for_storage_do_not_count(seen: int, counted: int) -> None:
    assert shape(cluster(hcas=ports(seen))).nics == counted


def test_slower_ports_and_those_left_out_by_nccl_do_not_count() -> None:
    mixed = [*ports(8), {**ports(1, 25)[0], "device": "mlx5_bond_0"}]
    assert shape(cluster(hcas=mixed)).nics == 8
    assert shape(cluster(), NCCL_IB_HCA="mlx5_0,mlx5_1").nics == 2
    assert shape(cluster(hcas=ports(4, 100, link_layer="Unspecified"))).family == "efa"


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("", True),
        ("mlx5", True),
        ("mlx5_1", True),  # a prefix of mlx5_10
        ("=mlx5_1", False),
        ("=mlx5_10", True),
        ("^mlx5_1", False),
        ("^=mlx5_1", True),
        ("mlx5_10:1", True),
        ("mlx5_10:2", False),
        ("rdmap0", False),
    ],
)
def test_nccl_ib_hca_is_read_as_nccl_reads_it(wanted: str, chosen: bool) -> None:
    assert chosen_by_nccl(RdmaPort(device="mlx5_10", port="1"), wanted) is chosen


@pytest.mark.parametrize(
    ("variables", "nvls"),
    [
        ({}, None),
        ({"NCCL_NVLS_ENABLE": "0"}, False),
        ({"NCCL_NVLS_ENABLE": "1"}, None),
        ({"NCCL_ALGO": "Ring"}, False),
        ({"NCCL_ALGO": "Ring,NVLS"}, None),
        ({"NCCL_ALGO": "^NVLS,NVLSTree"}, False),
        ({"NCCL_ALGO": "^Tree"}, None),
    ],
)
def test_nvls_is_off_where_the_variables_say_so(variables: dict[str, str], nvls: bool | None) -> None:
    assert shape(cluster(), **variables).nvls is nvls


def test_rdma_ports_are_read_from_sysfs(tmp_path: Path) -> None:
    for device, rate, state, layer in (
        ("mlx5_0", "400 Gb/sec (4X NDR)", "4: ACTIVE", "InfiniBand"),
        ("mlx5_1", "2.5 Gb/sec (1X SDR)", "1: DOWN", "Ethernet"),
        ("siw0", "", "4: ACTIVE", "Ethernet"),
    ):
        folder = tmp_path / device / "ports" / "1"
        folder.mkdir(parents=True)
        for name, text in (("rate", rate), ("state", state), ("link_layer", layer)):
            (folder / name).write_text(f"{text}\n")
    assert rdma_ports(tmp_path) == [
        {"device": "mlx5_0", "port": "1", "gbit": 400.0, "state": "ACTIVE", "link_layer": "InfiniBand"},
        {"device": "mlx5_1", "port": "1", "gbit": 2.5, "state": "DOWN", "link_layer": "Ethernet"},
    ]
    assert rdma_ports(tmp_path / "none") == []


def test_reports_show_expected_and_ratio() -> None:
    result = judged(all_reduce(366))
    text = "\n".join("".join(piece for piece, _ in line) for line in report_lines(run_tables(result, Asked()), 200))
    assert "expect" in text
    assert "ratio" in text
    assert "# expected: 8 x 400 Gbit/s a node" in text
    narrow = ["".join(piece for piece, _ in line) for line in report_lines(run_tables(result, Asked()), 80)]
    assert max(map(len, narrow)) <= 80
    assert any("ratio" in line for line in narrow)
    assert "expected (GB/s)" in render_markdown(result)
    assert "Expected: 8 x 400 Gbit/s a node" in render_html(result)
    last = list(csv_rows(result))[-1]
    assert float(last["expected_ratio"]) == pytest.approx(result.benchmarks[0].points[-1].expected_ratio, rel=1e-6)
    assert last["expected_basis"].startswith("8 x 400")


def test_a_verdict_says_when_most_points_are_unstable() -> None:
    """Near miss: one unstable point of two is no more than half."""
    steady, shaky = all_reduce(350).points[0], all_reduce(350, noise=0.6).points[0]
    half, most = (replace(all_reduce(350), points=points) for points in ((steady, shaky), (shaky, steady, shaky)))
    assert "2 of 3 points unstable" in judged(most).conclusion.reason
    assert "unstable" not in judged(half).conclusion.reason
