"""One rank is behind the others, and the log shows which.

Symptom: ``last enqueued work: 11`` on one rank, 12 on all others; a flight-recorder dump whose last collective is an
earlier one; a full disk on one rank; ``[missing ranks: 1]`` of Horovod.

Why: that rank is stuck or slow before the collective: an exception, a full disk, data loading, a long checkpoint, a
slow GPU.

Not when: all ranks are at the same collective, and all have joined it; the numbers are those of different process
groups, each of which counts its own collectives.

Source: PyTorch's watchdog messages and flight recorder.
"""

from collections import defaultdict

from diagnostics.events import Event
from diagnostics.facts import MAX_COLLECTIVES, CollectiveLog, JobFacts
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed

_Progress = tuple[dict[int, int], list[Event], str]  # rank -> its last collective; lines that say so; whose word it is
MIN_LATENESS_NS = 1_000_000_000  # clocks of hosts differ by less
_OF_HOROVOD = r"by subset of ranks|\[missing ranks: "
_SIGNS = ("watchdog-timeout", "watchdog-stuck", "ras-peer-dead")


def check(facts: JobFacts) -> Outcome:
    """Found where the last enqueued collectives differ, in the log or in dumps."""
    desync = facts.of("desync")
    if late := _late_in_records(facts):
        return found(late)
    told = (_by_watchdog(facts), _by_recorder(facts), _by_count(facts))
    apart = next((progress for progress in told if len(set(progress[0].values())) > 1), None)
    if apart is None:
        return _from_text(facts, desync)
    last, events, source = apart
    lowest = min(last.values())
    behind = sorted(rank for rank, number in last.items() if number == lowest)
    return found(
        conclude(
            facts,
            [event for event in events if event.number("rank") in (*behind, None)]
            + facts.of("disk-full")[:1]
            + desync[:1],
            severity="critical",
            confidence="likely",
            summary=(
                f"Rank {listed(behind)} is behind: last collective {lowest}, the others are at {max(last.values())}"
            ),
            explanation=f"Read from {source}. The other ranks wait for it; what it does instead is the question."
            + (" The log also shows a full disk." if facts.of("disk-full") else ""),
        )
    )


def _by_watchdog(facts: JobFacts) -> _Progress:
    """The last collective of each rank of the first process group whose ranks differ; each group counts its own."""
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in facts.of("watchdog-status"):
        groups[event.fields.get("guid") or event.fields.get("group", "")].append(event)
    for events in groups.values():
        last: dict[int, int] = {}
        for event in events:
            rank, enqueued = event.number("rank"), event.number("enqueued")
            if rank is not None and enqueued is not None:
                last[rank] = max(enqueued, last.get(rank, -1))
        if len(set(last.values())) > 1:
            return last, events, "the watchdog's messages"
    return {}, [], ""


def _by_recorder(facts: JobFacts) -> _Progress:
    """The first process group whose ranks' dumps end at different collectives."""
    for group in sorted({group for record in facts.flight_records for group in record.last_sequence}):
        last = {
            record.rank: record.last_sequence[group] for record in facts.flight_records if group in record.last_sequence
        }
        if len(set(last.values())) > 1 and not _of_other_moments(facts, group, min(last.values())):
            return last, [], f"the flight recorder, process group {group}"
    return {}, [], ""


def _of_other_moments(facts: JobFacts, group: str, number: int) -> bool:
    """Whether the ranks whose dumps end first wait in that collective, and the others went on long after it."""
    newest = {
        record.rank: max((time for (name, _), time in record.created_ns.items() if name == group), default=0)
        for record in facts.flight_records
    }
    lowest = [record for record in facts.flight_records if record.last_sequence.get(group) == number]
    went_on = max(newest.values()) - max(newest[record.rank] for record in lowest) > MIN_LATENESS_NS
    return all(newest.values()) and went_on and all(record.waits_in(group, number) for record in lowest)


def _late_in_records(facts: JobFacts) -> Finding | None:
    """The rank that came late to a collective in which another still waits in its dump.

    Dumps are taken one after another: the rank that all waited for may have gone on by the time of its own, and then
    those that waited seem to be behind it.
    """
    for group in sorted({group for record in facts.flight_records for group in record.last_sequence}):
        records = [record for record in facts.flight_records if group in record.last_sequence]
        number = min(record.last_sequence[group] for record in records)
        lowest = [record for record in records if record.last_sequence[group] == number]
        if len(lowest) == len(records) or not all(record.waits_in(group, number) for record in lowest):
            continue
        begun = sorted((r.created_ns[group, number], r.rank) for r in records if (group, number) in r.created_ns)
        if len(begun) == len(records) and begun[-1][0] - begun[-2][0] > MIN_LATENESS_NS:
            return _late(facts, group, number, begun[-1][1], (begun[-1][0] - begun[0][0]) / 1e9)
    return None


def _late(facts: JobFacts, group: str, number: int, rank: int, seconds: float) -> Finding:
    return conclude(
        facts,
        [],
        severity="critical",
        confidence="likely",
        summary=f"Rank {rank} came {seconds:.1f} s late to collective {number} of process group {group}",
        explanation="Read from the flight recorder: the others had begun it and waited. The dumps are not of one "
        "moment, so a rank whose dump ends earlier is not behind for that.",
        occurrences=1,
    )


def _by_count(facts: JobFacts) -> _Progress:
    """The last opCount of each rank of a communicator, where a time-out shows that no more came."""
    kept = sum(len(log.forms) for log in facts.collectives.values())
    if not facts.of(*_SIGNS) or kept >= MAX_COLLECTIVES:
        return {}, [], ""
    logs: dict[str, dict[int, CollectiveLog]] = defaultdict(dict)
    for (communicator, rank), log in facts.collectives.items():
        logs[communicator][rank] = log
    for ranks in logs.values():
        last = {rank: log.last for rank, log in ranks.items()}
        if len(set(last.values())) > 1 and not any(log.point_to_point for log in ranks.values()):
            slowest = min(ranks.values(), key=lambda log: log.last)
            return last, list(slowest.forms.get(slowest.last, {}).values()), "NCCL's opCount lines"
    return {}, [], ""


def _from_text(facts: JobFacts, desync: list[Event]) -> Outcome:
    full = facts.of("disk-full")
    named = [event for event in desync if "ranks" in event.fields]
    if named and _all_are_there(facts, named):
        return CLEAR
    if desync:
        crashed = any(one.origin.sequence < desync[0].origin.sequence for one in facts.of("process-killed"))
        return found(
            conclude(
                facts,
                named or desync,
                severity="info" if crashed else "critical",
                confidence="likely",
                summary=_who_says(desync[0])
                + (
                    f" names the ranks that the others wait for: {named[0].fields['text'][:160]}"
                    if named
                    else " reports that ranks are at different collectives"
                ),
                explanation="The ranks that did not join or did not finish the collective are the ones to look at."
                + (" A process had been ended before, most likely that of such a rank." if crashed else ""),
            )
        )
    if full and facts.of("watchdog-timeout", "peer-closed"):
        return found(
            conclude(
                facts,
                full,
                severity="critical",
                confidence="likely",
                summary="A rank ran into a full disk, and the others waited for it",
                explanation="Writing failed on one rank, which then left the collectives.",
            )
        )
    return CLEAR


def _who_says(event: Event) -> str:
    return "Horovod" if compiled(_OF_HOROVOD).search(event.text) else "PyTorch"


def _all_are_there(facts: JobFacts, named: list[Event]) -> bool:
    """Whether every rank of the report's snapshot has joined the collective, and none finished it: nobody is behind."""
    snapshot = {rank for event in facts.of("ranks-at") for rank in _listed_ranks(event)}
    joined = [_listed_ranks(event) for event in named]
    return len(snapshot) > 1 and all(ranks == snapshot for ranks in joined)


def _listed_ranks(event: Event) -> set[int]:
    return {int(word) for word in event.fields["ranks"].replace(",", " ").split()}


RULE = Rule(
    id="straggler",
    title="One rank is behind the others",
    severity="critical; info where a process was ended before; warning where a run only is slower for it",
    actions=("look-at-rank", "find-divergence"),
    check=check,
    in_runs="`raybench train` times each rank's own work apart from its waits: the rank that holds up a step is the "
    "one whose own time is above the others', in most steps.",
    run_actions=("check-slow-gpu",),
)
