"""Whether numbers that a rank sent can be times."""

import math
from collections.abc import Sequence


def are_times(values: Sequence[float]) -> bool:
    """Whether all are finite and none is negative, in seconds or anything else that only grows."""
    return all(math.isfinite(value) and value >= 0 for value in values)
