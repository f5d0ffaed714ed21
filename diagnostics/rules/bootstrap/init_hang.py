"""A communicator was started and never completed.

Symptom: ``Init START`` without ``Init COMPLETE``, and then a time-out, endless attempts to connect, a job that is
cancelled, other ranks that complete and give the communicator up, or nothing more; ``7/8 clients joined``;
``Waiting in store based barrier ... (world_size=8, worker_count=7)`` as the last word. Before 2.22
a rank that waits for the others has not printed ``Init START`` yet: its last line names its network.

Why: a rank never came (crashed, not started, other world size), hangs on its host, or cannot be reached over the
bootstrap network.

Not when: the log merely ends there: a log that is cut looks the same. Without a sign that time passed, it counts where
at least half of the ranks, and every process that speaks, stand at their start and none went further. Where some ranks
are complete, it needs such a sign, or that they destroyed or aborted the communicator, and the others never worked.

Source: NCCL's init.cc (START lines since 2.18.3).
"""

from collections.abc import Sequence

from diagnostics.events import Event
from diagnostics.facts import Communicator, JobFacts, Member
from diagnostics.findings import Finding
from diagnostics.judging.lagging import standing
from diagnostics.rules.base import CLEAR, OMITTED, Outcome, Rule, conclude, found, listed, unsure
from diagnostics.rules.bootstrap.connecting import STARTS_FIRST, unanswered
from diagnostics.rules.program.run_failed import failure_lines

_WAITS = 2  # lines of one rank, 10 s apart: a rank that loads slowly is awaited once
_SIGNS = (
    "watchdog-timeout",
    "watchdog-stuck",
    "store-failed",
    "ranks-missing",
    "process-killed",
    "communicator-aborted",
    "cancelled",
)


def check(facts: JobFacts) -> Outcome:
    """Found where ranks started and none completed, and the log shows that time ran out, or that all stand there."""
    if counted := _counted(facts):
        return found(counted)
    hanging = [communicator for communicator in facts.communicators if _hangs(communicator)]
    if not hanging:
        return _hung_in_part(facts) if facts.communicators else _hung_before_start(facts)
    if facts.starts_omitted:
        return unsure(OMITTED)
    communicator = max(hanging, key=lambda one: one.nranks)
    signs = facts.of(*_SIGNS) or unanswered(facts)
    if not signs and failure_lines(facts):
        return CLEAR
    if not signs and not _all_stand(communicator, facts):
        return _left_open(communicator, facts)
    absent = [rank for rank in range(min(communicator.nranks, 100_000)) if rank not in communicator.members]
    waiting = [member for member in communicator.members.values() if member.started and not member.completed]
    starts = [member.event for member in waiting if member.event is not None]
    return found(
        conclude(
            facts,
            [*starts[:3], *signs[:1]],
            severity="critical",
            confidence="likely" if signs else "possible",
            summary=f"Initialisation hung: {len(waiting)} of {communicator.nranks} ranks started and none completed"
            + (f"; ranks {listed(absent)} never came" if absent else ""),
            explanation=_explain(absent, signs),
        )
    )


def _left_open(communicator: Communicator, facts: JobFacts) -> Outcome:
    """What cannot be told of ranks that started; clear where they work behind it: then a line was lost."""
    if not any(member is one for member in standing(facts) for one in communicator.members.values()):
        return CLEAR
    return unsure("ranks started a communicator and the log ends before it is complete: a hang, or a log that is cut")


def _counted(facts: JobFacts) -> Finding | None:
    """The program counted the ranks that came, and they are not all; None where it did not, or all are there."""
    short = [event for event in facts.of("ranks-missing") if not facts.survived(event)] + _stuck_cliques(facts)
    if short and (not facts.communicators or facts.works or any("of" in event.fields for event in short)):
        return _missing(facts, short)
    awaited = _awaited(facts)
    return _at_the_barrier(facts, awaited) if awaited else None


def _stuck_cliques(facts: JobFacts) -> list[Event]:
    """Threads of XLA that wait for the others of a clique where the log ends: what it warns of may still come."""
    waiting = [event for event in facts.of("clique-awaited") if facts.is_near_end(event) and not facts.survived(event)]
    return [] if facts.of("clique-came") else waiting


def _missing(facts: JobFacts, events: list[Event]) -> Finding:
    """The program counted the ranks that came before any of them started a communicator."""
    told = next((event for event in events if event.number("of")), events[0])
    came, world = told.number("came"), told.number("of")
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"Initialisation hung: {came} of {world} ranks came"
        if world
        else "Initialisation hung: ranks are missing",
        explanation="The program waits for all ranks before they start a communicator, and time ran out. "
        + _explain(["?"], events),
    )


def _awaited(facts: JobFacts) -> list[Event]:
    """The last word of each rank that waits in PyTorch's first barrier, 10 s a line, where the log ends so."""
    events, came = facts.of("ranks-awaited"), facts.of("ranks-came")
    last = {event.fields["rank"]: event for event in events}
    waiting = [event for event in last.values() if not facts.survived(event)]
    most = max((event.number("came") or 0 for event in waiting), default=0)
    told = [sum(one.fields["rank"] == rank for one in events) for rank in last]
    if came or facts.works or max(told, default=0) < _WAITS or any(most >= (one.number("of") or 0) for one in waiting):
        return []
    return waiting


def _at_the_barrier(facts: JobFacts, waiting: list[Event]) -> Finding:
    here = {int(event.fields["rank"]) for event in waiting}
    world = max(event.number("of") or 0 for event in waiting)
    came = max(event.number("came") or 0 for event in waiting)
    absent = [rank for rank in range(min(world, 100_000)) if rank not in here] if len(here) == came else []
    return conclude(
        facts,
        waiting,
        severity="critical",
        confidence="likely",
        summary=f"Initialisation hung: {came} of {world} ranks came to the first barrier"
        + (f"; ranks {listed(absent)} never came" if absent else ""),
        explanation="PyTorch counts the ranks in its store before they start a communicator, and the log ends while "
        "they wait. " + _explain(absent or ["?"], []),
    )


def _hung_in_part(facts: JobFacts) -> Outcome:
    """Some ranks completed and went on until the job ended or they gave up; others did not complete."""
    if facts.starts_omitted:
        return CLEAR
    worked = {event.origin.process for event in facts.of("connected", "collective", "destroy", "abort")}
    for communicator in facts.communicators:
        members = communicator.members.values()
        waiting = [one for one in members if one.started and not one.completed and one.process not in worked]
        if not waiting or all(one.process in {rank.process for rank in waiting} for one in members):
            continue
        left = {one.process for one in members if one.completed and one.destroyed}
        signs = [event for event in facts.of("destroy", "abort") if event.origin.process in left] or facts.of(*_SIGNS)
        if signs and not any(_speaks_after(one, signs[0], facts) for one in waiting):
            return found(_in_part(facts, communicator, waiting, signs))
    return CLEAR


def _speaks_after(member: Member, sign: Event, facts: JobFacts) -> bool:
    """Whether a rank is still on its way when others give up or time is over, in the file where that stands."""
    process = facts.processes.get(member.process)
    return process is not None and process.file == sign.origin.file and process.last_progress > sign.origin.sequence


def _in_part(facts: JobFacts, communicator: Communicator, waiting: list[Member], signs: list[Event]) -> Finding:
    starts = [member.event for member in waiting if member.event is not None]
    ranks = listed(sorted(member.rank for member in waiting))
    return conclude(
        facts,
        [*starts[:3], *signs[:1]],
        severity="critical",
        confidence="likely",
        summary=f"Initialisation never completed on {len(waiting)} of {communicator.nranks} ranks: {ranks}",
        explanation="The other ranks are complete and wait for these, which stopped on their way: a process or host "
        "that hangs, a driver call that does not return, or a connection that is not made.",
        hosts={member.process[0] for member in waiting if member.process[0]},
    )


def _hung_before_start(facts: JobFacts) -> Outcome:
    """Ranks chose their network, no communicator was ever started, and the log shows that time ran out."""
    chosen, signs = facts.of("network"), facts.of(*_SIGNS) or unanswered(facts)
    if not chosen or not signs or facts.works or failure_lines(facts) or facts.net_channels:
        return CLEAR
    if facts.version is None or facts.version >= STARTS_FIRST:
        return CLEAR
    return found(
        conclude(
            facts,
            [*chosen[:3], *signs[:1]],
            severity="critical",
            confidence="possible",
            summary="Initialisation hung: ranks chose their network and no communicator came to be",
            explanation="Before NCCL 2.22 this is what is seen of ranks that wait for one that never comes. "
            + _explain(["?"], signs),
        )
    )


def _explain(absent: Sequence[object], signs: list[Event]) -> str:
    return (
        "Initialisation completes on all ranks together. "
        + (
            "Look at the ranks that never came: not started, dead, or with another world size."
            if absent
            else "All ranks came, so one of them cannot connect."
        )
        + ("" if signs else " If the log was cut here, give all of it.")
    )


def _all_stand(communicator: Communicator, facts: JobFacts) -> bool:
    """Whether at least half of the ranks stand at their start, and no process is on its way to it or past it.

    Late in a large log it cannot be told where they stand.
    """
    members = {member.process for member in communicator.members.values()}
    if 2 * len(communicator.members) < communicator.nranks or len(communicator.members) < 2:
        return False
    speaking = {key for key, process in facts.processes.items() if process.networks or process.devices is not None}
    starts = [member.event for member in communicator.members.values() if member.event is not None]
    went_on = any(_went_on(start, facts) or start.origin.sequence <= facts.progress_omitted for start in starts)
    return speaking <= members and all(host for host, _ in members) and not went_on


def _went_on(start: Event, facts: JobFacts) -> bool:
    """Whether the process told of more than attempts to connect after its start."""
    process = facts.processes.get(start.origin.process) if start.origin.process else None
    return process is not None and process.last_progress > start.origin.sequence


def _hangs(communicator: Communicator) -> bool:
    members = communicator.members.values()
    return any(member.started for member in members) and not any(member.completed for member in members)


RULE = Rule(
    id="init-hang",
    title="Initialisation hung",
    severity="critical",
    actions=("look-at-rank", "check-reachability", "one-launch"),
    check=check,
    consequence="after",
    in_runs="`raybench run` sees ranks that have not come to the process group when its time is over.",
)
