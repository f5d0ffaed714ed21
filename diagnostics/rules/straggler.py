"""One rank is behind the others, and the log shows which.

Symptom: ``last enqueued work: 11`` on one rank, 12 on all others; a flight-recorder dump whose last collective is an
earlier one; a full disk on one rank.

Why: that rank is stuck or slow before the collective: an exception, a full disk, data loading, a long checkpoint, a
slow GPU.

Not when: all ranks are at the same collective.

Source: PyTorch's watchdog messages and flight recorder.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed


def check(facts: JobFacts) -> Outcome:
    """Found where the last enqueued collectives differ, in the log or in dumps."""
    last: dict[int, int] = {}
    for event in facts.of("watchdog-status"):
        rank, enqueued = event.number("rank"), event.number("enqueued")
        if rank is not None and enqueued is not None:
            last[rank] = max(enqueued, last.get(rank, -1))
    events = facts.of("watchdog-status")
    source = "the watchdog's messages"
    if len(set(last.values())) < 2 and facts.flight_records:
        groups = {group for record in facts.flight_records for group in record.last_sequence}
        for group in sorted(groups):
            found_ = {
                record.rank: record.last_sequence[group]
                for record in facts.flight_records
                if group in record.last_sequence
            }
            if len(set(found_.values())) > 1:
                last, events, source = found_, [], f"the flight recorder, process group {group}"
                break
    desync = facts.of("desync")
    if len(set(last.values())) < 2:
        return _from_text(facts, desync)
    lowest = min(last.values())
    behind = sorted(rank for rank, number in last.items() if number == lowest)
    return found(
        conclude(
            facts,
            [event for event in events if event.number("rank") in behind] + facts.of("disk-full")[:1] + desync[:1],
            severity="critical",
            confidence="likely",
            summary=(
                f"Rank {listed(behind)} is behind: last collective {lowest}, the others are at {max(last.values())}"
            ),
            explanation=f"Read from {source}. The other ranks wait for it; what it does instead is the question."
            + (" The log also shows a full disk." if facts.of("disk-full") else ""),
        )
    )


def _from_text(facts: JobFacts, desync: list[Event]) -> Outcome:
    full = facts.of("disk-full")
    if desync:
        return found(
            conclude(
                facts,
                desync,
                severity="critical",
                confidence="likely",
                summary=f"PyTorch's desync report names the ranks: {desync[0].fields['text'][:160]}",
                explanation=(
                    "The ranks that finished the collective but did not join the next one are the ones to look at."
                ),
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


RULE = Rule(
    id="straggler",
    title="One rank is behind the others",
    severity="critical",
    actions=("look-at-rank", "find-divergence"),
    check=check,
)
