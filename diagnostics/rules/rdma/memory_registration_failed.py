"""Memory cannot be registered with the NIC.

Symptom: ``Call to ibv_reg_mr failed with error Bad address`` (14), ``ibv_reg_dmabuf_mr failed with error Operation not
supported`` (95).

Why: the NIC's driver does not accept this memory: the peer memory module is missing or does not fit the driver,
the memory is of the virtual kind (cuMem) that the module cannot map, or DMA-BUF is not supported.

Not when: the error is "Cannot allocate memory" (memlock-limit); the attempt is a probe printed at INFO.

Source: NCCL's ibvwrap.cc; kernel documentation of peer memory.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found
from diagnostics.rules.rdma.verbs import failed_calls, is_out_of_memory, verbs_error

_MEANING = {
    "EFAULT": "The driver cannot map this memory, mostly GPU memory without a peer memory module that fits.",
    "EINVAL": "The driver refuses this kind of memory or its size.",
    "EOPNOTSUPP": "The driver does not support registering memory this way (DMA-BUF).",
    "ENOSYS": "The kernel does not support registering memory this way.",
    "EPERM": "The process lacks the right to pin memory (IPC_LOCK).",
}


def check(facts: JobFacts) -> Outcome:
    """Found where a registration failed for another reason than ENOMEM."""
    events = [event for event in failed_calls(facts, "reg_") if not is_out_of_memory(event)]
    if not events:
        return CLEAR
    error = verbs_error(events[0])
    reason = str(error) if error else events[0].fields.get("reason", "no reason printed").strip()
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=f"Memory cannot be registered with the RDMA NIC: {reason}",
            explanation=(f"{_MEANING[error.name]} " if error and error.name in _MEANING else "")
            + "GPU memory is usually meant: the peer memory module is missing or does not fit the driver, or the "
            "memory is of a kind that it cannot map. NCCL_NET_GDR_LEVEL=LOC or NCCL_CUMEM_ENABLE=0 tell these apart.",
            occurrences=len(events),
        )
    )


RULE = Rule(
    id="memory-registration-failed",
    title="Memory cannot be registered",
    severity="critical",
    actions=("load-peer-memory", "use-dmabuf", "check-acs"),
    check=check,
)
