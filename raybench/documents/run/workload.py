"""What every point of a workload has: a label, whether it was checked, and how it is written."""

from collections.abc import Iterator
from typing import ClassVar, Protocol

from raybench.documents.plain import Json
from raybench.documents.run.verdict import Check
from raybench.stats import Summary

Sample = tuple[int, int | None, float]  # launch, block within it where there are any, seconds


class WorkloadPoint(Protocol):
    """A point of a benchmark that measures no messages.

    ``failed``: why this point alone failed, as one storage backend does while the others are measured; None otherwise.
    ``wrong``: what a check found to be wrong; None where it found nothing, or was not made. ``is_verifiable``: whether
    there is anything in such a point that could be checked.
    """

    is_verifiable: ClassVar[bool]

    @property
    def label(self) -> str:
        """What tells the point from its neighbours."""

    @property
    def failed(self) -> str | None:
        """Why there is nothing, or nothing complete, to show."""

    @property
    def wrong(self) -> str | None:
        """What a check found to be wrong."""

    @property
    def verified(self) -> bool | None:
        """Whether it was checked and is right; None where it was not checked."""

    @property
    def seconds(self) -> Summary | None:
        """Statistics of its samples; None where nothing was timed."""

    @property
    def slowest_rank(self) -> int | None:
        """The rank with the largest mean time of its own; None where ranks were not timed one by one."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Its stability warnings."""

    def checks(self, *, complete: bool) -> tuple[Check, ...]:
        """What the verdict says of it beside its data; ``complete``: its whole benchmark is."""

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``."""

    def samples(self) -> Iterator[Sample]:
        """Every time, in the order of measuring."""

    def to_json(self) -> Json:
        """The point as in the schema."""


def summary_json(summary: Summary) -> Json:
    """Statistics as in the schema, with the 95th percentile that people ask of steps."""
    return {
        "median": summary.median,
        "mean": summary.mean,
        "min": summary.min,
        "max": summary.max,
        "p95": summary.p95,
        "p99": summary.p99,
        "stddev": summary.stddev,
    }


def seconds_row(summary: Summary, count: int, interval: tuple[float, float] | None = None) -> Json:
    """Statistics of ``count`` samples as columns, with the 95 % interval of their median where there is one."""
    low, high = interval or (None, None)
    times = {f"{name}_seconds": value for name, value in summary_json(summary).items()}
    return {"sample_count": count, **times, "ci95_low_seconds": low, "ci95_high_seconds": high}
