"""NCCL Inspector shows operations that took much longer than others of the same kind and size.

Symptom: lines of NCCL Inspector (or RCCL's) whose ``coll_busbw_gbs`` is below half of the median of the same
communicator, operation and size; for sends and receives ``p2p_busbw_gbs``, of the same two ranks.

Why: a rank comes late to the collective, or the network is slow for a while. The times of the ranks tell which: a rank
that comes late is the one whose own time is short, since the others count their waiting. A send or receive counts the
waiting for its peer.

Not when: fewer than 8 of a kind are in the log, fewer than 3 of them are slow, or only the first ones of a
communicator are, in which connections are made.

Source: ext-profiler/inspector of NCCL 2.28 and newer; the limits are rules of thumb.
"""

from collections import defaultdict
from statistics import median

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, unsure

_Group = tuple[str, str, str]  # communicator, operation, bytes
MIN_OPERATIONS = 8
MIN_SLOW = 3
WARM_UP = 2  # operations of a communicator
SLOW_RATIO = 0.5
SHORT_RATIO = 0.5  # of the time of the others: such a rank did not wait


def check(facts: JobFacts) -> Outcome:
    """Found where several operations of one kind and size are far below their median."""
    groups: dict[_Group, list[Event]] = defaultdict(list)
    for event in facts.of("inspector", "inspector-p2p"):
        groups[event.fields.get("comm", ""), _operation(event), event.fields["size"]].append(event)
    if not groups:
        return CLEAR
    findings = [
        _finding(facts, group, events, slow, usual)
        for group, events in groups.items()
        for usual, slow in (_slow(events),)
        if len(_sequences(slow)) >= MIN_SLOW
    ]
    unseen = facts.count("inspector", "inspector-p2p") - sum(len(events) for events in groups.values())
    if not findings and unseen > 0:
        return unsure(f"{unseen:,} later operations of NCCL Inspector were not compared; give a part of its files")
    if not findings and all(len(_sequences(events)) < MIN_OPERATIONS for events in groups.values()):
        return unsure(f"NCCL Inspector's part holds fewer than {MIN_OPERATIONS} operations of a kind and size")
    return found(*findings)


def _finding(facts: JobFacts, group: _Group, events: list[Event], slow: list[Event], usual: float) -> Finding:
    comm, operation, size = group
    late = _late_rank([event for event in events if event.number("sequence") in _sequences(slow)])
    return conclude(
        facts,
        slow,
        severity="warning",
        confidence="likely",
        occurrences=len(_sequences(slow)),
        summary=f"{len(_sequences(slow))} slow {operation} of {int(size):,} bytes"
        + (f", for which rank {late} comes late" if late else "")
        + f": {min(map(_busbw, slow)):.1f} GB/s, usually {usual:.1f} GB/s",
        explanation=(
            f"The own time of rank {late} is short in them, where the others wait for it."
            if late
            else "The path between the two ranks is slow then, or the peer comes late to it."
            if "peer" in slow[0].fields
            else "Either the network is slow then, or ranks come late whose lines are not in the log."
        )
        + (f" Communicator {comm}, operations {_named(slow)}." if comm else f" Operations {_named(slow)}."),
    )


def _operation(event: Event) -> str:
    """``AllReduce``, ``Send (rank 2 to rank 3)``."""
    fields = event.fields
    if "peer" not in fields:
        return fields["operation"]
    way = "to" if fields["operation"] == "Send" else "from"
    return f"{fields['operation']} (rank {fields['rank']} {way} rank {fields['peer']})"


def _slow(events: list[Event]) -> tuple[float, list[Event]]:
    """The usual bus bandwidth, and the events far below it."""
    first = sorted(_sequences(events))[:WARM_UP]
    warm = [event for event in events if event.number("sequence") not in first]
    if len(_sequences(warm)) < MIN_OPERATIONS:
        return 0.0, []
    usual = median(map(_busbw, warm))
    return usual, [event for event in warm if _busbw(event) < SLOW_RATIO * usual]


def _late_rank(events: list[Event]) -> str | None:
    """The rank that came late to most of these operations."""
    late: dict[str, int] = defaultdict(int)
    times: dict[int | None, dict[str, int]] = defaultdict(dict)
    for event in events:
        times[event.number("sequence")][event.fields.get("rank", "")] = event.number("microseconds") or 0
    for of_ranks in times.values():
        rank, shortest = min(of_ranks.items(), key=lambda item: item[1])
        if len(of_ranks) > 1 and shortest < SHORT_RATIO * median(of_ranks.values()):
            late[rank] += 1
    name, count = max(late.items(), key=lambda item: item[1], default=("", 0))
    return name if 2 * count > len(times) else None


def _sequences(events: list[Event]) -> set[int]:
    return {event.number("sequence") or 0 for event in events}


def _named(events: list[Event]) -> str:
    numbers = sorted(_sequences(events))
    return ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


def _busbw(event: Event) -> float:
    return float(event.fields["busbw"])


RULE = Rule(
    id="collective-slow",
    title="Collectives that are slow at times",
    severity="warning",
    actions=("look-at-rank", "measure-link"),
    check=check,
    slow=True,
)
