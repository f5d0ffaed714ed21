"""What the agents of a run say, kept as it comes: in bounded memory, whatever they say and for however long.

The command calls ``machine`` for each agent once, ``take`` for each message, and ``samples`` at the end, also of a run
that was cut. Times that it gives are of its own monotonic clock, ``time.monotonic()``.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.agent.messages import Clock, Event, Message, Reading, Source, Warned
from raybench.documents.run.node_samples import NodeEvent, NodeSamples, SampledNode, SampleSource, known_series
from raybench.documents.run.sample_column import Column
from raybench.timeline.clock import ClockEstimate
from raybench.timeline.merging import BUCKET, Values, merged_counters, merged_levels

MOST_BYTES = 512 * 2**20  # in memory, of all machines
MOST_NODE_BYTES = 8 * 2**20  # of one machine
MOST_TEXT = 64 * 2**20  # in the document, of all machines
MOST_NODE_TEXT = 2 * 2**20  # of one machine
MOST_SERIES = 4096  # of one machine
MOST_EVENTS = 300  # of one machine
MOST_SOURCES = 128  # of one machine
_LONGEST_TEXT = 500
_LOOK_ROWS = 64
_FEWEST_ROWS = 4 * BUCKET
_UNKNOWN_INTERVAL = 1.0


@dataclass(kw_only=True)
class SampleKeeper:
    """The samples of one run. ``start_seconds``: the run's start on the command's monotonic clock."""

    run_id: str
    started_at: str
    start_seconds: float
    most_bytes: int = MOST_BYTES
    most_text: int = MOST_TEXT
    _machines: dict[str, "MachineKeeper"] = field(default_factory=dict)

    def machine(self, name: str, nodes: tuple[str, ...], *, is_here: bool = False) -> None:
        """A machine has an agent. ``nodes``: those of the run that are on it; ``is_here``: the command is on it too."""
        kept = MachineKeeper(name=name, nodes=nodes, clock=ClockEstimate(start_seconds=self.start_seconds))
        if is_here:
            kept.clock.same()
        self._machines[name] = kept

    def take(self, name: str, message: Message, heard_seconds: float) -> None:
        """Keep a message of a machine's agent. Raises KeyError for a machine that was not named before."""
        kept = self._machines[name]
        kept.clock.heard(there_seconds=message.monotonic_seconds, heard_seconds=heard_seconds)
        kept.take(message, min(self.most_bytes // len(self._machines), MOST_NODE_BYTES))

    def answered(self, name: str, *, asked_seconds: float, there_seconds: float, answered_seconds: float) -> None:
        """A machine told its monotonic clock between a question and its answer: what bounds its offset both ways."""
        self._machines[name].clock.answered(
            asked_seconds=asked_seconds, there_seconds=there_seconds, answered_seconds=answered_seconds
        )

    def samples(self) -> NodeSamples | None:
        """All that was kept; None where no agent has said anything."""
        heard = [one for one in self._machines.values() if one.has_any]
        if not heard:
            return None
        most = min(self.most_text // len(heard), MOST_NODE_TEXT)
        nodes = tuple(one.sampled(most) for one in heard)
        return NodeSamples(run_id=self.run_id, started_at=self.started_at, nodes=nodes)


@dataclass(kw_only=True)
class MachineKeeper:
    """The samples of one machine. Readings of its sources that are less than half an interval apart share a row."""

    name: str
    nodes: tuple[str, ...]
    clock: ClockEstimate
    _interval: float = 0.0
    _merged: int = 1
    _rows: int = 0
    _times: Column = field(default_factory=Column)
    _columns: dict[str, Column] = field(default_factory=dict)
    _bucket: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    _at: float | None = None  # of the row that is being read
    _latest: float = float("-inf")
    _values: dict[str, float] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)
    _sources: dict[str, SampleSource] = field(default_factory=dict)
    _events: list[NodeEvent] = field(default_factory=list)
    _left_out: Counter[str] = field(default_factory=Counter)

    @property
    def has_any(self) -> bool:
        """Whether the agent has said anything that is kept."""
        return bool(self._rows or self._values or self._bucket or self._sources or self._events)

    def take(self, message: Message, most_bytes: int) -> None:
        """Keep a message, within so many bytes of memory."""
        match message:
            case Reading():
                self._take_reading(message, most_bytes)
            case Clock():
                self._interval = self._interval or message.interval_seconds
            case Source():
                source = SampleSource(name=message.name, available=message.available, reason=message.reason)
                if message.name in self._sources or len(self._sources) < MOST_SOURCES:
                    self._sources[message.name] = source
                else:
                    self._left_out["sources"] += 1
            case Event():
                self._take_event(message.monotonic_seconds, message.source, message.device, message.text)
            case Warned():
                pass  # a finding of its own, which the command shows and keeps

    def _take_event(self, at: float, source: str, device: str, text: str) -> None:
        if len(self._events) < MOST_EVENTS:
            self._events.append(NodeEvent(clock_seconds=at, source=source, device=device, text=text[:_LONGEST_TEXT]))
        else:
            self._left_out["events"] += 1

    def _take_reading(self, reading: Reading, most_bytes: int) -> None:
        at = reading.monotonic_seconds
        if at < self._latest:
            self._left_out["readings from before the last"] += 1
            return
        near = self._at is not None and at - self._at < 0.5 * (self._interval or _UNKNOWN_INTERVAL)
        if not near or reading.source in self._read:
            self._end_row(most_bytes)
            self._at = self._latest = at
        self._read.add(reading.source)
        self._values.update(reading.values)

    def _end_row(self, most_bytes: int) -> None:
        if self._at is not None:
            self._bucket.append((self._at, self._values))
        self._at, self._values, self._read = None, {}, set()
        if len(self._bucket) >= (1 if self._merged == 1 else 2 * self._merged):
            self._end_bucket()
            if self._rows % _LOOK_ROWS == 0 and self._stored_bytes > most_bytes and self._rows >= _FEWEST_ROWS:
                self._merge(2)

    def _end_bucket(self) -> None:
        """The readings of the bucket as rows: one each, or two for all of them."""
        bucket, self._bucket = self._bucket, []
        if self._merged == 1:
            self._add_row(*bucket[0])
            return
        times: list[float | None] = [at for at, _ in bucket]
        for row, at in enumerate(merged_counters(times, len(bucket))):
            self._times.add(self._rows + row, at or 0.0)
        for name in dict.fromkeys(name for _, values in bucket for name in values):
            column = self._columns.get(name) or self._new_column(name)
            if column is not None:
                values = [one.get(name) for _, one in bucket]
                self._add(column, _merging(name)(values, len(bucket)))
        self._rows = self._times.end

    def _add_row(self, at: float, values: dict[str, float]) -> None:
        """One reading as it is: most of them, and so without a detour."""
        row, columns = self._rows, self._columns
        self._times.add(row, at)
        for name, value in values.items():
            column = columns.get(name) or self._new_column(name)
            if column is not None and not column.add(row, value):
                self._left_out["values"] += 1
        self._rows += 1

    def _new_column(self, name: str) -> Column | None:
        if len(self._columns) >= MOST_SERIES:
            self._left_out["series"] += 1
            return None
        return self._columns.setdefault(name, Column())

    def _add(self, column: Column, values: list[float | None]) -> None:
        for row, value in enumerate(values):
            if value is not None and not column.add(self._rows + row, value):
                self._left_out["values"] += 1

    @property
    def _stored_bytes(self) -> int:
        return sum(column.stored_bytes for column in self._columns.values())

    def _merge(self, factor: int) -> None:
        """Rows for so many times as many readings, and as many fewer."""
        rows, bucket, self._merged = self._rows, 2 * factor, self._merged * factor
        self._times = Column.of(merged_counters(self._times.values(rows), bucket))
        self._rows = self._times.end
        for name, column in self._columns.items():
            same = column.shortened(rows, self._rows)
            self._columns[name] = same or Column.of(_merging(name)(column.values(rows), bucket))

    def sampled(self, most_text: int) -> SampledNode:
        """What was kept, in a text of so many characters at most. Nothing can be taken afterwards."""
        self._end_row(MOST_NODE_BYTES)
        if self._bucket:
            self._end_bucket()
        while True:
            series = {name: column.to_text() for name, column in sorted(self._columns.items())}
            excess = sum(map(len, series.values())) / most_text
            if excess <= 1 or self._rows < _FEWEST_ROWS:
                break
            self._merge(2 ** math.ceil(math.log2(min(excess, self._rows / BUCKET))))
        return SampledNode(
            name=self.name,
            nodes=self.nodes,
            clock=self.clock.clock(),
            rows=self._rows,
            interval_seconds=self._interval or _UNKNOWN_INTERVAL,
            merged=self._merged,
            times=self._times.to_text(),
            series=series,
            sources=tuple(self._sources.values()),
            events=tuple(self._events),
            left_out=dict(self._left_out),
        )


def _merging(name: str) -> Callable[[Values, int], list[float | None]]:
    known = known_series(name)
    return merged_counters if known is not None and known.is_counter else merged_levels
