"""The RDMA connection between two ranks cannot be set up.

Symptom: ``Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1 ...``, in older releases
``failed with error Network is unreachable``; the same for ibv_set_ece, ibv_create_qp and what else a connection
takes; NVSHMEM's ``Error in mlx5dv_devx_obj_modify for INIT2RTR_QP``.

Why, by errno: 19 (no such device): the interface that owns the local GID is gone or lies in another network namespace.
22 (invalid): address, RoCE version or link layer of the two sides do not fit. 61: the row of the GID table is empty.
101: no route from the local GID to the peer's. 110: the peer's RoCE address does not answer, for example across rails
without routing, or in another VLAN. 113: the route exists, and nobody answers for the address there. 12: no memory.
The other calls prepare the connection on this side; there the NIC's driver or firmware refuses what NCCL asks for.

Not when: NCCL retries it (INFO) and goes on; memory is the cause (memlock-limit); the call belongs to the start
(ibv_query_port, ibv_open_device) or to the end (ibv_destroy_qp).

Source: NCCL's ibvwrap.cc; errno of ibv_modify_qp as the kernel's address resolution (ib_addr) sets it.
"""

from collections.abc import Mapping

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.rdma.verbs import device_names, failed_calls, is_bare_queue, is_out_of_memory, verbs_error

_ACTIONS = ("measure-link", "fix-gid", "select-adapters", "check-fabric")
_MEANING = {
    "ENOMEM": ("the NIC or its driver has no memory for the connection", ("check-fabric", "memlock")),
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
_OWN_SIDE = ("check-fabric", "select-adapters")
_PREPARING: Mapping[str, tuple[str, tuple[str, ...]]] = {  # calls of this side, before or between those of modify_qp
    "ibv_query_ece": ("the NIC or its driver refuses the options of the connection (ECE)", _OWN_SIDE),
    "ibv_set_ece": (
        "the NIC or its driver refuses the options agreed with the peer (ECE); NCCL_IB_ECE_ENABLE=0 does without them",
        _OWN_SIDE,
    ),
    "ibv_query_gid": ("the row of the GID table cannot be read", ("fix-gid",)),
    "ibv_create_qp": ("the NIC or its driver refuses the queue pair", _OWN_SIDE),
    "ibv_create_cq": ("the NIC or its driver refuses the completion queue", _OWN_SIDE),
    "ibv_query_qp": ("the queue pair cannot be read", _OWN_SIDE),
    "ibv_alloc_pd": ("the NIC or its driver refuses the protection domain", _OWN_SIDE),
    "mlx5dv_devx_obj_create": ("the NIC's firmware refuses the object (a queue pair, most likely)", _OWN_SIDE),
    "mlx5dv_create_qp": ("the NIC or its driver refuses the queue pair", _OWN_SIDE),
    "ibv_post_send": ("the connection was there, and the NIC or its driver takes no more work", _OWN_SIDE),
    "ibv_post_recv": ("the connection was there, and the NIC or its driver takes no more work", _OWN_SIDE),
    "ibv_poll_cq": ("the connection was there, and its completions cannot be read any more", _OWN_SIDE),
    **dict.fromkeys(
        (
            "mlx5dv_devx_obj_modify",
            "ibgda_rc_init2rtr",
            "ibgda_dci_init2rtr",
            "ibgda_qp_rst2init",
            "ibgda_qp_rtr2rts",
        ),
        (
            "the NIC's firmware refuses the next state of the queue pair: mostly a GID or an address that does not fit",
            ("fix-gid", *_OWN_SIDE),
        ),
    ),
    "ibv_create_comp_channel": ("the NIC or its driver refuses the channel of completion events", _OWN_SIDE),
    "ibv_req_notify_cq": ("the NIC or its driver refuses to notify of completions", _OWN_SIDE),
    "ibv_create_ah": ("the NIC or its driver refuses the address of the peer", ("fix-gid", *_OWN_SIDE)),
}


def check(facts: JobFacts) -> Outcome:
    """Found where setting up or connecting a queue pair failed for good."""
    events = failed_calls(facts, "modify_qp")
    preparing = failed_calls(facts, *(call.partition("_")[2] for call in _PREPARING))
    events = events or [event for event in preparing if _prepares(event, facts)]
    if not events:
        return CLEAR
    call = events[0].fields["call"]
    error = next((said for said in map(verbs_error, events) if said is not None), None)
    meaning, actions = _PREPARING.get(call) or _MEANING.get(
        error.name if error else "", ("the error text names the reason", _ACTIONS)
    )
    if (
        call == "ibv_modify_qp" and transport.link_layer(facts) == "ib"
    ):  # InfiniBand has neither routes nor rows to choose
        actions = ("measure-link", "select-adapters", "check-fabric")
    devices = device_names(events)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely" if "may be unrelated" in events[0].text else "certain",
            summary=f"An RDMA connection cannot be set up{' on ' + ', '.join(devices[:4]) if devices else ''}"
            + (f" ({error})" if error else ""),
            explanation=f"{call} failed: {meaning}.",
            occurrences=len(events),
            actions=actions,
        )
    )


def _prepares(event: Event, facts: JobFacts) -> bool:
    """Whether a call that prepares a connection failed for good, and not for want of memory to lock."""
    pins = event.fields["call"] in ("ibv_create_qp", "ibv_create_cq", "ibv_alloc_pd")
    return not (facts.went_on(event) or is_bare_queue(event) or (pins and is_out_of_memory(event)))


RULE = Rule(
    id="ib-connect-failed",
    title="An RDMA connection cannot be set up",
    severity="critical",
    actions=_ACTIONS,
    check=check,
    explained_by=("roce-gid-invalid", "hca-mixed-link-layers"),
)
