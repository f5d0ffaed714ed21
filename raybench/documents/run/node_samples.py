"""What the agents of a run's machines sampled: ``node_samples.json`` beside ``result.json``.

Schema ``raybench.node_samples/1``: keys are added, never renamed or removed. The series, their units and which of them
are counters stand in ``diagnostics/agent/series.py``; how a column is written in ``sample_column.py``. Columns are
unpacked when they are asked for, one at a time: a cluster's samples are far larger than their file.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from msgspec import field

from diagnostics.agent.series import Series, series_of, split_name
from diagnostics.findings import Finding
from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.quantity import Count, Seconds
from raybench.documents.run.sample_column import MOST_ROWS, Column, ColumnError
from raybench.documents.table import dataframe

if TYPE_CHECKING:
    from pandas import DataFrame

FILE = "node_samples.json"
SAMPLE_COLUMNS = ("node", "seconds", "series", "value")


class NodeClock(FieldwisePart, frozen=True, kw_only=True):
    """``offset_seconds`` is what to add to a time of the node's clock for seconds since the run's start.

    ``bound_seconds``: how far off that may be, either way; None where nothing bounds it. ``basis``: how it is known.
    """

    offset_seconds: float
    bound_seconds: Seconds | None = None
    basis: str = ""


class SampleSource(FieldwisePart, frozen=True, kw_only=True):
    """Whether a source of samples could be read, and why not."""

    name: str
    available: bool
    reason: str = ""


class NodeEvent(FieldwisePart, frozen=True, kw_only=True):
    """A line of a log on the node, at a time of its clock."""

    clock_seconds: float
    source: str
    device: str = ""
    text: str


class UnjudgedRule(FieldwisePart, frozen=True, kw_only=True):
    """A rule over samples that cannot tell, at least of some nodes, and why."""

    rule: str
    why: str


class SampledNode(FieldwisePart, frozen=True, kw_only=True):
    """The samples of one machine. ``nodes``: those of the run that are on it, several where they are emulated.

    ``times``: the rows, in seconds of the node's clock; ``series``: a column a series by its name. ``merged``: how many
    readings a row stands for. Above 1, rows come in pairs for that many readings each: of a level the least and the
    largest in the order in which they came, of a counter its value at the half and at the end.
    ``left_out``: what was not kept, by reason.
    """

    name: str
    nodes: tuple[str, ...] = ()
    clock: NodeClock
    rows: Count
    interval_seconds: Seconds
    merged: Count = 1
    times: str
    series: Mapping[str, str]
    sources: tuple[SampleSource, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    left_out: Mapping[str, Count] = field(default_factory=dict)

    def contradiction(self) -> str | None:
        """Whether every column can be unpacked, and has no more rows than there are times."""
        if not 0 <= self.rows <= MOST_ROWS or self.merged < 1:
            return f"{self.rows} rows of {self.merged} readings"
        for name, text in (("times", self.times), *self.series.items()):
            try:
                Column.of_text(text, self.rows)
            except ColumnError as error:
                return f"{name[:100]}: {error}"
        return None if None not in self._times else "a row without a time"

    @property
    def _times(self) -> list[float | None]:
        return Column.of_text(self.times, self.rows).values(self.rows)

    @cached_property
    def seconds(self) -> tuple[float, ...]:
        """The time of each row, seconds since the run's start."""
        return tuple(at + self.clock.offset_seconds for at in self._times if at is not None)

    @property
    def resolution_seconds(self) -> float:
        """What a row stands for."""
        return self.interval_seconds * self.merged

    def values(self, name: str) -> list[float | None]:
        """A series by row, None where it is missing. Raises KeyError for one that there is not."""
        return Column.of_text(self.series[name], self.rows).values(self.rows)

    def is_constant(self, name: str) -> bool:
        """Whether all values of a series are one. Raises KeyError for a series that there is not."""
        return self.series[name].split(";", 3)[2] == "0"

    def names(self, group: str, metric: str | None = None) -> tuple[str, ...]:
        """The names of its series of a group, in order; those that the table of series does not know are none."""
        return tuple(name for name in sorted(self.series) if _is_of(name, group, metric))


class NodeSamples(FieldwiseDocument, frozen=True, kw_only=True):
    """The samples of a run. ``origin``: ``agent``, or what was imported. ``started_at``: the run's start, ISO 8601.

    Those of an agent that no run started have no ``run_id``, and begin with its first message; ``findings`` are then
    what it warned of. What the rules over samples found is in the result; ``rules_cannot_tell``: those that could not
    judge all of it.
    """

    SCHEMA: ClassVar[str] = "raybench.node_samples/1"
    run_id: str
    started_at: str
    origin: str = "agent"
    nodes: tuple[SampledNode, ...] = ()
    rules_cannot_tell: tuple[UnjudgedRule, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_dataframe(self) -> "DataFrame":
        """A row a value: ``node``, ``seconds`` since the run's start, ``series``, ``value``.

        Raises MissingLibraryError without pandas.
        """
        return dataframe((dict(zip(SAMPLE_COLUMNS, row, strict=True)) for row in self.rows()), SAMPLE_COLUMNS)

    def rows(self) -> Iterator[tuple[str, float, str, float]]:
        """Every value that is there, by ``SAMPLE_COLUMNS``, a series after the other."""
        for node in self.nodes:
            for name in sorted(node.series):
                for at, value in zip(node.seconds, node.values(name), strict=True):
                    if value is not None:
                        yield node.name, round(at, 3), name, value


def increase(values: list[float | None]) -> float | None:
    """What a counter grew by; None of fewer than two values. Where it began again, what it has since then counts."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    return sum(after - before if after >= before else after for before, after in pairwise(known))


def known_series(name: str) -> Series | None:
    """What is known of a series; None of one that a later raybench may know."""
    try:
        return series_of(name)
    except ValueError:
        return None


def _is_of(name: str, group: str, metric: str | None) -> bool:
    if not name.startswith(f"{group}/"):
        return False
    try:
        parts = split_name(name)
    except ValueError:
        return False
    return metric is None or parts.metric == metric
