"""The RDMA connection between two ranks cannot be set up.

Symptom: ``Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1 ...``.

Why, by errno: 110 (timed out): the peer's RoCE address does not answer, for example across rails without routing, or
in another VLAN. 22 (invalid): address, RoCE version or link layer do not fit. 101 and 113: network or host
unreachable. 12: no memory.

Not when: NCCL retries it (INFO) and goes on; memory is the cause (memlock-limit).

Source: NCCL's ibvwrap.cc; errno of ibv_modify_qp.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.verbs import ERRNO, device_names, error_number, failed_calls, is_out_of_memory

_MEANING = {
    22: "address, RoCE version or link layer of the two sides do not fit",
    61: "the address row is empty",
    101: "the peer's network cannot be reached",
    110: "the peer's address does not answer: no path between these two adapters (rail, VLAN or subnet)",
    113: "the peer cannot be reached",
}


def check(facts: JobFacts) -> Outcome:
    """Found where connecting a queue pair failed for good."""
    events = [event for event in failed_calls(facts, "modify_qp") if not is_out_of_memory(event)]
    if not events:
        return CLEAR
    number = _number(events[0])
    devices = device_names(events)
    code = f" ({number} {ERRNO[number]})" if number in ERRNO else ""
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary=f"An RDMA connection cannot be set up{' on ' + ', '.join(devices[:4]) if devices else ''}{code}",
            explanation=f"ibv_modify_qp failed: {_MEANING.get(number or 0, 'the error text names the reason')}.",
            occurrences=len(events),
        )
    )


def _number(event: Event) -> int | None:
    texts = {
        "Connection timed out": 110,
        "Invalid argument": 22,
        "Network is unreachable": 101,
        "No route to host": 113,
    }
    return error_number(event) or next((number for text, number in texts.items() if text in event.text), None)


RULE = Rule(
    id="ib-connect-failed",
    title="An RDMA connection cannot be set up",
    severity="critical",
    actions=("measure-link", "fix-gid", "select-adapters", "check-fabric"),
    check=check,
    explained_by=("roce-gid-invalid", "hca-mixed-link-layers"),
)
