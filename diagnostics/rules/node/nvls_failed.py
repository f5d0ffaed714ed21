"""NVLink multicast (NVLS) or multi-node NVLink cannot be set up.

Symptom: ``Failed to bind NVLink SHARP (NVLS) Multicast memory``, a CUDA failure reported from ``transport/nvls.cc``,
``MNNVL ... is available but not working on this system``; a failure stack without its warning that begins at
``transport/nvls.cc:152 -> 1``.

Why: the Fabric Manager does not run or does not fit the driver, the partition lacks multicast, or IMEX is not set up.

Not when: ``NVLS multicast support is not available``, which is normal below Hopper and without NVSwitch; NCCL goes on
without it: info.

Source: NCCL's nvls.cc and mnnvl.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.stacks import lone_stacks
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_NEXT_LINES = (1, 2)  # a warning has an empty line before it


def check(facts: JobFacts) -> Outcome:
    """Found where binding or checking failed."""
    events = facts.of("nvls-failed") + failures_of_multicast(facts)
    stacks = [stack[0] for stack in lone_stacks(facts) if _is_call_of_multicast(stack[0])]
    events += stacks
    if not events:
        return CLEAR
    events.sort(key=lambda event: event.origin.sequence)
    fatal = bool(stacks) or any(event.origin.level != "INFO" and "proceeds" not in event.fields for event in events)
    return found(
        conclude(
            facts,
            events,
            severity="critical" if fatal else "info",
            confidence="likely",
            summary="NVLink multicast cannot be set up" + ("" if fatal else "; NCCL goes on without it"),
            explanation=(
                "Fabric Manager (inside a machine) or IMEX (between machines) has to prepare NVLink multicast memory."
            ),
            occurrences=facts.count("nvls-failed") + len(stacks),
        )
    )


def _is_call_of_multicast(event: Event) -> bool:
    """Whether the innermost line of a stack tells of a failed CUDA call in nvls.cc."""
    return event.fields["unit"] == "nvls" and event.fields["code"] == "1"


def failures_of_multicast(facts: JobFacts) -> list[Event]:
    """CUDA failures met while multicast memory was set up: the line names nvls.cc, or what failed of it comes next."""
    told = {(event.origin.process, event.origin.line) for event in facts.of("nvls-failed")}
    return [
        event
        for event in facts.of("cuda-failure")
        if event.origin.level != "INFO"
        and (
            "transport/nvls.cc" in event.text
            or any((event.origin.process, event.origin.line + ahead) in told for ahead in _NEXT_LINES)
        )
    ]


RULE = Rule(
    id="nvls-failed",
    title="NVLink multicast cannot be set up",
    severity="critical where fatal, else info",
    actions=("check-fabric-manager",),
    check=check,
)
