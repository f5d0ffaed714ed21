"""A port of a NIC went down.

Symptom: ``NET/IB : mlx5_0:1 Got async event : port error``; with NCCL_IB_RESILIENCY_PORT_FAILOVER=1 ``NET/IB: Fatal
error. Detected 2 failed devices out of 2 devices``.

Why: cable, transceiver, switch port or firmware; on Ethernet also the interface being set down.

Not when: the same port reports ``port active`` afterwards and nothing failed: info.

Source: ibv_event_type_str of libibverbs; NCCL's net_ib.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, conclude, found, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where a port error event was printed."""
    events = [event for event in facts.of("async-event") if _is_down(event)]
    if not events:
        return _given_up(facts)
    active = [event for event in facts.of("async-event") if "port active" in event.fields["event"].lower()]
    recovered = all(_recovers(event, active) for event in events) and not facts.of(
        "completion-error", "communicator-fatal"
    )
    ports = sorted({f"{e.fields['device']}:{e.fields.get('port', '?')}" for e in events if "device" in e.fields})
    return found(
        conclude(
            facts,
            [*events, *active[:1]],
            severity="info" if recovered else "critical",
            summary=f"Port {', '.join(ports[:6]) or 'of a NIC'} went down" + (" and came back" if recovered else ""),
            explanation=(
                "The link was lost while the job ran. Transfers over it fail when it stays away "
                "longer than the timeout."
            ),
            occurrences=len(events),
        )
    )


def _given_up(facts: JobFacts) -> Outcome:
    """NICs that NCCL's own failover took out of use until none was left."""
    events = stopped_at(facts, "nic-failed")
    return answer(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"NICs failed until none could take over: {events[0].fields['text'][:140] if events else ''}",
        explanation="Transfers over a NIC failed, and NCCL's failover (NCCL_IB_RESILIENCY_PORT_FAILOVER) found no "
        "other that works.",
    )


def _is_down(event: Event) -> bool:
    text = event.fields["event"].lower()
    return "port err" in text or "link down" in text or "port down" in text


def _recovers(event: Event, active: list[Event]) -> bool:
    return any(
        other.origin.sequence > event.origin.sequence
        and other.fields.get("device") == event.fields.get("device")
        and other.origin.host == event.origin.host
        for other in active
    )


RULE = Rule(
    id="ib-port-down",
    title="A port went down",
    severity="critical; info where it came back",
    actions=("check-port", "check-fabric"),
    check=check,
)
