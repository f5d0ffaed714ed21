"""Communication of a training step: what was measured of it, and the word for the share that the step waits for it."""

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from diagnostics.limits import HIGH_SYNC_SHARE
from raybench.documents.part import Part
from raybench.documents.plain import Json

MODERATE_OVERHEAD, HIGH_OVERHEAD = 0.20, HIGH_SYNC_SHARE
BANDS_IN_WORDS = f"low below {MODERATE_OVERHEAD:.0%}, moderate to {HIGH_OVERHEAD:.0%}, high above"
UNKNOWN = "unknown"
OverheadBand = Literal["low", "moderate", "high"]


def band_of_overhead(share: float) -> OverheadBand:
    """The word for a share of the step that waits for communication (docs/methods.md): the only place that has it."""
    return "low" if share < MODERATE_OVERHEAD else "moderate" if share <= HIGH_OVERHEAD else "high"


class Communication(Part, frozen=True, kw_only=True):
    """Communication of one step, seconds; None where it was not, or could not be, measured.

    ``exposed`` by estimator (``differencing``, ``profiler``, ``replay``): what the step waits for. ``total`` includes
    what computation hides. ``wire_bytes``: a rank's, counted from the profiler; ``expected_bytes``: by formula.
    ``pairs`` of steps are behind the differencing, with the 95 % ``interval`` of the median over them; None of few.
    """

    exposed: Mapping[str, float | None] = field(default_factory=dict, name="exposed_seconds")
    total: float | None = field(default=None, name="total_seconds")
    computation: float | None = field(default=None, name="computation_seconds")
    overlap: float | None = field(default=None, name="overlap_seconds")
    idle: float | None = field(default=None, name="idle_seconds")
    isolated: float | None = field(default=None, name="isolated_seconds")
    wire_bytes: float | None = field(default=None, name="wire_bytes_per_rank")
    expected_bytes: float | None = field(default=None, name="expected_bytes_per_rank")
    operations: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    pairs: int | None = field(default=None, name="differencing_pairs")
    interval: tuple[float, float] | None = field(default=None, name="differencing_ci95_seconds")

    @property
    def by_differencing(self) -> bool:
        """Whether the best estimate is that of pairs of steps, and has an interval where there are enough."""
        return self.exposed.get("differencing") is not None and self.pairs is not None

    @property
    def best_exposed(self) -> float | None:
        """The first estimate there is: differencing alone compares two real steps."""
        order = ("differencing", "profiler", "replay")
        return next((value for name in order if (value := self.exposed.get(name)) is not None), None)

    def overhead(self, step_seconds: float) -> float | None:
        """Share of the mean step that is exposed communication; None where it is unknown, as where it exceeds 1."""
        share = None if self.best_exposed is None else max(self.best_exposed, 0.0) / step_seconds
        return None if share is None or share > 1 else share

    def overhead_interval(self, step_seconds: float) -> tuple[float, float] | None:
        """The 95 % interval of the share, within 0 to 1; None where differencing is not what it comes from."""
        if not self.by_differencing or self.interval is None:
            return None
        low, high = (min(max(end / step_seconds, 0.0), 1.0) for end in self.interval)
        return low, high

    def overhead_band(self, step_seconds: float) -> str | None:
        """The word for the share; two of them, or ``unknown``, where its interval reaches into others."""
        share = self.overhead(step_seconds)
        if self.best_exposed is None:
            return None
        if share is None:
            return UNKNOWN
        if not self.by_differencing:
            return band_of_overhead(share)
        low, high = self.overhead_interval(step_seconds) or (0.0, 1.0)
        least, most = band_of_overhead(low), band_of_overhead(high)
        if (least, most) == ("low", "high"):
            return UNKNOWN
        return least if least == most else f"{least} to {most}"

    def overhead_reason(self, step_seconds: float) -> str | None:
        """Why the overhead is unknown; None where it is known, or was not measured."""
        if self.overhead_band(step_seconds) != UNKNOWN:
            return None
        share = (self.best_exposed or 0.0) / step_seconds
        found = f"what waits for communication comes out as {share:.0%} of a step" if share > 1 else ""
        if not self.by_differencing:
            return f"{found}: the steps that were looked into were slower than those that were timed"
        interval = self.overhead_interval(step_seconds)
        wide = f"{interval[0]:.0%} to {interval[1]:.0%} of a step" if interval else "no interval"
        because = f"{self.pairs or 0} pairs of steps with and without synchronisation give {wide}"
        return "; ".join(part for part in (found, because, "raise --overlap-steps") if part)

    def to_json(self) -> Json:
        """As in the schema."""
        return self.with_unknown(
            {
                "exposed_seconds": dict(self.exposed),
                "total_seconds": self.total,
                "computation_seconds": self.computation,
                "overlap_seconds": self.overlap,
                "idle_seconds": self.idle,
                "isolated_seconds": self.isolated,
                "wire_bytes_per_rank": self.wire_bytes,
                "expected_bytes_per_rank": self.expected_bytes,
                "operations": dict(self.operations),
                "remarks": list(self.remarks),
                "differencing_pairs": self.pairs,
                "differencing_ci95_seconds": list(self.interval) if self.interval else None,
            }
        )
