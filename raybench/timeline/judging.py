"""All rules over a run and its samples. Pure."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.run.node_samples import NodeSamples, UnjudgedRule
from raybench.documents.run.result import RunResult
from raybench.finding_rules import samples as known
from raybench.timeline.lost_segments import with_losses_explained
from raybench.timeline.rules import (
    gpu_throttled,
    gpu_waits,
    memory_grows,
    node_swaps,
    port_errors,
    processors_contended,
    tcp_losses,
    tcp_paths,
)
from raybench.timeline.rules.base import Answer, not_joined
from raybench.timeline.spans import Timeline

RULES: Mapping[str, Callable[[Timeline], Answer]] = {
    known.PORT_ERRORS.id: port_errors.judge,
    known.GPU_THROTTLED.id: gpu_throttled.judge,
    known.GPU_WAITS.id: gpu_waits.judge,
    known.MEMORY_GROWS.id: memory_grows.judge,
    known.NODE_SWAPS.id: node_swaps.judge,
    known.PROCESSORS_CONTENDED.id: processors_contended.judge,
    known.SLOW_TCP_PATHS.id: tcp_paths.judge,
    known.TCP_LOSSES.id: tcp_losses.judge,
}

# The live rule that says the same of a device, and knows nothing of what was measured then: it is said once.
_SAID_LIVE: Mapping[str, str] = {
    known.PORT_ERRORS.id: "port-errors",
    known.GPU_THROTTLED.id: "gpu-throttled",
    known.NODE_SWAPS.id: "node-swaps",
    known.PROCESSORS_CONTENDED.id: "cpu-contention",
    known.TCP_LOSSES.id: "tcp-retransmissions",
}
_BY_POINT = frozenset(_SAID_LIVE) - {known.TCP_LOSSES.id}  # the rules that say in which point it was
_CHECKS = frozenset({tcp_losses.CHECK, tcp_paths.CHECK})
_OF_A_DEVICE = frozenset({known.PORT_ERRORS.id, known.GPU_THROTTLED.id})


def with_samples(result: RunResult, samples: NodeSamples) -> RunResult:
    """The run with its samples and what they show, in place of what samples showed before."""
    timeline = Timeline(result, samples)
    answers = {rule: judge(timeline) for rule, judge in RULES.items()}
    apart = not_joined(timeline)
    reasons = {
        rule: "; ".join(filter(None, (one.why, apart if rule in _BY_POINT else ""))) for rule, one in answers.items()
    }
    unjudged = tuple(UnjudgedRule(rule=rule, why=why) for rule, why in reasons.items() if why)
    found = [finding for answer in answers.values() for finding in answer.findings]
    before = (one for one in result.findings if one.rule not in RULES and not any(_says(new, one) for new in found))
    checks = [one for one in result.checks if one.name not in _CHECKS]
    checks += [check for answer in answers.values() for check in answer.checks]
    joined = replace(result, findings=(*before, *found), checks=tuple(checks))
    return replace(
        joined,
        findings=with_losses_explained(joined, samples.nodes),
        node_samples=replace(samples, rules_cannot_tell=unjudged),
    )


def _says(joined: Finding, live: Finding) -> bool:
    """Whether a finding says what a live one says: of a machine, or of a device that both begin with."""
    of_path = joined.rule == known.TCP_LOSSES.id and live.hosts and set(live.hosts) <= set(joined.hosts)
    same = _SAID_LIVE.get(joined.rule) == live.rule and (of_path or joined.hosts == live.hosts)
    return same and (joined.rule not in _OF_A_DEVICE or live.summary.startswith(joined.summary.split(": ")[0] + ":"))
