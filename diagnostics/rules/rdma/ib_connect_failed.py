"""The RDMA connection between two ranks cannot be set up.

Symptom: ``Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1 ...``, in older releases
``failed with error Network is unreachable``.

Why, by errno: 19 (no such device): the interface that owns the local GID is gone or lies in another network namespace.
22 (invalid): address, RoCE version or link layer of the two sides do not fit. 61: the row of the GID table is empty.
101: no route from the local GID to the peer's. 110: the peer's RoCE address does not answer, for example across rails
without routing, or in another VLAN. 113: the route exists, and nobody answers for the address there. 12: no memory.

Not when: NCCL retries it (INFO) and goes on; memory is the cause (memlock-limit).

Source: NCCL's ibvwrap.cc; errno of ibv_modify_qp as the kernel's address resolution (ib_addr) sets it.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.rdma.verbs import device_names, failed_calls, is_out_of_memory, verbs_error

_ACTIONS = ("measure-link", "fix-gid", "select-adapters", "check-fabric")
_MEANING = {
    "EPERM": ("the process may not do this; it lacks the rights on the device", ("open-device-permission",)),
    "EACCES": ("the process may not do this; it lacks the rights on the device", ("open-device-permission",)),
    "ENODEV": (
        "the interface that owns the local address (GID) is gone, or lies in another network namespace than the rank",
        ("fix-gid", "check-route", "select-adapters"),
    ),
    "EINVAL": (
        "address, RoCE version or link layer of the two sides do not fit",
        ("fix-gid", "select-adapters", "measure-link"),
    ),
    "ENODATA": ("the row of the GID table is empty", ("fix-gid",)),
    "ENETDOWN": ("the interface of the NIC is down", ("check-port", "check-route")),
    "ENETUNREACH": (
        "there is no route from the local address to the peer's: another subnet, rail or link-local address",
        ("check-route", "fix-gid", "select-adapters"),
    ),
    "ETIMEDOUT": (
        "the peer's address does not answer: no path between these two NICs (rail, VLAN or subnet)",
        ("measure-link", "check-route", "fix-gid", "select-adapters", "check-fabric"),
    ),
    "EHOSTUNREACH": (
        "the network is reached, but nobody answers there for the peer's address",
        ("check-route", "measure-link", "fix-gid"),
    ),
}


def check(facts: JobFacts) -> Outcome:
    """Found where connecting a queue pair failed for good."""
    events = [event for event in failed_calls(facts, "modify_qp") if not is_out_of_memory(event)]
    if not events:
        return CLEAR
    error = next((said for said in map(verbs_error, events) if said is not None), None)
    meaning, actions = _MEANING.get(error.name if error else "", ("the error text names the reason", _ACTIONS))
    if transport.link_layer(facts) == "ib":  # InfiniBand has neither routes nor rows to choose
        actions = ("measure-link", "select-adapters", "check-fabric")
    devices = device_names(events)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary=f"An RDMA connection cannot be set up{' on ' + ', '.join(devices[:4]) if devices else ''}"
            + (f" ({error})" if error else ""),
            explanation=f"ibv_modify_qp failed: {meaning}.",
            occurrences=len(events),
            actions=actions,
        )
    )


RULE = Rule(
    id="ib-connect-failed",
    title="An RDMA connection cannot be set up",
    severity="critical",
    actions=_ACTIONS,
    check=check,
    explained_by=("roce-gid-invalid", "hca-mixed-link-layers"),
)
