"""Imported samples as a document: those of the run's nodes, on the run's clock. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from diagnostics.agent.messages import Clock, Reading
from raybench.documents.run.node_samples import NodeClock, NodeSamples, SampledNode
from raybench.documents.run.result import RunResult
from raybench.stats import median
from raybench.timeline.clock import ClockEstimate
from raybench.timeline.importing.host_names import nodes_of_hosts
from raybench.timeline.importing.sample import ImportedFileError, Sample
from raybench.timeline.keeper import MOST_NODE_BYTES, MOST_NODE_TEXT, MOST_TEXT, MachineKeeper

_BASIS = "the clocks of the nodes, which nobody compared; the run's start is known to the second"
_MARGIN_SECONDS = 60.0  # before and after the run


def imported_samples(result: RunResult, by_source: Mapping[str, Sequence[Sample]]) -> NodeSamples:
    """The samples of the run's nodes in the time of the run. ``by_source``: of each file, with the host that it lacked.

    Raises ImportedFileError where none is of a node of the run, or of its time.
    """
    started = datetime.fromisoformat(result.started_at).timestamp()
    ended = datetime.fromisoformat(result.finished_at).timestamp()
    within = {
        source: [one for one in samples if started - _MARGIN_SECONDS <= one.at <= ended + _MARGIN_SECONDS]
        for source, samples in by_source.items()
    }
    names = nodes_of_hosts({one.host for samples in within.values() for one in samples}, result.cluster.nodes)
    nodes: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for source, samples in within.items():
        for sample in samples:
            if sample.host in names:
                nodes[names[sample.host]][source].append(sample)
    if not nodes:
        raise ImportedFileError(_why_none(result, [one for samples in by_source.values() for one in samples]))
    most = min(MOST_TEXT // len(nodes), MOST_NODE_TEXT)
    sampled = tuple(_sampled(name, nodes[name], started, most) for name in sorted(nodes))
    return NodeSamples(run_id=result.run_id, started_at=result.started_at, origin="import", nodes=sampled)


def _why_none(result: RunResult, samples: Sequence[Sample]) -> str:
    if not samples:
        return "there is no sample of a series that raybench knows in it"
    names = nodes_of_hosts({one.host for one in samples}, result.cluster.nodes)
    known = [one.at for one in samples if one.host in names]
    if known:
        begin, end = _moment(min(known)), _moment(max(known))
        return (
            f"no sample is of the time of the run, {result.started_at} to {result.finished_at}: they are of {begin} "
            f"to {end}; is --timezone or --begin right?"
        )
    hosts = sorted({one.host for one in samples})
    nodes = [node.name for node in result.cluster.nodes]
    return (
        f"none of its hosts ({_few(hosts)}) is a node of the run ({_few(nodes)}): give --node where it is of one "
        "that it calls otherwise"
    )


def _moment(at: float) -> str:
    try:
        return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # milliseconds, most often
        return f"{at:.15g} s after 1970"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "it names none"


def _sampled(name: str, by_source: Mapping[str, Sequence[Sample]], started: float, most: int) -> SampledNode:
    keeper = MachineKeeper(name=name, nodes=(name,), clock=ClockEstimate(start_seconds=started))
    readings = _readings(by_source)
    interval = max(_interval([one.at for one in samples]) for samples in by_source.values())
    keeper.take(
        Clock(wall_seconds=started, monotonic_seconds=started, host=name, interval_seconds=interval), MOST_NODE_BYTES
    )
    for at, source, values in readings:
        keeper.take(Reading(monotonic_seconds=at, source=source, values=values), MOST_NODE_BYTES)
    return replace(keeper.sampled(most), clock=NodeClock(offset_seconds=-started, basis=_BASIS))


def _readings(by_source: Mapping[str, Iterable[Sample]]) -> list[tuple[float, str, dict[str, float]]]:
    found: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for source, samples in by_source.items():
        for sample in samples:
            found[sample.at, source][sample.series] = sample.value
    return [(at, source, values) for (at, source), values in sorted(found.items(), key=lambda item: item[0])]


def _interval(times: Sequence[float]) -> float:
    steps = [after - before for before, after in pairwise(sorted(set(times))) if after > before]
    return median(steps) if steps else 1.0
