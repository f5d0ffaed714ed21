"""The libfabric plugin switched GPUDirect off.

Symptom: ``NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR`` or ``GDR disabled on GDR-supported
instance type``.

Why: the plugin found its libfabric unable to use GPU memory safely, usually because libfabric is older than the
plugin needs or the instance lacks the feature.

Not when: channels show GDRDMA. ``DMA-BUF is available on GPU device 0`` beside it is a general check and does not
contradict.

Source: aws-ofi-nccl, nccl_ofi_net.c.
"""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where the plugin says so and no channel shows the opposite."""
    events = facts.of("gdr-disabled-by-plugin")
    if not events or transport.gpu_direct(facts):
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="warning",
            summary=f"The libfabric plugin disabled GPUDirect: {events[0].fields['reason']}",
            explanation="Data is copied through host memory. The DMA-BUF line that NCCL prints at every start "
            "says what the GPU "
            "could do, not that GPUDirect is used.",
            occurrences=facts.count("gdr-disabled-by-plugin"),
        )
    )


RULE = Rule(
    id="gdr-disabled-by-plugin",
    title="The plugin disabled GPUDirect",
    severity="warning",
    actions=("ofi-gdr",),
    check=check,
    slow=True,
)
