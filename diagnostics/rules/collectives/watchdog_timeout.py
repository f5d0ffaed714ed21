"""PyTorch's watchdog gave up waiting for a collective.

Symptom: ``[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78, OpType=BROADCAST, ...)``; on the
other ranks ``Received a dump signal due to a collective timeout from rank 1``; ``watchdog got stuck for 480 seconds``.

Why: at least one rank did not take part in time: it died, is stuck or slow (checkpoint, data loading, CPU work), or
its control flow went another way. The ranks that print the message are the ones that waited; the ones that do not are
where to look.

Not when: an earlier fault explains it; then this finding is a consequence.

Source: PyTorch's ProcessGroupNCCL. A longer timeout only hides a rank that never comes.
"""

from collections import defaultdict
from collections.abc import Collection

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed
from diagnostics.rules.program.job_cancelled import before_any_cut

_HEART = (
    r"watchdog got stuck|eartbeat|failure detected by watchdog|ProcessGroupNCCL watchdog hang|[Ww]atchdog timeout|"
    r"RPC call"
)


def check(facts: JobFacts) -> Outcome:
    """Found where a watchdog message was printed; names the ranks that printed none."""
    events = facts.of("watchdog-timeout")
    if not events:
        return _signalled(facts)
    waiting: dict[str, set[int]] = defaultdict(set)
    for event in events:
        waiting[_collective(event)].update(_ranks(event))
    collective, ranks = max(waiting.items(), key=lambda item: len(item[1]))
    reported = {rank for group in waiting.values() for rank in group}
    absent = _absent(facts, reported)
    seen = 3 * len(absent) <= len(reported) or bool(_named_ranks(facts).intersection(absent))
    seconds = (events[0].number("timeout_ms") or 0) // 1000
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence=("likely" if seen else "possible") if absent else "certain",
            summary=(f"{_named(ranks)} timed out in " if ranks else "Timed out in ")
            + collective
            + _other_ranks(absent, seen),
            explanation=("The ranks named" if reported else "Ranks")
            + f" waited {f'{seconds} s ' if seconds else ''}for the others. "
            + (
                _of_absent(seen)
                if absent
                else "Which rank was late is not shown by these lines; the flight recorder would. "
            )
            + "A longer timeout hides this, it does not cure it.",
            occurrences=facts.count("watchdog-timeout"),
        )
    )


def _of_absent(seen: bool) -> str:
    """What may have become of ranks without a message: the log may only lack their output."""
    elsewhere = "" if seen else ", or wrote to another log"
    return f"The absent ranks died, hang elsewhere, took another path through the program{elsewhere}; find out which. "


def _named(ranks: Collection[int]) -> str:
    return f"Rank{'s' if len(ranks) > 1 else ''} {listed(sorted(ranks))}"


def _signalled(facts: JobFacts) -> Outcome:
    """The ranks that timed out said so to the others, and their own message is not in the log."""
    events = facts.of("timeout-signal")
    if not events:
        return _stuck(facts)
    late = sorted({rank for event in events for name in ("late", "waits") if (rank := event.number(name)) is not None})
    told = next((event for event in events if "operation" in event.fields), None)
    where = f" in {told.fields['operation']} (sequence number {told.fields['sequence']})" if told else ""
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            summary=f"A collective timed out{f' on rank {listed(late)}' if late else ''}{where}",
            explanation="The rank named waited in vain and told the others; who did not come is in its own output and "
            "in the flight records of all. A longer timeout hides this, it does not cure it.",
        )
    )


def _stuck(facts: JobFacts) -> Outcome:
    """PyTorch ended ranks whose watchdog made no progress, and no line names a collective."""
    events = before_any_cut(facts, [one for one in facts.of("watchdog-stuck") if compiled(_HEART).search(one.text)])
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="possible",
            summary="PyTorch ended a rank that made no progress: a call of NCCL or CUDA did not return",
            explanation="The thread that watches the collectives stood still itself, mostly in a call of CUDA that "
            "waits for a collective or for Python's lock. Look at the stacks that PyTorch dumps, and at the other "
            "ranks; a longer TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC only hides this.",
        )
    )


def _collective(event: Event) -> str:
    number = event.fields.get("sequence")
    return event.fields["operation"] + (f" (sequence number {number})" if number else "")


def _ranks(event: Event) -> set[int]:
    """The rank that waited; none where the line does not name it."""
    ranks = (event.number("rank"), event.number("pg_rank"), event.origin.rank)
    return {next(rank for rank in ranks if rank is not None)} if any(rank is not None for rank in ranks) else set()


def _other_ranks(absent: list[int], seen: bool) -> str:
    """What is said of the ranks without a message; many that the log never names may just be missing from it."""
    if not absent:
        return ""
    return (
        f"; ranks {listed(absent)} did not report: look there"
        if seen
        else f"; this log has no line of ranks {listed(absent)}"
    )


def _named_ranks(facts: JobFacts) -> set[int]:
    """Ranks that any line of the log comes from."""
    launched = {event.origin.rank for kind in facts.events for event in facts.of(kind) if event.origin.rank is not None}
    return launched | (set(facts.world.members) if facts.world else set())


def _absent(facts: JobFacts, reported: set[int]) -> list[int]:
    """Ranks without a message, up to the world's size or else the highest rank that reported."""
    if not reported:
        return []
    size = facts.world.nranks if facts.world else max(reported) + 1
    size = max(size, max(_named_ranks(facts), default=-1) + 1)
    return [rank for rank in range(min(size, 100_000)) if rank not in reported] if len(reported) < size else []


RULE = Rule(
    id="watchdog-timeout",
    title="A collective timed out",
    severity="critical",
    actions=("find-divergence", "look-at-rank"),
    check=check,
    consequence="lower",
)
