"""The log is not complete.

Symptom: ranks are missing, the file ends in the middle of a start or of a table of nccl-tests, or it could not be read
to its end.

Why: a slice was given, the writer was killed, several processes wrote over each other's file, or a log collector
dropped lines.

Not when: every rank that is named both started and completed.

Source: field knowledge.
"""

from diagnostics.facts import Communicator, JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, OMITTED, Outcome, Rule, conclude, found, listed, unsure


def check(facts: JobFacts) -> Outcome:
    """Found where ranks of the world are missing, or communicators only start."""
    world = facts.world
    if facts.notes:
        return found(_conclude(facts, f"Not everything could be read: {facts.notes[0][:160]}"))
    if unfinished := _unfinished(facts):
        return found(_conclude(facts, unfinished))
    if world is None or world.nranks == 1:
        return CLEAR
    return _of_world(facts, world)


def _of_world(facts: JobFacts, world: Communicator) -> Outcome:
    """Ranks of the world that are missing, or that start and do not complete."""
    if facts.starts_omitted:
        return unsure(OMITTED)
    missing = [rank for rank in range(min(world.nranks, 100_000)) if rank not in world.members]
    if missing:
        return found(_conclude(facts, f"{len(missing)} of {world.nranks} ranks are not in the log: {listed(missing)}"))
    started = [member for member in world.members.values() if member.started and not member.completed]
    if started:
        return found(
            _conclude(facts, f"{len(started)} of {world.nranks} ranks start a communicator and do not complete it")
        )
    return CLEAR


def _unfinished(facts: JobFacts) -> str:
    """A table of nccl-tests without a row, or ranks that connect and no communicator came to be; else empty."""
    if facts.count("tests-range") > facts.count("tests-ended", "work-done") and not facts.steps:
        return "nccl-tests lists what it measures, and no row of its table is there"
    if facts.world is None and facts.count("channel") and not (facts.works or facts.steps):
        return "Ranks connect, and no line shows a communicator that came to be"
    return ""


def _conclude(facts: JobFacts, summary: str) -> Finding:
    events = [] if facts.notes else facts.of("init-start", "init-complete", "comm-nodes", "tests-range", "channel")[:1]
    return conclude(
        facts,
        events,
        severity="info",
        confidence="likely",
        summary=summary,
        explanation="What is not there cannot be judged: it hangs there, or was cut. One file for each rank avoids "
        "lost and overwritten lines.",
    )


RULE = Rule(
    id="log-truncated",
    title="The log is not complete",
    severity="info",
    actions=("whole-log",),
    check=check,
)
