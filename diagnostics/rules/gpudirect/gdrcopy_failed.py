"""GDRCopy was asked for and does not work.

Symptom: ``gdr_pin_buffer(addr 7f3c00, size 65536) failed: 22``; ``GDRCOPY lib wrapper not initialized.``

Why: NCCL_GDRCOPY_ENABLE=1 makes NCCL write to GPU memory through GDRCopy, whose kernel module (gdrdrv) is not loaded,
not given to the container, or of another release than its library.

Not when: the process goes on to work; GPUDirect RDMA is meant, which has nothing to do with GDRCopy.

Source: NCCL's gdrwrap.cc.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where a call of GDRCopy failed for good."""
    events = stopped_at(facts, "gdrcopy-failed")
    return answer(
        facts,
        events,
        severity="critical",
        summary=f"GDRCopy does not work: {events[0].fields['text'][:140] if events else ''}",
        explanation="NCCL_GDRCOPY_ENABLE=1 asks for it. It is not GPUDirect RDMA, and NCCL works without it.",
    )


RULE = Rule(
    id="gdrcopy-failed",
    title="GDRCopy does not work",
    severity="critical",
    actions=("without-gdrcopy",),
    check=check,
)
