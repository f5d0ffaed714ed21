"""The log does not contain what would answer the question.

Symptom: no line names the network, or no channel between nodes is shown.

Why: NCCL prints almost nothing at NCCL_DEBUG=WARN or VERSION; per-NIC lines belong to the subsystem NET, which is
off by default; from 2.22 on channels appear with the first collective only.

Not when: everything that matters for the job is there.

Source: NCCL user guide, NCCL_DEBUG, NCCL_DEBUG_SUBSYS.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where the network is unknown, or GPUDirect is on a job of several nodes."""
    if not facts.lines_nccl:
        return CLEAR
    if transport.job_network(facts) == "unknown":
        return found(_conclude(facts, "The log does not say which network NCCL uses", "NCCL_DEBUG=INFO on every rank"))
    network = transport.job_network(facts)
    if facts.multi_node and network in ("ib", "roce") and transport.gpu_direct(facts) is None:
        return found(
            _conclude(
                facts,
                "The log does not say whether GPUDirect RDMA is used",
                "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV, and at least one collective",
            )
        )
    return CLEAR


def _conclude(facts: JobFacts, summary: str, setting: str) -> Finding:
    events = facts.of("version", "init-options")[:1]
    return conclude(
        facts,
        events,
        severity="info",
        summary=summary,
        explanation=f"A missing line proves nothing. It would show with {setting}.",
    )


RULE = Rule(
    id="log-too-quiet",
    title="The log is too quiet",
    severity="info",
    actions=("show-network",),
    check=check,
)
