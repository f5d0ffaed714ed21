"""A NIC was refused access to memory.

Symptom: ``Got completion ... with error 4`` (local protection), 10 (remote access) or 11 (remote operation); UCX's
``Local protection error on mlx5_0:1/RoCE``, other libraries' ``remote access error``.

Why: the registration of GPU memory is not valid on the bus: peer memory module and driver do not fit, ACS or an IOMMU
redirects peer-to-peer traffic, ATS is off in a virtual machine, or a buffer was freed while in use.

Not when: status 5 alone, which follows from another error; another library than NCCL prints it, and the job goes on.

Source: InfiniBand specification, completion status; NCCL user guide, troubleshooting.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.rdma.verbs import completion_status, completions, device_names, peer_names

_NAMES = {
    1: "length error",
    4: "local protection error",
    9: "invalid request",
    10: "remote access error",
    11: "remote operation error",
}


def check(facts: JobFacts) -> Outcome:
    """Found where a completion has status 1, 4, 9, 10 or 11."""
    events = [event for event in completions(facts) if completion_status(event) in _NAMES]
    if not events:
        return CLEAR
    status = completion_status(events[0]) or 0
    peers, devices = peer_names(facts, events), device_names(events)
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=f"RDMA {_NAMES[status]} (status {status})"
            + (f" with {', '.join(peers[:4])}" if peers else "")
            + (f" on {', '.join(devices[:4])}" if devices else ""),
            explanation="The NIC may not use the memory it was given. With GPUDirect RDMA the usual "
            "reasons are the peer "
            "memory module, ACS, IOMMU or ATS; NCCL_NET_GDR_LEVEL=LOC shows whether GPUDirect is involved.",
            occurrences=len(events),
        )
    )


RULE = Rule(
    id="ib-protection-error",
    title="A NIC was refused access to memory",
    severity="critical",
    actions=("check-acs", "load-peer-memory", "use-dmabuf"),
    check=check,
)
