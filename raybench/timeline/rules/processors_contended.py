"""Processes of others that take processors from the ranks of one node."""

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.agent.series import CPU_WAITING
from diagnostics.agent.sources.others import LOOK_INTERVALS
from diagnostics.findings import Finding
from raybench.documents.run.node_samples import SampledNode
from raybench.finding_rules.samples import PROCESSORS_CONTENDED
from raybench.stats import median
from raybench.timeline.measures import Values, between, rates
from raybench.timeline.rules.base import NO_TIMES, Answer, around, joined_spans, lacking, measured, ranks_on, sampled
from raybench.timeline.spans import Span, Timeline

LEAST_PROCESSORS, LEAST_SHARE = 1.0, 0.10
LEAST_WAITING, LEAST_BUSY = 0.10, 0.95  # shares of the time, and of the processors
_OTHERS_TIMES = 2.0
_BUSY = "host/cpu/busy_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """Processors that others used of a node's in a span, and by which series most of it is seen."""

    node: SampledNode
    span: Span
    processors: float
    of: float
    series: str


def judge(timeline: Timeline) -> Answer:
    """A finding for each node on which others are at work, of the point in which they were most."""
    if not timeline.spans:
        return Answer(why=NO_TIMES)
    nodes = timeline.samples.nodes
    without = [node for node in nodes if not _is_sampled(node)]
    used = {node.name: use for node in nodes if node not in without and (use := _most(timeline, node)) is not None}
    found = [_finding(timeline, use) for use in used.values() if _stands_out(use, list(used.values()), len(nodes))]
    return Answer(findings=tuple(found), why=lacking(timeline, without, "samples of its processors and of processes"))


def _is_sampled(node: SampledNode) -> bool:
    processes = any(name.startswith(("process/", "other/")) for name in node.series)
    return processes and _BUSY in node.series and bool(node.names("host", "cores"))


def _stands_out(use: _Use, all_uses: list[_Use], nodes: int) -> bool:
    if use.processors < max(LEAST_PROCESSORS, LEAST_SHARE * use.of) or not _waits(use):
        return False
    others = [one.processors for one in all_uses if one.node.name != use.node.name]
    others += [0.0] * (nodes - len(all_uses))
    return not others or use.processors >= _OTHERS_TIMES * median(others)


def _waits(use: _Use) -> bool:
    """Whether anything had to wait for a processor then."""
    begin, end = around(use.node, use.span)
    seconds = max(end - begin, use.node.resolution_seconds)
    if CPU_WAITING in use.node.series:
        waiting = between(use.node, rates(use.node, CPU_WAITING), begin, end + use.node.resolution_seconds)
        return bool(waiting) and sum(waiting) / len(waiting) >= LEAST_WAITING
    busy = between(use.node, rates(use.node, _BUSY), begin, begin + seconds + use.node.resolution_seconds)
    return bool(busy) and sum(busy) / len(busy) >= LEAST_BUSY * use.of


def _most(timeline: Timeline, node: SampledNode) -> _Use | None:
    """What others used most; None where no process of others is among the samples."""
    names = node.names("other", "processors_used")
    cores = next((value for name in node.names("host", "cores") for value in node.values(name) if value), None)
    if not names or not cores:
        return None
    series = {name: node.values(name) for name in names}
    uses = [use for span in joined_spans(timeline, node) if (use := _use(node, series, span, cores)) is not None]
    return max(uses, key=lambda use: use.processors, default=None)


def _use(node: SampledNode, series: Mapping[str, Values], span: Span, cores: float) -> _Use | None:
    """Of spans as long as two readings: of shorter ones nothing is known."""
    begin, end = around(node, span)
    if end - begin < 2 * node.resolution_seconds:
        return None
    by_name = {name: _processors(node, values, begin, end) for name, values in series.items()}
    most = max(by_name, key=by_name.__getitem__)
    return _Use(node=node, span=span, processors=sum(by_name.values()), of=cores, series=most)


def _processors(node: SampledNode, values: Values, begin: float, end: float) -> float:
    """Processors that a process used in the mean over a time. Nothing is looked for while nobody waits for one."""
    looks = max((end - begin) / (LOOK_INTERVALS * node.resolution_seconds), 1.0)
    seen = between(node, values, begin, end)
    return sum(seen) / max(looks, len(seen))


def _finding(timeline: Timeline, use: _Use) -> Finding:
    pid = use.series.split("/")[1]
    text = f"{use.processors:.1f} of {use.of:.0f} processors used by others"
    return PROCESSORS_CONTENDED.finding(
        confidence="likely",
        summary=f"{use.node.name}: {text} during {use.span.title}",
        explanation=f"Most of it by process {pid}, while tasks waited for a processor.",
        ranks=ranks_on(timeline, use.node),
        hosts=(use.node.name,),
        evidence=(sampled(use.node, use.series, *around(use.node, use.span)), measured(use.span, text)),
        recommendations=PROCESSORS_CONTENDED.advise(node=use.node.name),
    )
