"""A NIC reported something outside a transfer.

Symptom: ``NET/IB : Got async event : GID table change``, ``async fatal event on QP``, ``local catastrophic error``.

Why: NICs report changes of addresses, of the subnet manager, and faults of queue pairs or of themselves.

Not when: port errors (ib-port-down). Changes of the address table, client re-registration and ``communication
established`` are harmless where the run goes on: info.

Source: ibv_get_async_event; NCCL's net_ib.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.rdma.verbs import completion_status

_HARMLESS = (
    "gid",
    "lid change",
    "client",
    "communication established",
    "sm change",
    "pkey",
    "port active",
    "last wqe",
    "event type (18)",  # the change of a GID table, which NCCL has no name for
)

_DENIED = (4, 9, 10, 11)  # the statuses of completions that ib-protection-error is about


def check(facts: JobFacts) -> Outcome:
    """Found where events other than port errors were printed."""
    events = [event for event in facts.of("async-event") if "port err" not in event.fields["event"].lower()]
    events = [event for event in events if "port active" not in event.fields["event"].lower()]
    if not events:
        return CLEAR
    denied = any(completion_status(event) in _DENIED for event in facts.of("completion-error"))
    fatal = [event for event in events if _is_fatal(event) and not (denied and _is_violation(event))]
    odd = [event for event in events if not any(text in event.fields["event"].lower() for text in _HARMLESS)]
    chosen = fatal or odd or events
    names = sorted({event.fields["event"].strip() for event in chosen})
    return found(
        conclude(
            facts,
            chosen,
            severity="critical" if fatal else "warning" if odd else "info",
            summary=f"NIC event: {', '.join(names[:4])}",
            explanation="The NIC cannot go on with this queue or at all; the next transfer fails."
            if fatal
            else "The NIC reports a change. By itself it harms nothing while the job goes on.",
            occurrences=facts.count("async-event") if chosen is events else len(chosen),
        )
    )


def _is_violation(event: Event) -> bool:
    """Whether the NIC tells of memory that it may not touch, as the completion of that transfer does too."""
    return "access violation" in event.fields["event"].lower()


def _is_fatal(event: Event) -> bool:
    text = event.fields["event"].lower()
    return "fatal" in event.fields or "catastrophic" in text or "fatal" in text or "access violation" in text


RULE = Rule(
    id="ib-async-event",
    title="A NIC reported an event",
    severity="critical where fatal, warning where unusual, else info",
    actions=("check-port",),
    done_without=("async-event",),
    check=check,
)
