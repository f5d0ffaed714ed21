"""What a run measured of a way to train, which stands in place of its estimate. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures of a run at the very setting that is estimated; None: it has none, and the estimate stays.

    ``step_seconds``: the 95 % interval of the median step. ``peak``: bytes that the device had to have, what the
    allocator held besides included; ``least_peak``: without that. ``fits``: whether it did on the device asked for.
    """

    step_seconds: tuple[float, float] | None = None
    peak: int | None = None
    least_peak: int | None = None
    fits: bool | None = None
