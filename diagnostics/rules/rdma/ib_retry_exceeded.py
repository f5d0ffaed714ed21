"""A peer no longer answers over RDMA.

Symptom: ``Got completion from peer 192.0.2.5<33092> with error 12`` (IBV_WC_RETRY_EXC_ERR, vendor error 129), or 13
where the receiver stalls.

Why: the NIC sent a packet several times and got no answer: the peer's process or host died, a link flaps, packets
are lost (RoCE without PFC or ECN), the nodes have no path to each other, or the timeout is too short for the fabric.

Not when: only status 5 is printed; that follows from something else. Where the log tells before it that a process was
killed, that is why nobody answers, and peer-died has these lines.

Source: InfiniBand specification, completion status; vendor numbers from field knowledge.
"""

from dataclasses import replace

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, counted, evidence_of, found
from diagnostics.rules.program.killing import killed_before
from diagnostics.rules.rdma.verbs import completion_status, completions, device_names, peer_names


def check(facts: JobFacts) -> Outcome:
    """Found where a completion has status 12 or 13."""
    errors = completions(facts)
    events = [event for event in errors if completion_status(event) in (12, 13)]
    if not events or killed_before(facts, events[0]):
        return CLEAR
    peers, devices = peer_names(facts, events), device_names(events)
    stalled = all(completion_status(event) == 13 for event in events)
    where = (f" to {', '.join(peers[:6])}" if peers else "") + (f" on {', '.join(devices[:6])}" if devices else "")
    finding = conclude(
        facts,
        events,
        severity="critical",
        summary=(
            f"RDMA transfers{where} {'find the receiver not ready' if stalled else 'get no answer'} (retries exceeded)"
        ),
        explanation="The peer's host or process is gone, or the path between these NICs loses packets or "
        "does not exist. "
        "Bootstrap over Ethernet can work all the same. Flush errors (status 5) on other ranks follow from this.",
        occurrences=counted(events),
    )
    flushed = [event for event in errors if completion_status(event) == 5]
    return found(replace(finding, victims=evidence_of(flushed, 20)))


RULE = Rule(
    id="ib-retry-exceeded",
    title="A peer no longer answers over RDMA",
    severity="critical",
    actions=("check-fabric", "measure-link", "look-at-rank", "longer-timeout"),
    check=check,
    explained_by=("ib-port-down",),
    victim_of=("gpu-out-of-memory", "host-memory-exhausted", "application-error"),
)
