"""What a row of a study costs, from the price of a node for an hour."""

from typing import Annotated

from msgspec import Meta

from raybench.documents.part import FieldwisePart

COSTED_SAMPLES = 10_000  # where nobody says how many an epoch has

_Amount = Annotated[float, Meta(ge=0, lt=1e100)]


class RowCost(FieldwisePart, frozen=True, kw_only=True):
    """Amounts in the price's currency. A study of the first versions has no epoch of its own beside its samples."""

    per_hour: _Amount
    per_1k_samples: _Amount | None = None
    per_million_tokens: _Amount | None = None
    of_10000_samples: _Amount | None = None
    hours_of_10000_samples: _Amount
    epoch_samples: Annotated[int, Meta(ge=1)] = COSTED_SAMPLES
    per_epoch: _Amount | None = None
    hours_per_epoch: _Amount | None = None
