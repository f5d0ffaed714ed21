"""The table of node types: shapes and prices, each with a source and a day."""

import re

import pytest

from raybench.hardware.nodes import NODE_TYPES, NodeType, node_type_named
from raybench.performance_model.cost import list_price, why_unpriced

# Bought, sold by the week, or without a price that was found with its day: the last cell of nodes.csv says which.
WITHOUT_PRICE = {
    "a4-highgpu-8g", "ND40rs_v2",
    "Lambda 1CC H100", "Lambda 1CC B200",
    "DGX A100", "DGX H100", "DGX H200", "DGX B200", "DGX B300",
}  # fmt: skip


def test_every_node_type_has_a_price_or_is_known_to_have_none() -> None:
    assert {node.name for node in NODE_TYPES if node.usd_per_hour is None} == WITHOUT_PRICE


@pytest.mark.parametrize("node", NODE_TYPES, ids=lambda node: node.name)
def test_a_price_has_its_day_and_its_source_and_a_node_type_all_of_its_shape(node: NodeType) -> None:
    row = node_type_named(node.name)
    assert row.gpus > 0
    assert row.fabric_gb_per_s > 0
    assert row.network
    assert row.source
    if row.usd_per_hour is None:
        assert (row.priced_on, row.price_source) == ("", "")
        assert list_price(row.name) is None
        assert row.unpriced
        told = f"give --price, of a node for an hour: no list price on demand of {row.name} is known; {row.unpriced}"
        assert why_unpriced(row.name) == told
        return
    assert why_unpriced(row.name) is None
    assert 0.3 < row.usd_per_hour / row.gpus < 25
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", row.priced_on)
    assert row.price_source
    price = list_price(row.name)
    assert price is not None
    assert row.priced_on in price.source


def test_the_clouds_that_people_ask_for_are_there() -> None:
    names = {node.name for node in NODE_TYPES}
    assert {"p5.48xlarge", "a3-megagpu-8g", "ND96isr_H100_v5", "BM.GPU.H100.8", "gd-8xh100ib-i128"} <= names
    assert len(names) == len(NODE_TYPES)
    price = list_price("Standard_ND96isr_H100_v5")
    assert price is not None
    assert price.per_node_hour == node_type_named("ND96isr_H100_v5").usd_per_hour
