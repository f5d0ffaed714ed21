"""What a node of an estimate costs for an hour: given, or listed."""

from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.options import USUAL_CURRENCY
from raybench.services.study_options import price_table

if TYPE_CHECKING:
    from raybench.performance_model.cost import Price
    from raybench.services.estimating.options import EstimateOptions


def price_asked(options: "EstimateOptions") -> "Price | None":
    """The price; None where none is given or listed. Raises UsageError for a table or a currency without its price."""
    from raybench.performance_model.cost import Price, list_price

    if options.price is not None:
        return Price(per_node_hour=options.price, source="given", currency=options.currency)
    if options.prices and not options.node_type:
        raise UsageError("--prices needs --node-type: the name of a line in it")
    listed = list_price(options.node_type, price_table(options.prices)) if options.node_type else None
    if options.currency not in (USUAL_CURRENCY, listed.currency if listed else None):
        is_in = (
            f"the list price of {options.node_type} is in {listed.currency}" if listed else "there is no other price"
        )
        raise UsageError(f"--currency {options.currency} is of --price, and {is_in}; give --price with it")
    return listed


def price_unknown(options: "EstimateOptions") -> str | None:
    """Why a node type that is named has no list price; None where nothing is to be said of it."""
    from raybench.performance_model.cost import why_unpriced

    return why_unpriced(options.node_type) if options.node_type else None
