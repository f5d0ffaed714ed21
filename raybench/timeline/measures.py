"""What is looked at of a node over time: its GPUs, its network, its processors, its memory. Pure.

A measure is a value a row of the node's time axis, None where it is not known there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from raybench.documents.run.node_samples import SampledNode

Values = list[float | None]
_MOST_BINS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One of them. ``lowest_is_worst``: which nodes stand out. ``unit`` stands behind its values."""

    name: str
    title: str
    unit: str
    lowest_is_worst: bool
    of: Callable[[SampledNode], Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A measure of one node in equal bins of time, and its mean over all of them."""

    node: str
    values: tuple[float | None, ...]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A measure of all nodes that have it, the worst first. ``seconds``: the middle of each bin."""

    measure: Measure
    seconds: tuple[float, ...]
    nodes: tuple[NodeLine, ...]


def rates(node: SampledNode, name: str) -> Values:
    """What a counter grew by a second, up to each row; None where it is missing, or began again."""
    seconds, values = node.seconds, node.values(name)
    found: Values = [None] * len(values)
    last: tuple[float, float] | None = None
    for row, value in enumerate(values):
        if value is None:
            continue
        if last is not None and value >= last[1] and seconds[row] > last[0]:
            found[row] = (value - last[1]) / (seconds[row] - last[0])
        last = seconds[row], value
    return found


def _gpu_utilization(node: SampledNode) -> Values:
    return _mean([node.values(name) for name in node.names("gpu", "utilization_percent")], node.rows)


def _sent(node: SampledNode) -> Values:
    """GB/s that leave the node: by its RDMA ports, or its network devices where it has none that moved anything."""
    for group in ("port", "nic"):
        each = [rates(node, name) for name in node.names(group, "sent_bytes")]
        total = _total(each, node.rows)
        if any(value for value in total if value):
            return [None if value is None else value / 1e9 for value in total]
    return [None] * node.rows


def _processors_busy(node: SampledNode) -> Values:
    cores, busy = node.names("host", "cores"), "host/cpu/busy_seconds"
    known = next((value for name in cores for value in node.values(name) if value), None)
    if known is None or busy not in node.series:
        return [None] * node.rows
    return [None if value is None else 100 * value / known for value in rates(node, busy)]


def _memory_available(node: SampledNode) -> Values:
    name = "host/memory/available_bytes"
    values = node.values(name) if name in node.series else [None] * node.rows
    return [None if value is None else value / 2**30 for value in values]


MEASURES = (
    Measure(name="gpu", title="GPU utilisation", unit="%", lowest_is_worst=True, of=_gpu_utilization),
    Measure(name="network", title="Sent by the node", unit="GB/s", lowest_is_worst=True, of=_sent),
    Measure(name="processors", title="Processors busy", unit="%", lowest_is_worst=False, of=_processors_busy),
    Measure(name="memory", title="Memory available", unit="GiB", lowest_is_worst=True, of=_memory_available),
)


def lines_of(measure: Measure, nodes: Sequence[SampledNode]) -> Lines | None:
    """A measure of all nodes on one axis; None where no node has it."""
    each = ((node, measure.of(node)) for node in nodes)
    known = [(node, values) for node, values in each if any(value is not None for value in values)]
    if not known:
        return None
    begin = min(node.seconds[0] for node, _ in known)
    end = max(node.seconds[-1] for node, _ in known)
    width = max((end - begin) / _MOST_BINS, *(node.resolution_seconds for node, _ in known)) or 1.0
    bins = int((end - begin) / width) + 1
    lines = [_line(node, values, begin, width, bins) for node, values in known]
    lines.sort(key=lambda line: line.mean, reverse=not measure.lowest_is_worst)
    middles = tuple(begin + (number + 0.5) * width for number in range(bins))
    return Lines(measure=measure, seconds=middles, nodes=tuple(lines))


def _line(node: SampledNode, values: Values, begin: float, width: float, bins: int) -> NodeLine:
    totals, counts = [0.0] * bins, [0] * bins
    for at, value in zip(node.seconds, values, strict=True):
        if value is not None:
            place = min(int((at - begin) / width), bins - 1)
            totals[place] += value
            counts[place] += 1
    known = tuple(total / count if count else None for total, count in zip(totals, counts, strict=True))
    return NodeLine(node=node.name, values=known, mean=sum(totals) / sum(counts))


def band_of(lines: Sequence[NodeLine]) -> tuple[list[float | None], list[float | None]]:
    """The least and the largest of some nodes in each bin."""
    columns = [
        [value for value in column if value is not None] for column in zip(*(one.values for one in lines), strict=True)
    ]
    return [min(column, default=None) for column in columns], [max(column, default=None) for column in columns]


def _mean(each: Sequence[Values], rows: int) -> Values:
    return [None if total is None else total / count for total, count in _sums(each, rows)]


def _total(each: Sequence[Values], rows: int) -> Values:
    return [total for total, _ in _sums(each, rows)]


def _sums(each: Sequence[Values], rows: int) -> list[tuple[float | None, int]]:
    if not each:
        return [(None, 0)] * rows
    known = ([value for value in row if value is not None] for row in zip(*each, strict=True))
    return [(sum(values), len(values)) if values else (None, 0) for values in known]


def between(node: SampledNode, values: Sequence[float | None], begin: float, end: float) -> list[float]:
    """The known values of rows within a time."""
    return [value for at, value in zip(node.seconds, values, strict=True) if value is not None and begin <= at <= end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """What a counter has grown by since its first reading, at each of its readings."""

    seconds: tuple[float, ...]
    totals: tuple[float, ...]

    @property
    def total(self) -> float:
        """What it grew by in all; 0 of fewer than two readings."""
        return self.totals[-1] if self.totals else 0.0

    def grown(self, begin: float, end: float) -> float | None:
        """From the last reading before a time to the first after it, so that what happened within is within.

        None where fewer than two readings are known of it.
        """
        first = max(bisect_right(self.seconds, begin) - 1, 0)
        last = min(bisect_left(self.seconds, end), len(self.seconds) - 1)
        apart = last > first and self.seconds[first] < end and self.seconds[last] > begin
        return self.totals[last] - self.totals[first] if apart else None


def track_of(node: SampledNode, name: str) -> Track:
    """A counter over time. Where it began again, what it has since then counts; one that was misread did not."""
    read = [(at, value) for at, value in zip(node.seconds, node.values(name), strict=True) if value is not None]
    known = [one for number, one in enumerate(read) if not _is_misread(read[max(number - 1, 0) : number + 2])]
    grown = (after - before if after >= before else after for (_, before), (_, after) in pairwise(known))
    totals = accumulate(grown, initial=0.0)
    return Track(seconds=tuple(at for at, _ in known), totals=tuple(totals) if known else ())


def _is_misread(three: Sequence[tuple[float, float]]) -> bool:
    """Whether the second of three readings is lower than both, and the third is back where the first was."""
    return len(three) == 3 and three[1][1] < three[0][1] <= three[2][1]
