"""The table of node types: shapes and prices, each with a source and a day."""

import re

import pytest

from raybench.hardware.nodes import NODE_TYPES, NodeType, node_type_named
from raybench.performance_model.cost import list_price, why_unpriced

# Bought, sold by the week, or without a price that was found with its day: the last cell of nodes.csv says which.
WITHOUT_PRICE = {
    "p5e.48xlarge", "p6e-gb200.36xlarge",
    "a4-highgpu-8g", "a4x-highgpu-4g", "a4x-maxgpu-4g-metal", "a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g",
    "ND40rs_v2", "ND128isr_GB300_v6", "NC48ads_A100_v4", "NC96ads_A100_v4", "NC80adis_H100_v5",
    "BM.GPU.L40S.4", "BM.GPU.A10.4", "b300-8x", "gb300-4x",
    "Lambda 1CC H100", "Lambda 1CC B200",
    "DGX A100", "DGX H100", "DGX H200", "DGX B200", "DGX B300",
}  # fmt: skip

# Of which no source says how many cards of which rate join such nodes.
WITHOUT_NETWORK = {
    "ND128isr_GB300_v6", "BM.GPU.L40S.4",
    "b300-8x", "gb300-4x", "gd-8xa100-i128", "gd-8xl40s-i128", "gd-8xl40-i128", "gd-1xgh200", "rtxp6000-8x",
    "gpu_8x_b200_sxm6", "gpu_8x_h100_sxm5", "gpu_4x_h100_sxm5", "gpu_8x_a100_80gb_sxm4", "gpu_8x_a100",
}  # fmt: skip


def test_every_node_type_has_a_network_or_is_known_to_have_none() -> None:
    """All three of its cells, or none of them."""
    for cell in ("nics", "nic_gbit", "network", "fabric_gb_per_s"):
        assert {node.name for node in NODE_TYPES if not getattr(node, cell)} == WITHOUT_NETWORK, cell


def test_every_node_type_has_a_price_or_is_known_to_have_none() -> None:
    assert {node.name for node in NODE_TYPES if node.usd_per_hour is None} == WITHOUT_PRICE


@pytest.mark.parametrize("node", NODE_TYPES, ids=lambda node: node.name)
def test_a_price_has_its_day_and_its_source_and_a_node_type_all_of_its_shape(node: NodeType) -> None:
    row = node_type_named(node.name)
    assert row.gpus > 0
    assert row.fabric_gb_per_s is None or row.fabric_gb_per_s > 0
    assert row.source
    if row.usd_per_hour is None:
        assert (row.priced_on, row.price_source) == ("", "")
        assert list_price(row.name) is None
        assert row.unpriced
        told = f"give --price, of a node for an hour: no list price on demand of {row.name} is known; {row.unpriced}"
        assert why_unpriced(row.name) == told
        return
    assert why_unpriced(row.name) is None
    assert 0.3 < row.usd_per_hour / row.gpus < 30  # the dearest: GB200 at Azure, 27.04 a GPU
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", row.priced_on)
    assert row.price_source
    price = list_price(row.name)
    assert price is not None
    assert row.priced_on in price.source


def test_what_people_rent_of_aws_for_one_to_eight_small_gpus_is_there() -> None:
    """A g6e.12xlarge was none; adapters as in sagemaker-hyperpod-cli (nodes.csv)."""
    adapters = {
        "g5.8xlarge": (1, 1), "g5.12xlarge": (4, 1), "g5.24xlarge": (4, 1), "g5.48xlarge": (8, 1),
        "g6.8xlarge": (1, 1), "g6.12xlarge": (4, 1), "g6.24xlarge": (4, 1), "g6.48xlarge": (8, 1),
        "g6e.8xlarge": (1, 1), "g6e.12xlarge": (4, 1), "g6e.24xlarge": (4, 2), "g6e.48xlarge": (8, 4),
        "g7e.8xlarge": (1, 1), "g7e.12xlarge": (2, 1), "g7e.24xlarge": (4, 2), "g7e.48xlarge": (8, 4),
        "p4d.24xlarge": (8, 4), "p4de.24xlarge": (8, 4), "p5.4xlarge": (1, 1), "p5.48xlarge": (8, 32),
        "p5e.48xlarge": (8, 32), "p5en.48xlarge": (8, 16), "p6-b200.48xlarge": (8, 8), "p6-b300.48xlarge": (8, 16),
        "p6e-gb200.36xlarge": (4, 4),
    }  # fmt: skip
    of_aws = {node.name: (node.gpus, node.nics) for node in NODE_TYPES if node.is_of_aws}
    assert {name: of_aws[name] for name in adapters} == adapters
    assert of_aws.keys() - adapters.keys() == {"p3.16xlarge", "p3dn.24xlarge", "g4dn.12xlarge"}


@pytest.mark.parametrize(
    ("name", "gpus", "gb_per_s"),
    [
        ("a2-highgpu-8g", 8, 12.5), ("a2-megagpu-16g", 16, 12.5), ("a4x-highgpu-4g", 4, 200),
        ("g4-standard-384", 8, 50), ("ND128isr_NDR_GB200_v6", 4, 200), ("NC96ads_A100_v4", 4, 10),
        ("BM.GPU.B300.8", 8, 800), ("BM.GPU.GB300.4", 4, 400), ("BM.GPU.MI355X.8", 8, 400),
    ],
)  # fmt: skip
def test_types_that_clouds_sell_in_2026_have_the_network_of_their_page(name: str, gpus: int, gb_per_s: float) -> None:
    node = node_type_named(name)
    assert (node.gpus, node.fabric_gb_per_s) == (gpus, gb_per_s)


def test_a_network_that_is_not_made_for_gpus_is_told_from_one_that_is() -> None:
    has = {node.name for node in NODE_TYPES if node.has_network_for_gpus}
    assert {"p4d.24xlarge", "a3-megagpu-8g", "ND96asr_v4", "BM.GPU.B300.8"} <= has
    assert not has & {"a2-ultragpu-8g", "g2-standard-96", "NC96ads_A100_v4", "gpu_8x_h100_sxm5"}


def test_the_clouds_that_people_ask_for_are_there() -> None:
    names = {node.name for node in NODE_TYPES}
    assert {"p5.48xlarge", "a3-megagpu-8g", "ND96isr_H100_v5", "BM.GPU.H100.8", "gd-8xh100ib-i128"} <= names
    assert len(names) == len(NODE_TYPES)
    price = list_price("Standard_ND96isr_H100_v5")
    assert price is not None
    assert price.per_node_hour == node_type_named("ND96isr_H100_v5").usd_per_hour
