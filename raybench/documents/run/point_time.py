"""When a point of a benchmark was measured, on the command's clock."""

from msgspec import field

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count, Seconds


class PointTime(FieldwisePart, frozen=True, kw_only=True):
    """A point in one launch, by its size and pair or its label. Seconds since the run's start.

    From the moment at which its first rank turned to it until the last rank had measured it, what comes before the
    timed part (buffers, warm-up) and after it (the check) included. Ranks tell both: they are late by what such a
    message takes. ``steps_begin_seconds``: of a training, when the first timed step began.
    """

    launch: Count
    begin_seconds: Seconds
    end_seconds: Seconds
    message_bytes: Count | None = None
    source_rank: Count | None = None
    destination_rank: Count | None = None
    label: str | None = field(default=None)
    steps_begin_seconds: Seconds | None = None

    def to_json(self) -> dict[str, object]:
        """Without what does not apply."""
        return {name: value for name, value in super().to_json().items() if value is not None}
