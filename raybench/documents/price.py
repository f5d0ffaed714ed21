"""The price of a node, as documents hold it."""

from raybench.documents.part import FieldwisePart
from raybench.errors import UsageError

_LARGEST_PRICE = 1e6


class Price(FieldwisePart, frozen=True, kw_only=True):
    """Of one node for one hour. ``source`` says whose figure that is and of which day."""

    per_node_hour: float
    source: str
    currency: str = "USD"

    def __post_init__(self) -> None:
        if not 0 <= self.per_node_hour <= _LARGEST_PRICE:
            raise UsageError(
                f"a node hour cannot cost {self.per_node_hour:g} {self.currency}; give a price such as 55.04"
            )
