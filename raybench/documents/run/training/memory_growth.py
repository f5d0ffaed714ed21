"""Memory of a training's rank that grew from step to step."""

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count


class MemoryGrowth(FieldwisePart, frozen=True, kw_only=True):
    """A rank that held more after each timed step, bytes; ``kind`` cuda: allocated by tensors, rss: of its process.

    ``interval``: 95 % of ``bytes_per_step``. ``steps_left``: until what was free after the last step is full, where
    nothing else grows; None where that is not known.
    """

    rank: Count
    kind: str
    bytes_per_step: float
    interval: tuple[float, float]
    since_step: Count
    grown_bytes: Count
    steps_left: Count | None = None
