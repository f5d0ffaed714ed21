"""Warnings of NCCL behind which the run went on: what they tell of is no failure of it, however fatal it reads.

A port scan reaches NCCL's listener and is refused; NCCL has no memory for a buffer that it can do without; a NIC fails
and another takes over. The text is the same as where the run ends of it, so what follows decides: steps of the training
behind all that NCCL printed, or work of its process and a communicator that it destroys in order. Where anything tells
that something failed, nothing is taken for survived: what a program prints into a pipe may stand behind what it printed
later.
"""

from collections.abc import Iterable
from dataclasses import replace

from diagnostics.events import Event, quote
from diagnostics.facts import JobFacts, asked_once
from diagnostics.findings import Finding
from diagnostics.parsers.programs.restarts import RESTART

_FAILURES = (
    "abort",
    "async-error",
    "cancelled",
    "communicator-aborted",
    "communicator-fatal",
    "desync",
    "device-error",
    "failure-frame",
    "launcher-failure",
    "process-killed",
    "python-error",
    "ranks-missing",
    "run-error",
    "store-failed",
    "timeout-signal",
    "traceback",
    "watchdog-exception",
    "watchdog-stuck",
    "watchdog-timeout",
    RESTART,
)


def went_on_behind(event: Event, facts: JobFacts) -> bool:
    """Whether a warning of NCCL stands in a run of which no line tells that it failed, and that went on behind it."""
    if event.origin.level != "WARN" or _tells_failure(facts):
        return False
    return event.origin.file in facts.steps or _ends_in_order(event, facts)


@asked_once
def _tells_failure(facts: JobFacts) -> bool:
    return bool(facts.count(*_FAILURES) or facts.last_errors or facts.flight_records)


def _ends_in_order(event: Event, facts: JobFacts) -> bool:
    """Whether the process of a line goes on to work behind it, and destroys its communicator."""
    ended = (one.origin for one in facts.of("destroy") if one.origin.sequence > event.origin.sequence)
    known = event.origin.process is not None and facts.survived(event)
    return known and any(one.process == event.origin.process for one in ended)


def lower_survived(findings: Iterable[Finding], facts: JobFacts) -> list[Finding]:
    """Findings, a warning where all that they rest on are lines of NCCL behind which the run went on."""
    return [
        _lowered(finding, facts) if finding.severity == "critical" and _is_survived(finding, facts) else finding
        for finding in findings
    ]


def _is_survived(finding: Finding, facts: JobFacts) -> bool:
    if _tells_failure(facts) or not finding.evidence:
        return False
    places = {(evidence.file, evidence.line) for evidence in finding.evidence}
    kinds = {
        kind
        for kind, events in facts.events.items()
        if any((event.origin.file, event.origin.line) in places for event in events)
    }
    events = facts.of(*kinds) if kinds else []
    told = {(event.origin.file, event.origin.line) for event in events}
    return places <= told and all(went_on_behind(event, facts) for event in events)


def _lowered(finding: Finding, facts: JobFacts) -> Finding:
    step = next((facts.steps[one.file] for one in finding.evidence if one.file in facts.steps), "")
    shown = f" ({quote(step)[:120]})" if step else ""
    note = f" The run went on behind it{shown}, and no line tells that it failed."
    return replace(finding, severity="warning", blocks=False, explanation=finding.explanation.rstrip() + note)
