"""What a rule is, and what it can answer."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from diagnostics.events import Event, times
from diagnostics.facts import JobFacts
from diagnostics.finding_rule import FindingRule
from diagnostics.findings import Confidence, Evidence, Finding, Recommendation, Severity
from diagnostics.judging.recommendations import recommend

MAX_EVIDENCE = 4
MAX_NAMED = 64
OMITTED = (
    "the log does not hold every start and completion: Ray leaves out lines that repeat (RAY_DEDUP_LOGS=0 keeps "
    "them), or there are more than are followed one by one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Findings, or the reason why the log does not answer. With neither, the rule is clear."""

    findings: tuple[Finding, ...] = ()
    cannot_tell: str | None = None


CLEAR = Outcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(FindingRule):
    """One question about the facts. Its page is the docstring of its module.

    ``in_runs``: how the figures of a run show the same without any log, where they do; ``run_actions`` are then what to
    try. Such a finding is made by whoever measured it, with this rule.

    ``consequence``: what the rule reports follows from another fault wherever one is known. ``fold``: it is then
    listed under that fault instead of standing alone; ``lower``: it stays, at info, because it tells more than that.
    ``after``: as ``lower``, below consequences too. ``last``: it is listed under any other finding of a failure.
    ``victim_of`` names rules whose fault ends a rank and is never a consequence of this one: they stand above it,
    unless the log shows by its times, or by the lines of one rank, that this one was first.
    ``done_without``: kinds of events that NCCL goes on after, even as a warning: a later failure has another cause.
    ``slow``: it is about a slower path, which is never the cause of a failure, unless a finding of it says that the
    run stops there. ``explained_by`` names rules that say more about the same lines: with one of them, this finding is
    a victim.
    """

    actions: tuple[str, ...]
    check: Callable[[JobFacts], Outcome]
    consequence: Literal["", "fold", "lower", "after", "last"] = ""
    explained_by: tuple[str, ...] = ()
    victim_of: tuple[str, ...] = ()
    slow: bool = False
    done_without: tuple[str, ...] = ()
    in_runs: str = ""
    run_actions: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """Symptom, reason, limits and source, for a reader who has never seen NCCL."""
        page = (sys.modules[self.check.__module__].__doc__ or "").strip()
        return f"{page}\n\nIn a run: {self.in_runs}" if self.in_runs else page

    @property
    def advice(self) -> tuple[Recommendation, ...]:
        """What to do where nothing is known of the surroundings."""
        return recommend((*self.actions, *self.run_actions), frozenset())

    def run_advice(self) -> tuple[Recommendation, ...]:
        """What to do where the figures of a run show it."""
        return tuple(replace(one, link=one.link or None) for one in recommend(self.run_actions, frozenset()))


def found(*findings: Finding) -> Outcome:
    """An answer with findings."""
    return Outcome(findings=findings)


def unsure(why: str) -> Outcome:
    """An answer that the log cannot give; ``why`` names the setting that would show it."""
    return Outcome(cannot_tell=why)


def conclude(
    facts: JobFacts,
    events: Sequence[Event],
    *,
    severity: Severity,
    summary: str,
    explanation: str,
    confidence: Confidence = "certain",
    occurrences: int | None = None,
    actions: tuple[str, ...] = (),
    hosts: Iterable[str] | None = None,
    blocks: bool = False,
    own: bool = False,
    sequence: int | None = None,
    rule: str = "",
) -> Finding:
    """A finding that rests on these events; its rule and its standing actions are filled in by the engine."""
    named = {event.origin.host for event in events if event.origin.host} if hosts is None else set(hosts)
    return Finding(
        rule=rule,
        severity=severity,
        confidence=confidence,
        summary=summary,
        explanation=explanation,
        evidence=evidence_of(events),
        ranks=facts.ranks_of(events)[:MAX_NAMED],
        hosts=tuple(sorted(named))[:MAX_NAMED],
        occurrences=counted(events) if occurrences is None else occurrences,
        sequence=min((event.origin.sequence for event in events), default=0) if sequence is None else sequence,
        actions=actions,
        blocks=blocks,
        own=own,
    )


def counted(events: Iterable[Event]) -> int:
    """How many lines say so, with those that Ray left out."""
    return sum(map(times, events))


def warned(facts: JobFacts, kind: str) -> list[Event]:
    """Events of a kind that NCCL printed as warnings; at INFO the same text is an attempt that it does without."""
    return [event for event in facts.of(kind) if event.origin.level != "INFO"]


def stopped_at(facts: JobFacts, *kinds: str) -> list[Event]:
    """Warnings of these kinds behind which their process did not go on to work."""
    return [event for kind in kinds for event in warned(facts, kind) if not facts.survived(event)]


def answer(
    facts: JobFacts,
    events: Sequence[Event],
    *,
    severity: Severity,
    summary: str,
    explanation: str,
    confidence: Confidence = "certain",
) -> Outcome:
    """A finding that rests on events of one kind, all of which count; clear without any."""
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity=severity,
            confidence=confidence,
            summary=summary,
            explanation=explanation,
            occurrences=facts.count(events[0].kind),
        )
    )


def evidence_of(events: Sequence[Event], limit: int = MAX_EVIDENCE) -> tuple[Evidence, ...]:
    """The first lines, at most one a host before a second of any, in reading order."""
    seen: set[str | None] = set()
    fresh: list[Event] = []
    again: list[Event] = []
    for event in events:
        (again if event.origin.host in seen else fresh).append(event)
        seen.add(event.origin.host)
    chosen = sorted((fresh + again)[:limit], key=lambda event: event.origin.sequence)
    unique = dict.fromkeys((event.origin.file, event.origin.line, event.text) for event in chosen)
    return tuple(Evidence(file=file, line=line, text=text) for file, line, text in unique)


def by_nodes(facts: JobFacts, *, on_one: str) -> str:
    """A sentence on what depends on the number of nodes: what holds on one node, or that the log does not show it."""
    if facts.multi_node is None:
        return (
            " The log does not show how many nodes the job has; NCCL 2.20 and newer print nNodes at NCCL_DEBUG=INFO. "
            f"On one node {on_one}."
        )
    return "" if facts.multi_node else f" The job has one node, where {on_one}."


def plural(count: int, noun: str) -> str:
    """``1 rank``, ``8 ranks``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Iterable[object], limit: int = 8) -> str:
    """``a, b, c and 5 more``."""
    texts = [str(name) for name in names]
    rest = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {rest} more" if rest > 0 else "")
