"""Prices times time, by hand."""

import pytest

from raybench.errors import UsageError
from raybench.performance_model.cost import Cost, Price, list_price

PRICE = Price(per_node_hour=36.0, source="test")


def test_costs_are_price_times_time() -> None:
    cost = Cost(price=PRICE, nodes=2, samples_per_second=10, tokens_per_second=20_000)
    assert cost.per_hour == 72
    assert cost.per_1k_samples == pytest.approx(72 * 100 / 3600)
    assert cost.per_million_tokens == pytest.approx(72 * 50 / 3600)
    assert cost.per_epoch(36_000) == pytest.approx(72.0)


def test_without_throughput_there_is_no_cost() -> None:
    cost = Cost(price=PRICE, nodes=2, samples_per_second=0)
    assert cost.per_1k_samples is None
    assert cost.per_million_tokens is None


def test_list_prices_say_of_which_day_they_are() -> None:
    price = list_price("P5.48xlarge")
    assert price is not None
    assert price.per_node_hour == 55.04
    assert "2026-01-21" in price.source
    assert list_price("p5.1xlarge") is None


@pytest.mark.parametrize("asked", ["ND96isr_H100_v5", "Standard_ND96isr_H100_v5", " nd96isr_h100_v5"])
@pytest.mark.parametrize("listed", ["ND96isr_H100_v5", "Standard_ND96isr_H100_v5"])
def test_a_price_table_may_have_azures_names_with_their_prefix(asked: str, listed: str) -> None:
    price = list_price(asked, f"name,usd_per_node_hour,date,source\n{listed},98.32,2026-11-28,test\n")
    assert price is not None
    assert price.per_node_hour == 98.32


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e9])
def test_prices_that_cannot_be_are_refused(value: float) -> None:
    with pytest.raises(UsageError):
        Price(per_node_hour=value, source="test")
