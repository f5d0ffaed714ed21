"""What the figures of a study cost, from the price of a node for an hour. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from raybench.documents.price import Price
from raybench.documents.study.cost import COSTED_SAMPLES, RowCost
from raybench.documents.study.row import TrainingRow
from raybench.performance_model.cost import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Costing:
    """How to price a study's rows. Without a price there are no costs, and no budget."""

    price: Price | None = None
    epoch_samples: int = COSTED_SAMPLES
    deadline_seconds: float | None = None
    budget: float | None = None

    @property
    def has_goal(self) -> bool:
        """Whether an epoch has to be over in a time, or for an amount."""
        return self.deadline_seconds is not None or self.budget is not None

    def cost_of(self, nodes: int, seconds: float) -> float | None:
        """What so many nodes cost for a time; None without a price."""
        return None if self.price is None else self.price.per_node_hour * nodes * seconds / 3600

    def reaches(self, nodes: int, seconds: float) -> bool:
        """Whether an epoch that takes so long on so many nodes is within the deadline and the budget."""
        cost = self.cost_of(nodes, seconds)
        in_time = self.deadline_seconds is None or seconds <= self.deadline_seconds
        return in_time and (self.budget is None or (cost is not None and cost <= self.budget))

    def of(self, nodes: int, samples_per_s: float | None, tokens_per_s: float | None) -> RowCost | None:
        """The cost of a rate on so many nodes, as a study's result has it; None without a price or a rate."""
        if self.price is None or not samples_per_s or not nodes:
            return None
        cost = Cost(
            price=self.price, nodes=nodes, samples_per_second=samples_per_s, tokens_per_second=tokens_per_s or 0.0
        )
        return RowCost(
            per_hour=cost.per_hour,
            per_1k_samples=cost.per_1k_samples,
            per_million_tokens=cost.per_million_tokens,
            of_10000_samples=cost.per_epoch(COSTED_SAMPLES),
            hours_of_10000_samples=COSTED_SAMPLES / samples_per_s / 3600,
            epoch_samples=self.epoch_samples,
            per_epoch=cost.per_epoch(self.epoch_samples),
            hours_per_epoch=self.epoch_samples / samples_per_s / 3600,
        )


def saving(chosen: TrainingRow, other: TrainingRow, price: Price | None) -> Iterator[str]:
    """What a configuration costs less than another, for the same samples; nothing without a price, or where it is none.

    From the rows' own throughputs: where these do not differ for certain, neither does the cost.
    """
    mine, theirs = (row.cost.per_1k_samples if row.cost else None for row in (chosen, other))
    if price is not None and mine and theirs and chosen.variant != other.variant:
        more = "less" if mine < theirs else "more"
        yield (
            f"1K samples cost {mine:.4g} {price.currency} instead of {theirs:.4g} of {other.variant} "
            f"({abs(1 - mine / theirs):.0%} {more})"
        )
