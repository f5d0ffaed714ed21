"""The finding that carries the reason of a verdict ``unknown``, first: made where no rule found it.

A log that leaves the question open may hold remarks on its network, its plugins, its host. What keeps it open stands
before them: a start that no line shows to be complete, ranks that are not in the log, a network that no line names, an
error at the end that no rule knows. Behind them it stands where a line tells for certain of a slower path (GPUDirect
RDMA, SHARP, NICs that are not used), and in a log that does not show a start at all: nothing was begun that could hang.
"""

from collections.abc import Sequence

from diagnostics.events import Event, Origin, quote
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding, Verdict
from diagnostics.judging.verdict import Question
from diagnostics.rules import RULES, rule_named
from diagnostics.rules.base import conclude
from diagnostics.rules.program.run_failed import AT_THE_END

_ABOUT_THE_LOG = ("log-truncated", "log-too-quiet")
_SLOWER = frozenset(rule for rule, folder in RULES.items() if folder == "gpudirect") | {
    "sharp-unavailable",
    "nic-count-mismatch",
    "net-plugin-provider-tcp",
}
_BEGUN = ("init-start", "init-complete", "comm-nodes", "channel", "tests-range", "store-left", "connect-retry", "retry")
_OF_STARTS = ("init-start", "init-complete", "comm-nodes", "tests-range", "channel", "network", "version")
_OF_VERSION = ("version", "init-options", "network")
_EXPLANATIONS = {
    "log-truncated": "What is not there cannot be judged: it hangs there, or was cut. One file for each rank avoids "
    "lost and overwritten lines.",
    "log-too-quiet": "A missing line proves nothing. It would show with NCCL_DEBUG=INFO on every rank.",
    "run-failed": "No rule knows this error, and nothing behind it shows that the job works. Look for what the rank "
    "that failed first printed before it, and give the whole output of every rank.",
}


def with_reason_first(
    findings: Sequence[Finding], verdict: Verdict, question: Question | None, facts: JobFacts
) -> list[Finding]:
    """The findings, the one that carries the reason of an open question first; as they are with another verdict."""
    if verdict != "unknown" or question is None or not facts.lines_read:
        return list(findings)
    if question.rule == "log-too-quiet" and not findings and (hinted := _hinted(facts)):
        question = Question(hinted, "run-failed")
    wanted = ("unclassified-warning", question.rule) if question.rule in _ABOUT_THE_LOG else (question.rule,)
    by_rule = {one.rule: one for one in findings}
    known = next((by_rule[rule] for rule in wanted if rule in by_rule), None)
    reason = known if known is not None else _made(question, facts)
    others = [one for one in findings if one is not known]
    if question.rule not in _ABOUT_THE_LOG:
        return [reason, *others]
    before = [one for one in others if one.rule in _SLOWER] if _is_begun(question, facts) else others
    return [*before, reason, *(one for one in others if one not in before)]


def _hinted(facts: JobFacts) -> str:
    """What the end of an excerpt without a line of NCCL tells of a failure, in words that no rule knows."""
    lines = [one.text for file, told in facts.last_hints.items() if file not in facts.steps for one in told]
    return f"the last lines may tell of a failure: {' | '.join(quote(line)[:160] for line in lines)}" if lines else ""


def _is_begun(question: Question, facts: JobFacts) -> bool:
    """Whether the log shows something that hangs, was cut, or is of a network that no line names."""
    return question.rule == "log-too-quiet" or bool(facts.notes or facts.of(*_BEGUN))


def _made(question: Question, facts: JobFacts) -> Finding:
    said = question.told.split(". ")[0].removesuffix(".")
    kinds = _OF_STARTS if question.rule == "log-truncated" else _OF_VERSION
    events = _at_the_end(facts, question) if question.rule == "run-failed" else facts.of(*kinds)[:1]
    return conclude(
        facts,
        events,
        severity="info",
        confidence="likely",
        rule=question.rule,
        actions=rule_named(question.rule).actions,
        summary=_as_sentence(said)[:240],
        explanation=_EXPLANATIONS[question.rule],
    )


def _as_sentence(said: str) -> str:
    """With a capital letter, unless it begins with the name of a file."""
    return (
        said
        if "." in said.split(" ", maxsplit=1)[0] or "/" in said.split(" ", maxsplit=1)[0]
        else said[:1].upper() + said[1:]
    )


def _at_the_end(facts: JobFacts, question: Question) -> list[Event]:
    """The traceback or the last errors that the question is about, as events."""
    if question.event is not None:
        return [question.event]
    return [
        Event("last-error", Origin(file, facts.last_lines.get(file, 0) - line.behind, AT_THE_END), line.text, {})
        for file, lines in (facts.last_errors or facts.last_hints).items()
        if file not in facts.steps
        for line in lines
    ]
