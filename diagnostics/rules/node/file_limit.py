"""The process may not open more files.

Symptom: ``Too many open files`` while NCCL opens sockets (24: the limit of the process; 23: of the machine), PyTorch
shares tensors with the workers of a data loader, or any other library says it.

Why: each peer and channel needs file descriptors; large jobs exceed a limit of 1024.

Not when: the text comes from a program that goes on to work.

Source: NCCL user guide, troubleshooting.
"""

from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import named_error
from diagnostics.rules.base import Outcome, Rule, answer, warned


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL was refused a descriptor."""
    events = [event for event in warned(facts, "files-exhausted") if event.origin.process or not facts.survived(event)]
    error = named_error(events[0].fields["reason"]) if events else None
    whole = error is not None and error.name == "ENFILE"
    return answer(
        facts,
        events,
        severity="critical",
        summary=f"The {'machine has' if whole else 'process may have'} no more open files ({error}): "
        "the limit is too low for the number of ranks",
        explanation="NCCL and MPI open sockets for each peer. "
        + (
            "The limit of the machine counts (fs.file-max)." if whole else "The limit of the rank's own process counts."
        ),
    )


RULE = Rule(
    id="file-limit",
    title="The limit of open files is too low",
    severity="critical",
    actions=("raise-nofile",),
    check=check,
)
