"""Preflight reports for tests of what is done with nodes: hosts by the state of their node."""

from collections.abc import Mapping, Sequence

from raybench.documents.preflight import CheckResult, PreflightHost, PreflightReport, summary_of
from raybench.preflight.node_table import decisive_checks
from raybench.preflight.node_verdict import node_verdict
from raybench.verdicts import NodeState, worst

BAD = {
    "drain": CheckResult(
        check="gpu-rows", verdict="fail", seen="GPU 3 (00000000:3B:00.0): 2 rows failed", action="rma"
    ),
    "degraded": CheckResult(check="gpu-temperature", verdict="warn", seen="GPU 1: 91 C"),
    "unknown": CheckResult(check="gpu-ecc", verdict="unknown", seen="nvidia-smi did not end"),
}


def host(
    name: str, state: NodeState, *, hostname: str | None = None, checks: Sequence[CheckResult] = ()
) -> PreflightHost:
    """A host whose node is in this state; its checks are ``checks`` where they are given."""
    bad = [BAD[state]] if state != "healthy" else []
    passed = [CheckResult(check=one, verdict="pass", seen="as it must be") for one in decisive_checks()]
    own = tuple(checks) or (*(one for one in passed if one.check not in {b.check for b in bad}), *bad)
    node = node_verdict(name, own)
    assert checks or node.state == state
    return PreflightHost(
        host=name,
        hostname=hostname if hostname is not None else name,
        verdict=worst(one.verdict for one in own),
        reached=True,
        reason="",
        group="",
        probe_seconds=1.0,
        checks=own,
        node=node,
    )


def dead(name: str) -> PreflightHost:
    """A host that did not answer."""
    gone = CheckResult(check="host-reachable", verdict="fail", seen="no route to host")
    return PreflightHost(
        host=name,
        hostname=None,
        verdict="fail",
        reached=False,
        reason="no route to host",
        group="",
        probe_seconds=None,
        checks=(gone,),
        node=node_verdict(name, [gone]),
    )


def report_of(hosts: Sequence[PreflightHost], finished_at: str = "2026-11-23T12:00:10Z") -> PreflightReport:
    """The report of some hosts."""
    return PreflightReport(
        verdict=worst(one.verdict for one in hosts),
        status="complete" if all(one.reached for one in hosts) else "partial",
        started_at="2026-11-23T12:00:00Z",
        finished_at=finished_at,
        summary=summary_of(tuple(hosts)),
        hosts=tuple(hosts),
        drift=(),
    )


def report(states: Mapping[str, NodeState], finished_at: str = "2026-11-23T12:00:10Z") -> PreflightReport:
    """A report of hosts by the state of their node."""
    return report_of([host(name, state) for name, state in states.items()], finished_at)
