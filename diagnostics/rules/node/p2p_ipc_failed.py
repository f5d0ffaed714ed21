"""GPU memory cannot be shared between processes.

Symptom: ``failed to open CUDA IPC handle``, ``cudaIpcGetMemHandle failed``, ``cuMemImportFromShareableHandle
failed``, the same of HIP; ``UDS: Sending data over socket ... failed``; ``Cuda failure 'peer access is not supported
between these two devices'`` in a warning of NCCL.

Why: the ranks run in containers without a common IPC or process namespace, or the allocation cannot be exported.

Not when: the attempt is printed at INFO and another way is taken.

Source: NCCL's p2p.cc.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, warned


def check(facts: JobFacts) -> Outcome:
    """Found where an IPC call failed at warning level."""
    events = warned(facts, "ipc-failed")
    call = next((event.fields["call"] for event in events if "call" in event.fields), "IPC")
    call = "a Unix socket, by which ranks hand it over" if call == "UDS" else call
    return answer(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"GPU memory cannot be shared between ranks of a machine ({call})",
        explanation="The ranks are probably in containers without a common IPC and process namespace.",
    )


RULE = Rule(
    id="p2p-ipc-failed",
    title="GPU memory cannot be shared between processes",
    severity="critical",
    actions=("share-ipc", "enable-p2p"),
    check=check,
)
