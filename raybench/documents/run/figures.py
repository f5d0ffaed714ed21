"""A point of a workload that has no document of its own, such as an installed one: named figures, and its samples."""

import math
from collections.abc import Iterator
from typing import ClassVar

from msgspec import field

from raybench.documents.part import Part
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, PositiveSeconds
from raybench.documents.run.verdict import Check
from raybench.documents.run.workload import Sample, seconds_row, summary_json
from raybench.stats import Summary, summarize


class Figure(Part, frozen=True, kw_only=True):
    """One figure of a point: ``Figure(name="requests", value=812.0, unit="1/s")``; None where it is not known."""

    name: str
    value: float | None
    unit: str = ""

    @property
    def column(self) -> str:
        """``requests (1/s)`` in a table; ``hits (1)`` without a unit: columns that every point has are without one."""
        return f"{self.name} ({self.unit or 1})"

    def contradiction(self) -> str | None:
        """JSON has neither NaN nor infinity."""
        return None if self.value is None or math.isfinite(self.value) else "a figure that is not a number"

    def to_json(self) -> Json:
        """The figure as in the schema."""
        return self.with_unknown({"name": self.name, "value": self.value, "unit": self.unit})


class FiguresPoint(Part, frozen=True, kw_only=True, tag_field="+kind", tag="figures"):
    """One point: its figures, the most important first, and the seconds of its operations, the slowest rank deciding.

    ``verified``: what was checked is right; None where nothing was. ``failed``: why this point has no figures.
    Not ``complete``: the run ended before it was through.
    """

    label: str
    figures: tuple[Figure, ...] = ()
    samples_seconds: tuple[PositiveSeconds, ...] = ()
    verified: bool | None = None
    wrong_elements: Count = 0
    failed: str | None = None
    complete: bool = True
    remarks: tuple[str, ...] = field(default=(), name="warnings")  # stability warnings
    is_verifiable: ClassVar[bool] = True
    DERIVED: ClassVar[frozenset[str]] = frozenset({"seconds"})

    @property
    def wrong(self) -> str | None:
        """What a check found."""
        if self.wrong_elements:
            return f"{self.wrong_elements} elements are wrong"
        return "its check failed" if self.verified is False else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Its stability warnings."""
        return (
            self.remarks if self.complete else ("partial: the run ended before this point was through", *self.remarks)
        )

    @property
    def seconds(self) -> Summary | None:
        """Statistics of its samples; None where it has none."""
        return summarize(self.samples_seconds) if self.samples_seconds else None

    @property
    def slowest_rank(self) -> int | None:
        """Ranks are not timed one by one."""
        return None

    def checks(self, *, complete: bool) -> tuple[Check, ...]:
        """Nothing beside its data."""
        return ()

    def row(self) -> Json:
        """Its figures by the columns of ``result_table``, and by their own: ``requests (1/s)``."""
        times = self.seconds
        return {
            "label": self.label,
            **(seconds_row(times, len(self.samples_seconds)) if times else {}),
            "complete": self.complete,
            "verified": self.verified,
            "wrong_elements": self.wrong_elements,
            "failed": self.failed,
            **{figure.column: figure.value for figure in self.figures},
        }

    def samples(self) -> Iterator[Sample]:
        """Every time, in the order of measuring."""
        return ((0, None, seconds) for seconds in self.samples_seconds)

    def to_json(self) -> Json:
        """The point as in the schema."""
        return self.with_unknown(
            {
                "label": self.label,
                "complete": self.complete,
                "failed": self.failed,
                "figures": [figure.to_json() for figure in self.figures],
                "seconds": summary_json(self.seconds) if self.seconds else None,
                "samples_seconds": list(self.samples_seconds),
                "verified": self.verified,
                "wrong_elements": self.wrong_elements,
                "warnings": list(self.remarks),
            }
        )
