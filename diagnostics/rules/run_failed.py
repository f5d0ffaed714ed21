"""The run failed, and no line shows why.

Symptom: NCCL's failure stack (``init.cc:1089 -> 6``), a result such as ``unhandled system error`` or
``internal error``, ``Test NCCL failure``, a warning that says what failed and is the last that its process does, a
launcher that reports an exit code, a process that was killed.

Why: these lines say that something failed, not what. The cause stands before them, often in the output of another rank,
or needs a higher NCCL_DEBUG.

Not when: another finding explains the failure (the lines are then listed under it); the process goes on to work after
them: NCCL also tries what it can do without, such as SHARP.

Source: NCCL's checks.h and debug.cc; nccl-tests' common.h.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_RESULTS = {
    "1": "a CUDA call failed",
    "2": "a system call failed",
    "3": "an internal error",
    "4": "an invalid argument",
    "5": "an invalid usage",
    "6": "a peer ended, or the network failed",
    "8": "time ran out",
}
# what NCCL warns about and goes on, read in the sources of 2.10 to 2.30: the word that says so
_GOES_ON = (
    r"(?i)ignor|\bsetting\b|, set (?:it|both)|cap it|limiting|disabl|fall(?:ing|s)? ?back|skipp|continue|proceeding|"
    r"using .* instead|unsetting|deregister|^warning|currently only supports|repress|recommend|you may|can lead to|"
    r"unlink shared|proxyDestroy|shm close|close failed|commReclaim|commDestroySync|ncclProxyStop|real path|"
    r"\[Service thread\]|Attempting to dequeue|CUDA Driver version found|(?:maximum|minimum|multiple of) -?\d|retry"
)
_FAILS = (
    r"(?i)fail|error|invalid|unable|cannot|can't|could not|mismatch|not supported|unsupported|timed? ?out|refused|"
    r"denied|abort|corrupt|exceed|too (?:large|many|small)|not found|no \w+ found|missing|unexpected|wrong|lost"
)
_TOLD = ("run-error", "failure-frame", "async-error", "communicator-fatal", "plugin-none")


def check(facts: JobFacts) -> Outcome:
    """Found where a line says that the run failed, and the process does not go on."""
    events = failure_lines(facts)
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events[:4],
            severity="critical",
            confidence="certain" if any(event.kind != "unclassified-warning" for event in events) else "likely",
            summary=f"The run failed: {_said(events)}",
            explanation="The log does not show why. The first of these lines is the nearest to the cause; look for "
            "what the rank that failed first printed before it, and give the whole output of every rank.",
            occurrences=len(events),
        )
    )


def failure_lines(facts: JobFacts) -> list[Event]:
    """What says that the run failed, the most telling first: warnings no rule knows, results, stacks, exit codes."""
    warned = [event for event in facts.of("unclassified-warning") if says_failure(event)]
    told = [event for event in (*warned, *facts.of(*_TOLD)) if not facts.survived(event)]
    told.sort(key=lambda event: (event.kind != "unclassified-warning", event.origin.sequence))
    return told + facts.of("launcher-failure", "process-killed", "communicator-aborted")


def says_failure(event: Event) -> bool:
    """Whether a warning that no rule knows says that something failed, and not that NCCL goes on."""
    text = event.fields["text"]
    return bool(compiled(_FAILS).search(text)) and not compiled(_GOES_ON).search(text)


def _said(events: list[Event]) -> str:
    """What the decisive line says: a warning before a result, a result before a stack."""
    texts = [event.fields["text"] for event in events if event.fields.get("text")]
    code = next((event.fields["code"] for event in events if "code" in event.fields), "")
    signal = next((event.fields["signal"] for event in events if "signal" in event.fields), "")
    return (texts[0] if texts else _RESULTS.get(code, "") or (f"a process was ended by {signal}" if signal else ""))[
        :160
    ]


RULE = Rule(
    id="run-failed",
    title="The run failed, and the log does not show why",
    severity="critical",
    actions=("look-at-rank", "whole-log", "show-network"),
    check=check,
    consequence="last",
)
