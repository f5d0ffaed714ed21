"""What held-out samples say of a training."""

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count


class ValidationPoint(FieldwisePart, frozen=True, kw_only=True):
    """What held-out samples gave after ``step`` timed steps of the first launch.

    ``epoch``: how often all other samples had been trained on by then; ``accuracy``: the share of samples, or of
    tokens, that are told right. A loss that is not a number is None.
    """

    step: Count
    epoch: float
    loss: float | None
    accuracy: float
    samples: Count
