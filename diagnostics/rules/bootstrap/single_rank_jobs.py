"""Every process is a world of its own.

Symptom: several processes each report ``nranks 1``; programs of nccl-tests on several hosts each list ``Rank  0`` and
no other; bandwidth is absurd or zero.

Why: nccl-tests built without MPI and started by mpirun, or torchrun processes without a common rendezvous: each runs
the job alone.

Not when: one process with one GPU was started on purpose: info, since its bus bandwidth is 0 by definition.

Source: nccl-tests issues 27 and 213.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_SAID_ONCE = ("bootstrap-interface", "cuda-driver", "version", "ib-devices", "socket-devices")


def check(facts: JobFacts) -> Outcome:
    """Found where all communicators have one rank, or each program of nccl-tests names but its own."""
    if not facts.communicators:
        return _by_tests(facts)
    if any(communicator.nranks > 1 for communicator in facts.communicators):
        return CLEAR
    members = [member for communicator in facts.communicators for member in communicator.members.values()]
    processes = max(len({member.process for member in members}), _unnamed_processes(facts))
    events = [event for event in facts.of("init-start", "init-complete") if event.fields["nranks"] == "1"]
    if processes > 1:
        return found(
            conclude(
                facts,
                events,
                severity="critical",
                confidence="likely",
                summary=f"{processes} processes each run a job of one rank: they do not know of each other",
                explanation="Nothing is communicated, and every result is that of a single GPU.",
                occurrences=processes,
            )
        )
    if len(facts.communicators) > 1 and not any(any(member.process) for member in members) and _begins_late(facts):
        return found(
            conclude(
                facts,
                events,
                severity="warning",
                confidence="possible",
                summary=f"{len(facts.communicators)} communicators of one rank each: processes that do not know of "
                "each other, or one process that makes several",
                explanation="The lines do not show who printed them. Give the log of each process as it was written.",
            )
        )
    return found(
        conclude(
            facts,
            events,
            severity="info",
            summary="The job has one rank",
            explanation="Nothing is communicated; a bus bandwidth of 0 is correct and says nothing about the network.",
        )
    )


def _unnamed_processes(facts: JobFacts) -> int:
    """Processes, where lines have lost who printed them: by the most of what each says once as it starts.

    Not more than communicators, of which a log that holds its lines twice has one.
    """
    members = (member for communicator in facts.communicators for member in communicator.members.values())
    if any(any(member.process) for member in members):
        return 0
    return min(len(facts.communicators), max(map(facts.count, _SAID_ONCE)))


def _begins_late(facts: JobFacts) -> bool:
    """Whether a communicator is there before what its process says as it starts: the log's beginning was cut off."""
    said, begun = facts.first(*_SAID_ONCE), facts.first("init-start", "init-complete")
    return said is None or (begun is not None and begun.origin.sequence < said.origin.sequence)


def _by_tests(facts: JobFacts) -> Outcome:
    """Programs on several hosts, each of which lists rank 0 and no other: they were built or started without MPI."""
    ranks = facts.of("tests-rank")
    programs = {(event.fields["where"], event.fields["pid"]) for event in ranks}
    if len({host for host, _ in programs}) < 2 or any(event.fields["rank"] != "0" for event in ranks):
        return CLEAR
    return found(
        conclude(
            facts,
            ranks,
            severity="critical",
            confidence="likely",
            summary=f"{len(programs)} programs of nccl-tests on several hosts each run as rank 0 of their own world",
            explanation="Each lists rank 0 and no other: the tests are built without MPI (make MPI=1), or the launcher "
            "of another MPI starts them. Nothing is communicated.",
            occurrences=len(programs),
        )
    )


RULE = Rule(
    id="single-rank-jobs",
    title="Every process is a world of its own",
    severity="critical; info for a single process; warning where processes cannot be told apart",
    actions=("one-world",),
    check=check,
)
