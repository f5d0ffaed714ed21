"""Messages of agents as these tests write them: readings of series by second."""

from collections.abc import Iterator, Mapping, Sequence

from diagnostics.agent.messages import Clock, Message, Reading
from raybench.documents.run.node_samples import NodeClock, NodeSamples, SampledNode
from raybench.documents.run.sample_column import Column
from raybench.timeline.keeper import SampleKeeper

Levels = Mapping[str, Sequence[float | None]]


def messages(series: Levels, *, begin: float = 100.0, interval: float = 1.0) -> Iterator[Message]:
    """A clock, then a reading a second of one source; None: the series could not be read then."""
    yield Clock(wall_seconds=1.8e9, monotonic_seconds=begin, host="node-a", interval_seconds=interval)
    for row in range(max(map(len, series.values()))):
        values = {name: value for name, of in series.items() if row < len(of) and (value := of[row]) is not None}
        yield Reading(monotonic_seconds=begin + row * interval, source="test", values=values)


def kept(series: Levels, *, most_bytes: int = 2**28, most_text: int = 2**26) -> SampledNode:
    """What a keeper makes of them, heard as they are said by a machine with the command's clock."""
    keeper = SampleKeeper(
        run_id="run",
        started_at="2026-11-23T02:00:00+00:00",
        start_seconds=100.0,
        most_bytes=most_bytes,
        most_text=most_text,
    )
    keeper.machine("node-a", ("node-a",), is_here=True)
    for message in messages(series):
        keeper.take("node-a", message, message.monotonic_seconds)
    samples = keeper.samples()
    assert samples is not None
    return samples.nodes[0]


def sampled(name: str, series: Levels, *, begin: float = 0.0, interval: float = 1.0, bound: float = 0.0) -> SampledNode:
    """A node of a document, its first row ``begin`` seconds after the run's start."""
    rows = max(map(len, series.values()))
    return SampledNode(
        name=name,
        nodes=(name,),
        clock=NodeClock(offset_seconds=begin, bound_seconds=bound),
        rows=rows,
        interval_seconds=interval,
        times=Column.of([row * interval for row in range(rows)]).to_text(),
        series={one: Column.of(values).to_text() for one, values in series.items()},
    )


def samples_of(*nodes: SampledNode) -> NodeSamples:
    """A document of them."""
    return NodeSamples(run_id="run", started_at="2026-11-23T02:00:00+00:00", nodes=nodes)
