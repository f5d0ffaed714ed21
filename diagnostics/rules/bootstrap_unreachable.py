"""A peer cannot be reached.

Symptom: ``Connect to 10.0.0.1<4312> failed : Connection refused`` or ``Connection timed out``; a host name that does
not resolve; a bad NCCL_COMM_ID.

Why: refused: nobody listens there, because that process died, or another process's address was used. Timed out: a
firewall or security group drops the packets, or the route is wrong.

Not when: NCCL retries and goes on (``returned Connection refused, retrying`` at level INFO); an earlier fault ended
the peer.

Source: NCCL's socket.cc.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned
from diagnostics.rules.connecting import unanswered

_REASONS = (
    "Connection refused",
    "Connection timed out",
    "retries",
    "timeouts",
    "Operation now in progress",
    "Software caused connection abort",
)


def check(facts: JobFacts) -> Outcome:
    """Found where connecting failed for good."""
    failed = [
        event
        for event in facts.of("connect-failed")
        if event.fields["reason"] in _REASONS and "retrying" not in event.text and event.origin.level != "INFO"
    ]
    failed += [event for event in unanswered(facts) if event.fields["reason"] in _REASONS]
    bad = warned(facts, "address-invalid")
    bad += [event for event in warned(facts, "bind-failed") if "ras/" not in event.text]
    store = facts.of("store-failed")
    events = sorted(failed + bad + store, key=lambda event: event.origin.sequence)
    if not events:
        return CLEAR
    first = events[0]
    peers = sorted({event.fields["peer"].split("<")[0] for event in failed if "peer" in event.fields})
    reason = first.fields.get("reason", "the address cannot be used")
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=f"A peer cannot be reached{' at ' + ', '.join(peers[:4]) if peers else ''}: {reason[:100]}",
            explanation="Refused means that nobody listens: look for the process that ended first. Timed out "
            "means that packets "
            "are dropped: firewall, security group or interface.",
            occurrences=len(events),
        )
    )


RULE = Rule(
    id="bootstrap-unreachable",
    title="A peer cannot be reached",
    severity="critical",
    actions=("check-reachability", "choose-interface", "look-at-rank"),
    check=check,
    explained_by=("wrong-interface", "peer-died"),
    consequence="lower",
)
