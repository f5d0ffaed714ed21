"""The process may not open more files.

Symptom: ``Too many open files`` while NCCL opens sockets.

Why: each peer and channel needs file descriptors; large jobs exceed a limit of 1024.

Not when: the text comes from another program.

Source: NCCL user guide, troubleshooting.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import Outcome, Rule, answer, warned


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL was refused a descriptor."""
    return answer(
        facts,
        warned(facts, "files-exhausted"),
        severity="critical",
        summary="The limit of open files is too low for the number of ranks",
        explanation="NCCL opens several sockets for each peer. The limit of the rank's own process counts.",
    )


RULE = Rule(
    id="file-limit",
    title="The limit of open files is too low",
    severity="critical",
    actions=("raise-nofile",),
    check=check,
)
