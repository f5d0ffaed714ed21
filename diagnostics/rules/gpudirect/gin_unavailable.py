"""Communication that the GPU starts itself (GIN), or one-sided communication, was asked for and is not there.

Symptom: ``No GIN-capable devices found.``; ``Unable to use GIN: Peermem is not supported, and device 0 does not support
DMA-BUF.``; ``One sided RMA: host RMA is not supported in this communicator.``; ``DOCA Error 5``.

Why: kernels of the program (DeepEP and other expert-parallel libraries, NCCL's device API) send by themselves. That
takes NICs whose driver and firmware allow it, GPU memory that they can register, and a network plugin that offers it.

Not when: NCCL looks for it at INFO and does without.

Source: NCCL's gin_host.cc, dev_runtime.cc, net_ib/gin.cc; user guide, device-initiated communication.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, stopped_at

_MEMORY = "DMA-BUF"


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL refuses what the program asked for."""
    events = stopped_at(facts, "gin-unavailable")
    text = events[0].fields["text"] if events else ""
    by_memory = _MEMORY in text or "DMABUF" in text
    return answer(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"Communication that the GPU starts itself is not available: {text[:140]}",
        explanation="The NIC cannot register GPU memory: neither nvidia-peermem nor DMA-BUF is there."
        if by_memory
        else "The NICs, their driver, the network plugin or the settings do not offer what the program asks NCCL for.",
    )


RULE = Rule(
    id="gin-unavailable",
    title="Communication that the GPU starts is not available",
    severity="critical",
    actions=("enable-gin", "load-peer-memory", "show-gdr"),
    check=check,
)
