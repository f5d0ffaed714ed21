"""Ranks issue different collectives.

Symptom: at one sequence number or opCount, ranks name different operations or sizes; ``message truncated ... may be a
mismatch in collective sizes``; PyTorch's desync report.

Why: the program's control flow differs between ranks: a branch on rank-local data, a data loader of uneven length,
another model. No setting of NCCL helps.

Not when: ranks are merely late (straggler).

Source: NCCL's net_ib.cc and net_socket.cc; PyTorch's desync report and flight recorder.
"""

from collections import defaultdict

from diagnostics.events import Event
from diagnostics.facts import CollectiveLog, JobFacts, collective_form
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where operations or sizes at one sequence number differ, or where NCCL or PyTorch says so."""
    stated = facts.of("collective-mismatch") + stopped_at(facts, "receive-mismatch")
    stated += [event for event in facts.of("message-truncated") if event.fields["what"].startswith("NET/Socket")]
    if stated:
        return found(_conclude(facts, stated, "Ranks issue different collectives, or with different sizes"))
    differing = _differing(facts.of("watchdog-timeout"))
    if differing:
        forms = sorted({_form(event) for event in differing})
        number = differing[0].fields.get("sequence", "?")
        return found(
            _conclude(
                facts, differing, f"At sequence number {number} ranks wait in different collectives: {listed(forms)}"
            )
        )
    return _from_counts(facts) or _from_recorder(facts)


def _from_counts(facts: JobFacts) -> Outcome | None:
    """Two ranks of a communicator that started nothing in common at the same opCount (subsystem COLL)."""
    ranks: dict[str, list[tuple[int, CollectiveLog]]] = defaultdict(list)
    for (communicator, rank), log in facts.collectives.items():
        ranks[communicator].append((rank, log))
    for logs in ranks.values():
        if any(log.point_to_point for _, log in logs):
            continue
        if pair := _first_difference(sorted(logs, key=lambda item: item[0])):
            number, (rank, event), (other, other_event) = pair
            summary = (
                f"At opCount {number:x} rank {rank} starts {collective_form(event)}; rank {other} "
                f"{collective_form(other_event)}"
            )
            return found(_conclude(facts, [event, other_event], summary))
    return None


def _first_difference(
    logs: list[tuple[int, CollectiveLog]],
) -> tuple[int, tuple[int, Event], tuple[int, Event]] | None:
    """The lowest opCount at which a rank has nothing in common with the first rank that has that number."""
    seen: dict[int, tuple[int, dict[str, Event]]] = {}
    for rank, log in logs:
        for number, forms in log.forms.items():
            seen.setdefault(number, (rank, forms))
    apart = [
        (number, rank, forms)
        for rank, log in logs
        for number, forms in log.forms.items()
        if not forms.keys() & seen[number][1].keys()
    ]
    if not apart:
        return None
    number, rank, forms = min(apart, key=lambda item: item[0])
    first, first_forms = seen[number]
    return number, (first, next(iter(first_forms.values()))), (rank, next(iter(forms.values())))


def _differing(events: list[Event]) -> list[Event]:
    by_number: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in events:
        if "sequence" in event.fields and "pg_rank" not in event.fields:
            by_number[event.fields["sequence"]].setdefault(_form(event), event)
    return next((told for forms in by_number.values() if len(told := _told_apart(list(forms.values()))) > 1), [])


def _told_apart(events: list[Event]) -> list[Event]:
    """One of each form, without those that leave the elements out and name an operation of which another tells."""
    sized = {event.fields["operation"] for event in events if "input" in event.fields}
    return [event for event in events if "input" in event.fields or event.fields["operation"] not in sized]


def _form(event: Event) -> str:
    return f"{event.fields['operation']} of {event.fields.get('input', '?')} elements"


def _from_recorder(facts: JobFacts) -> Outcome:
    seen: dict[tuple[str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for record in facts.flight_records:
        for group, sequence, operation, _, sizes in record.entries:
            seen[group, sequence][f"{operation} {sizes}"].append(record.rank)
    for (group, sequence), forms in sorted(seen.items(), key=lambda item: item[0][1]):
        operations = {form.split(" ")[0].rsplit(":", 1)[-1] for form in forms}
        if len(operations) > 1:
            parts = "; ".join(f"{form} on ranks {listed(sorted(ranks))}" for form, ranks in sorted(forms.items()))
            return found(
                _conclude(
                    facts,
                    [],
                    f"Process group {group}, collective {sequence}: ranks issue different ones: {parts}"[:400],
                )
            )
    return CLEAR


def _conclude(facts: JobFacts, events: list[Event], summary: str) -> Finding:
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=summary,
        explanation="Every rank of a group must issue the same collectives in the same order with fitting "
        "sizes. The program's "
        "control flow differs between ranks; this is not a fault of the network.",
        occurrences=max(len(events), 1),
    )


RULE = Rule(
    id="collective-mismatch",
    title="Ranks issue different collectives",
    severity="critical",
    actions=("find-divergence",),
    check=check,
    in_runs="`raybench run` sees ranks that stand in operations which do not fit together, and quotes their lines.",
)
