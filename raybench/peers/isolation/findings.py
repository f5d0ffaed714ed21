"""Isolations as parts of the result, and what a run finds by them. Pure."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from diagnostics.findings import Finding
from raybench.documents.run.cluster import DroppedNode
from raybench.documents.run.isolation import Continuation, Isolation, IsolationGroup, IsolationPair, Outcome, Suspicion
from raybench.documents.run.result import RunResult
from raybench.finding_rules.isolation import CONFIRMED, NODE_DROPPED, NOT_CONFIRMED, PATH, UNDECIDED
from raybench.finding_rules.rule import MeasuredRule
from raybench.peers.isolation.judgement import Answer, others_figure, own_figure
from raybench.peers.isolation.reading import Reading
from raybench.peers.isolation.steps import Group
from raybench.peers.isolation.suspect import Aspect, Suspect, lost_nodes
from raybench.stats import median

_RULES: Mapping[Outcome, MeasuredRule] = {
    "confirmed": CONFIRMED, "not confirmed": NOT_CONFIRMED, "path": PATH, "unknown": UNDECIDED,
}  # fmt: skip
_UNITS: Mapping[Aspect, str] = {"bandwidth": "GB/s", "speed": "pieces of work a second"}


def suspicion_of(
    suspect: Suspect, answer: Answer, first: Reading, measured: Sequence[tuple[Group, Reading]]
) -> Suspicion:
    """What became of a suspect, for the result."""
    aspect = answer.aspect or suspect.aspects[0]
    return Suspicion(
        name=suspect.name,
        nodes=suspect.nodes,
        ranks=suspect.ranks,
        rules=suspect.rules,
        is_open=suspect.is_open,
        outcome=answer.outcome,
        reason=answer.reason,
        unit=_UNITS[aspect],
        limit=suspect.limit,
        figure=answer.figure,
        partners_figure=answer.partners_figure,
        first_figure=own_figure(suspect, first, aspect),
        first_others_figure=others_figure(suspect, first, aspect),
        slow_with=answer.slow_with,
        seconds=sum(reading.seconds for _, reading in measured),
        groups=tuple(_group(group, reading) for group, reading in measured),
    )


def _group(group: Group, reading: Reading) -> IsolationGroup:
    medians = {pair: median(blocks) for pair, blocks in reading.pairs.items() if blocks}
    best = max(medians.values(), default=0.0)
    return IsolationGroup(
        nodes=group.nodes,
        with_suspect=group.with_suspect,
        instead=group.instead,
        seconds=reading.seconds,
        broke=reading.broke,
        run_id=reading.run_id,
        pairs=tuple(IsolationPair(nodes=pair, gb_per_s=one, best_gb_per_s=best) for pair, one in medians.items()),
    )


def with_isolation(result: RunResult, isolation: Isolation) -> RunResult:
    """The run that accused them, with what became of its suspects, a finding each."""
    findings = (_finding(one) for one in isolation.suspects)
    return replace(result, isolation=isolation, findings=(*result.findings, *findings))


def _finding(one: Suspicion) -> Finding:
    rule = _RULES[one.outcome]
    figures = f" ({one.figures})" if one.figures else ""
    return rule.finding(
        confidence="likely" if one.outcome in ("confirmed", "path") else "possible",
        summary=f"{one.name}, measured again: {_WORDS[one.outcome]}: {one.reason}{figures}",
        explanation=f"{_suspected(one)} {', '.join(one.rules)}. {len(one.groups)} measurements with healthy partners, "
        f"{one.seconds:.0f} s.",
        ranks=one.ranks,
        hosts=one.nodes,
        recommendations=rule.advise(),
    )


def _suspected(one: Suspicion) -> str:
    return "One of several that may be meant by" if one.is_open else "Accused by"


_WORDS: Mapping[Outcome, str] = {
    "confirmed": "confirmed", "not confirmed": "not confirmed", "path": "the path, no node", "unknown": "undecided",
}  # fmt: skip


def at_fault(result: RunResult, isolation: Isolation, *, least: int) -> tuple[list[DroppedNode], list[DroppedNode]]:
    """The nodes to drop, those that were lost first, and those that have to stay so that ``least`` are left.

    Emulated nodes stay: they are one machine, and its next cluster has others of the same names.
    """
    lost = [DroppedNode(node=node, reason="it does not answer (node-lost)") for node in lost_nodes(result)]
    known = {one.node for one in lost}
    proven = [one for one in isolation.suspects if one.outcome == "confirmed" and one.nodes[0] not in known]
    found = [*lost, *(DroppedNode(node=one.nodes[0], reason=_reason(one)) for one in proven)]
    most = 0 if result.cluster.emulated else max(len(result.cluster.nodes) - least, 0)
    return found[:most], found[most:]


def _reason(one: Suspicion) -> str:
    figures = f" ({one.figures})" if one.figures else ""
    return f"confirmed by measuring it again: {one.reason}{figures}"


def with_continuation(result: RunResult, continued: Continuation) -> RunResult:
    """The run that went on without some nodes, with a finding a node that says so."""
    nodes = len(result.cluster.nodes)
    asked = f", --nodes {continued.nodes_asked} was not reached" if continued.nodes_asked else ""
    advice = NODE_DROPPED.advise(before=continued.nodes_before)
    findings = [
        NODE_DROPPED.finding(
            confidence="certain",
            summary=f"{one.node} was dropped, measured on {nodes} of {continued.nodes_before} nodes "
            f"({result.cluster.world_size} of {continued.world_size_before} ranks{asked}): {one.reason}",
            explanation=f"The run with it is {continued.first_run_id}, in the folder beside this one.",
            hosts=(one.node,),
            recommendations=advice,
        )
        for one in continued.dropped
    ]
    cluster = replace(result.cluster, dropped=(*continued.dropped, *result.cluster.dropped))
    return replace(result, cluster=cluster, continued=continued, findings=(*findings, *result.findings))
