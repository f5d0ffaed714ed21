"""Which warning NCCL stopped at: the last one before its failure stack, or the one that PyTorch repeats as its error.

A finding that rests on such a line is what the run failed of, however little it costs elsewhere: a topology file that
cannot be read, a NIC that cannot be asked.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from diagnostics.events import Event
from diagnostics.facts import JobFacts, ProcessKey
from diagnostics.findings import Finding
from diagnostics.parsers import SIGNS
from diagnostics.rules import load_rules
from diagnostics.rules.program.run_failed import failure_lines, says_to_go_on

_Speaker = tuple[str, ProcessKey | None, int | None]  # file, process, thread
_ENDS = frozenset({"failure-frame", "run-error", "python-error"})
_DIES = " No communicator came to be after it, and no other line shows why the run failed."
MAX_LINES_BETWEEN = 60  # of other ranks, between a warning and the stack that it begins
_NO_CAUSES = frozenset(  # TCP is what was left; the warnings that it quotes are those of what kept RDMA away
    {
        "unclassified-warning",
        "log-too-quiet",
        "log-truncated",
        "run-failed",
        "peer-died",
        "watchdog-timeout",
        "tcp-fallback",
    }
)


def raise_decisive(findings: Sequence[Finding], facts: JobFacts) -> list[Finding]:
    """Findings, critical where they rest on a warning that NCCL stopped at."""
    places = {(event.origin.file, event.origin.line) for event in decisive_warnings(facts)}
    raised = [_raised(finding) if _rests_on(finding, places) else finding for finding in findings]
    return _with_broken_plugin(raised, facts)


def _with_broken_plugin(findings: list[Finding], facts: JobFacts) -> list[Finding]:
    """The findings, a broken plugin critical where no communicator came to be and nothing else explains the failure."""
    failures = [finding for finding in findings if finding.severity == "critical"]
    if facts.works or [finding.rule for finding in failures] != ["run-failed"]:
        return findings
    started = failures[0].sequence
    return [
        replace(finding, severity="critical", confidence="possible", explanation=finding.explanation + _DIES)
        if finding.rule == "net-plugin-broken" and finding.severity == "warning" and finding.sequence < started
        else finding
        for finding in findings
    ]


def decisive_warnings(facts: JobFacts) -> list[Event]:
    """The last warning of each thread whose failure stack follows, and what stands behind "Last error:"."""
    failed = failure_lines(facts)
    if not any(event.kind in _ENDS for event in failed):
        return []
    warnings = [event for kind in facts.events for event in facts.of(kind) if _is_warning(event)]
    spoken: dict[_Speaker, list[Event]] = defaultdict(list)
    for event in warnings:
        spoken[_speaker(event)].append(event)
    frames = [event for event in failed if event.kind == "failure-frame" and event.origin.process]
    found = [last for frame in frames if (last := _last_before(frame, spoken[_speaker(frame)])) is not None]
    if any(event.kind != "failure-frame" for event in failed):
        found += [event for event in warnings if _is_quoted(event)]
    return found if frames else found + _before_results(failed, warnings, facts)


def _before_results(failed: Sequence[Event], warnings: Sequence[Event], facts: JobFacts) -> list[Event]:
    """At NCCL_DEBUG=WARN, which shows no stack: the last warning before a result, if NCCL does not do without.

    A job that has worked since went on after that warning.
    """
    if facts.works or facts.of("init-complete"):
        return []
    told = [
        event
        for event in warnings
        if event.origin.process
        and not (_is_of_opening(event) or facts.is_worked_behind(event) or facts.steps_are_done_behind(event))
    ]
    results = [event for event in failed if event.kind != "failure-frame"]
    found = [last for event in results if (last := _last_before(event, _of_file(event, told))) is not None]
    return found[:1]


@cache
def _done_without() -> frozenset[str]:
    """Kinds of events that NCCL goes on after, by the rules about them."""
    return frozenset(kind for rule in load_rules() for kind in rule.done_without)


def _is_of_opening(event: Event) -> bool:
    """Whether a warning is of what NCCL does without, by a rule, or of a NIC that cannot be opened."""
    return event.kind in _done_without() or event.fields.get("call", "").startswith(("ibv_open", "ibv_query"))


def _of_file(event: Event, warnings: Sequence[Event]) -> list[Event]:
    return [one for one in warnings if one.origin.file == event.origin.file]


def _is_warning(event: Event) -> bool:
    return event.origin.level == "WARN" and event.kind not in SIGNS and not says_to_go_on(event)


def _speaker(event: Event) -> _Speaker:
    return event.origin.file, event.origin.process, event.origin.thread


def _last_before(frame: Event, warnings: Sequence[Event]) -> Event | None:
    """The last of its thread's warnings, shortly before a frame."""
    line = frame.origin.line
    before = [event for event in warnings if 0 < line - event.origin.line <= MAX_LINES_BETWEEN]
    return max(before, key=lambda event: event.origin.line, default=None)


def _is_quoted(event: Event) -> bool:
    """Whether a line without NCCL's mark gives a warning, as PyTorch does."""
    return event.origin.process is None and "CCL WARN" not in event.text


def _rests_on(finding: Finding, places: set[tuple[str, int]]) -> bool:
    if finding.rule in _NO_CAUSES or (finding.severity == "critical" and finding.blocks):
        return False
    return any((evidence.file, evidence.line) in places for evidence in finding.evidence)


def _raised(finding: Finding) -> Finding:
    if finding.severity == "critical":
        return replace(finding, blocks=True)
    note = " NCCL stopped at this line: its failure stack or its error follows from it."
    return replace(finding, severity="critical", blocks=True, explanation=finding.explanation.rstrip() + note)
