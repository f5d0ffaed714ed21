"""What a run's nodes did over time, as text: a row a node, the worst first, and how the samples were made. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raybench.documents.run.node_samples import NodeSamples, SampledNode
from raybench.reports.model import Cell, Grid
from raybench.reports.text import counted, fixed, printable
from raybench.timeline.measures import MEASURES, Lines, lines_of, track_of
from raybench.timeline.rules.gpu_throttled import REASONS
from raybench.timeline.rules.port_errors import fault_counters
from raybench.units import format_seconds

MOST_ROWS = 20
_HEADINGS = {"gpu": "GPU busy (%)", "network": "sent (GB/s)", "processors": "processors (%)", "memory": "memory (GiB)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesView:
    """Measures of all nodes on their axes; the table of nodes; what is to be known of the samples."""

    lines: tuple[Lines, ...]
    grid: Grid
    more: int
    notes: tuple[str, ...]


def samples_view(samples: NodeSamples) -> SamplesView:
    """The whole view: columns are unpacked here, once for each measure."""
    lines = tuple(found for measure in MEASURES if (found := lines_of(measure, samples.nodes)) is not None)
    ordered = _ordered(samples.nodes, lines)
    grid = _grid(ordered[:MOST_ROWS], lines)
    return SamplesView(lines=lines, grid=grid, more=max(len(ordered) - MOST_ROWS, 0), notes=tuple(_notes(samples)))


def _ordered(nodes: Sequence[SampledNode], lines: Sequence[Lines]) -> list[SampledNode]:
    """Nodes with errors or lowered clocks first, then by their best place in any measure's order."""
    places = {one.node: place for measure in reversed(lines) for place, one in enumerate(measure.nodes)}
    return sorted(nodes, key=lambda node: (-_errors(node), -_throttled(node), places.get(node.name, len(nodes))))


def _errors(node: SampledNode) -> int:
    """Errors of all its ports together."""
    return round(sum(track_of(node, name).total for name in fault_counters(node) if not node.is_constant(name)))


def _throttled(node: SampledNode) -> int:
    """Readings in which a clock was lowered for a fault."""
    names = [name for reason in REASONS for name in node.names("gpu", reason)]
    return sum(1 for name in names for value in node.values(name) if value)


def _grid(nodes: Sequence[SampledNode], lines: Sequence[Lines]) -> Grid:
    means = {one.measure.name: {line.node: line.mean for line in one.nodes} for one in lines}
    headings = ("node", *(_HEADINGS[name] for name in means), "port errors", "throttled", "samples", "clock")
    rows = (
        (
            Cell(text=printable(node.name)),
            *(_number(known.get(node.name)) for known in means.values()),
            _count(_errors(node) if fault_counters(node) else None),
            _count(_throttled(node) if any(node.names("gpu", reason) for reason in REASONS) else None),
            Cell(text=f"{node.rows} of {format_seconds(node.resolution_seconds)}"),
            Cell(text=_clock(node)),
        )
        for node in nodes
    )
    return Grid(headings=headings, rows=tuple(rows))


def _number(value: float | None) -> Cell:
    return Cell(text="-" if value is None else fixed(value))


def _count(value: int | None) -> Cell:
    return Cell(text="-") if value is None else Cell(text=f"{value:,}", tone="warn" if value else "")


def _clock(node: SampledNode) -> str:
    bound = node.clock.bound_seconds
    return "unknown" if bound is None else f"±{format_seconds(bound)}" if bound else "exact"


def _notes(samples: NodeSamples) -> Iterator[str]:
    merged = max((node.merged for node in samples.nodes), default=1)
    if merged > 1:
        yield (
            f"To keep them within their bound, readings are merged, by up to {merged}: of levels the least and the "
            "largest are kept, of counters what they stood at."
        )
    shared = [node for node in samples.nodes if len(node.nodes) > 1]
    if shared:
        names = ", ".join(printable(name) for name in shared[0].nodes[:4])
        machine = printable(shared[0].name)
        yield f"One agent for all nodes that are emulated on {machine} ({names}): its samples are those of the machine."
    absent: dict[tuple[str, str], list[str]] = {}
    for node in samples.nodes:
        for source in node.sources:
            if not source.available:
                absent.setdefault((source.name, source.reason), []).append(node.name)
    for (name, reason), nodes in absent.items():
        yield f"Not sampled on {counted(len(nodes), 'node')}: {printable(name)} ({printable(reason)})"
    for one in samples.rules_cannot_tell:
        yield f"{one.rule} cannot tell: {printable(one.why)}"
    omitted = sum(sum(node.left_out.values()) for node in samples.nodes)
    if omitted:
        yield f"Left out: {counted(omitted, 'value')} or messages that were too many, or of a time before the last."
