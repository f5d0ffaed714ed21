"""What a healthy system reaches, as a call."""

import pytest

from raybench.errors import UsageError
from raybench.hardware.nodes import node_type_named
from raybench.services.expected import SystemOptions, expected_bandwidth


def test_a_figure_for_each_size_or_the_reason_why_there_is_none() -> None:
    known = expected_bandwidth(SystemOptions(node_type="p5.48xlarge", nodes=2), sizes="1G:4G:2")
    assert (known.exit_code, known.unknown) == (0, None)
    assert [point.message_bytes for point in known.points] == [2**30, 2**31, 2**32]
    unknown = expected_bandwidth(SystemOptions(gpu="A10G"), sizes="1G")
    assert (unknown.exit_code, unknown.points) == (3, ())
    assert "no published figures of A10G" in (unknown.unknown or "")


@pytest.mark.parametrize(
    ("options", "said"),
    [(SystemOptions(), "name the machine"), (SystemOptions(gpu="H100", nodes=0), "--nodes is 0")],
)
def test_a_system_that_cannot_be_is_refused(options: SystemOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        expected_bandwidth(options, sizes="1G")


@pytest.mark.parametrize(
    ("options", "nics"),
    [
        (SystemOptions(node_type="ND96isr_H100_v5", nodes=4, gpus_per_node=1), 1),
        (SystemOptions(node_type="ND96isr_H100_v5", nodes=4, gpus_per_node=4), 4),
        (SystemOptions(node_type="p5.48xlarge", nodes=4, gpus_per_node=2), 8),
        (SystemOptions(node_type="p4d.24xlarge", nodes=4, gpus_per_node=1), 1),  # two GPUs share a NIC
        (SystemOptions(gpu="H100", nodes=4, gpus_per_node=1, nics=8, nic_gbit=400), 1),
        (SystemOptions(gpu="H100", nodes=4, gpus_per_node=4, nics=4, nic_gbit=400), 4),  # a node of four GPUs
        (SystemOptions(gpu="H100", nodes=4, gpus_per_node=4, gpus_installed=8, nics=4, nic_gbit=400), 2),
        (SystemOptions(gpu="H100", nodes=4, nics=10, nic_gbit=400), 8),  # two of a DGX are for storage
    ],
)
def test_some_gpus_of_a_node_have_their_share_of_its_nics(options: SystemOptions, nics: int) -> None:
    answer = expected_bandwidth(options, sizes="8G")
    assert f"{nics} x " in answer.points[0].basis
    most = nics * (options.nic_gbit or {"p5.48xlarge": 100, "p4d.24xlarge": 100}.get(options.node_type or "", 400)) / 8
    assert answer.points[0].busbw_gb_per_s <= most


@pytest.mark.parametrize("node_type", ["gb200-4x", "ND128isr_NDR_GB200_v6", "BM.GPU.GB300.4", "a4x-highgpu-4g"])
def test_trays_of_a_rack_are_told_as_one_node_of_all_their_ranks(node_type: str) -> None:
    """As the reason says that several nodes of such a type have no expectation."""
    several = expected_bandwidth(SystemOptions(node_type=node_type, nodes=4), sizes="8G")
    assert "count them as one node of all its ranks" in (several.unknown or "")
    rack = expected_bandwidth(SystemOptions(node_type=node_type, gpus_per_node=16), sizes="8G")
    by_parts = SystemOptions(gpu=node_type_named(node_type).gpu.name, gpus_per_node=16, gpus_installed=16)
    assert rack.points == expected_bandwidth(by_parts, sizes="8G").points
    assert rack.points[0].busbw_gb_per_s > 600


@pytest.mark.parametrize(
    ("node_type", "said"),
    [("gpu_8x_h100_sxm5", "the NICs of the nodes are not known"), ("a2-highgpu-8g", "TCP sockets have no healthy")],
)
def test_nodes_that_no_network_for_gpus_joins_have_no_expectation(node_type: str, said: str) -> None:
    assert said in (expected_bandwidth(SystemOptions(node_type=node_type, nodes=2), sizes="1G").unknown or "")
    assert expected_bandwidth(SystemOptions(node_type=node_type), sizes="1G").unknown is None
    given = SystemOptions(node_type=node_type, nodes=2, nics=8, nic_gbit=400, network="rdma")
    assert expected_bandwidth(given, sizes="1G").unknown is None


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="--gpus-per-node is 16; a node has 8 GPUs"):
        expected_bandwidth(SystemOptions(node_type="p5.48xlarge", gpus_per_node=16), sizes="1G")
