"""A rank that the others of a training wait for."""

import math

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count


class Straggler(FieldwisePart, frozen=True, kw_only=True):
    """A rank that the others wait for. ``excess``: its own time over theirs, a fraction; ``z``: in standard errors.

    JSON has no infinity: a ``z`` of None is one that was measured without any error.
    """

    rank: Count
    excess: float
    z: float | None
    own_seconds: float
    wait_seconds: float
    others_wait_seconds: float

    @property
    def standard_errors(self) -> float:
        """Its excess in them."""
        return math.inf if self.z is None else self.z
