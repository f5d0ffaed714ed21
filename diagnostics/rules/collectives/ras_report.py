"""NCCL's RAS found ranks that do not answer, have failed, or are not where the others are.

Symptom: the output of ``ncclras`` has a communicator with ``INCOMPLETE``, ``ERROR`` or ``MISMATCH``, or processes that
are ``considered dead``; in JSON, ranks with ``unresponsive``, ``considered_dead`` or an ``async_error``.

Why: a process has ended or hangs (it does not answer), NCCL returned an error on a rank, or ranks are at different
operations. In a job that hangs, the rank with the lowest count is the one the others wait for.

Not when: every communicator is ``OK``. Ranks of a job that is well are at different operations too, for a moment:
``MISMATCH`` alone is a warning, and counts that stay apart in a second look prove it.

Source: NCCL's user guide on RAS; src/ras/client_support.cc of NCCL 2.24 to 2.30; JSON since 2.28.7.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, plural

_RESULTS = {
    "1": "Unhandled CUDA error",
    "2": "System error",
    "3": "Internal error",
    "4": "Invalid argument",
    "5": "Invalid usage",
    "6": "Remote process error",
}
_DEAD = "RAS considers it dead: it ended, or its host or network is gone."
_HANGS = "It hangs, or it ended without telling NCCL; the others wait for it in their next collective."
_COUNT = r'"(\w{1,40})": ?(\d{1,18})'


def check(facts: JobFacts) -> Outcome:
    """Found where RAS names ranks or processes, the silent and failed ones before those at another operation."""
    finding = _silent(facts) or _absent(facts) or _failed(facts) or _apart(facts) or _at_other_counts(facts)
    return found(finding) if finding else CLEAR


def _silent(facts: JobFacts) -> Finding | None:
    signs = facts.of("ras-dead", "ras-missing", "ras-lost") or _states(facts, "INCOMPLETE")
    if not signs:
        return None
    processes = [_of_process(event) for event in facts.of("ras-process", "ras-lost")]
    named = list(dict.fromkeys(f"process {process} on {node}" for process, node in processes))
    count = max(one.number("count") or 0 for one in signs)
    some = plural(count, "process or rank") if count else "some ranks"
    dead = bool(facts.of("ras-dead", "ras-lost"))
    return conclude(
        facts,
        [*signs[:2], *facts.of("ras-process")],
        severity="critical",
        summary=f"RAS has no answer from {listed(named) or some}",
        explanation=_DEAD if dead else _HANGS,
        hosts=[node for _, node in processes],
        blocks=True,
    )


def _states(facts: JobFacts, state: str) -> list[Event]:
    """Communicators, and groups of them in the table, that RAS found in a state."""
    return [event for event in facts.of("ras-state") if event.fields["state"] == state]


def _of_process(event: Event) -> tuple[str, str]:
    """Process id and node, whichever form RAS gave them in."""
    fields = event.fields
    return fields.get("process") or fields["pid"], fields.get("node") or fields["host"]


def _absent(facts: JobFacts) -> Finding | None:
    """Ranks of a report in JSON that did not answer."""
    absent = facts.of("ras-absent")
    if not absent:
        return None
    dead = any(event.fields["dead"] == "true" for event in absent)
    ranks = [f"rank {one.fields['rank']} (process {one.fields['process']} on {one.fields['node']})" for one in absent]
    return conclude(
        facts,
        absent,
        severity="critical",
        summary=f"RAS has no answer from {listed(dict.fromkeys(ranks))}",
        explanation=_DEAD if dead else _HANGS,
        hosts=[event.fields["node"] for event in absent],
        blocks=True,
    )


def _failed(facts: JobFacts) -> Finding | None:
    failed = [event for event in facts.of("ras-rank") if "error" in event.fields] + facts.of("ras-failed")
    states = _states(facts, "ERROR")
    if not failed and not states:
        return None
    ranks = dict.fromkeys(event.fields["rank"] for event in failed)
    return conclude(
        facts,
        [*states[:1], *failed],
        severity="critical",
        summary=f"RAS: NCCL failed on rank {listed(ranks)}" if ranks else "RAS: NCCL failed on a communicator",
        explanation=f"It reported: {_reported(failed[0])}." if failed else "`ncclras -v` names the ranks.",
        hosts=[event.fields["node"] for event in failed],
        blocks=True,
    )


def _reported(event: Event) -> str:
    """NCCL's result in words."""
    result = event.fields.get("error") or event.fields.get("init", "?")
    return _RESULTS.get(result, f"result {result}" if result.lstrip("-").isdigit() else result)


def _apart(facts: JobFacts) -> Finding | None:
    states = _states(facts, "MISMATCH")
    if not states:
        return None
    behind = [event for event in facts.of("ras-rank") if "error" not in event.fields]
    lowest = min((_operation(event) for event in behind), default=0)
    return _compared(facts, states[:1], [event for event in behind if _operation(event) == lowest])


def _at_other_counts(facts: JobFacts) -> Finding | None:
    """Ranks of a report in JSON that have begun fewer operations than the others of their communicator."""
    for members in _communicators(facts):
        operations = sorted({name for counts, _ in members for name in counts})
        for name in operations:
            most = max(counts.get(name, 0) for counts, _ in members)
            least = min(counts.get(name, 0) for counts, _ in members)
            if least < most:
                return _compared(facts, [], [event for counts, event in members if counts.get(name, 0) == least])
    return None


def _communicators(facts: JobFacts) -> list[list[tuple[dict[str, int], Event]]]:
    """The ranks that answered, by communicator, with their counts of operations."""
    groups: list[list[tuple[dict[str, int], Event]]] = [[]]
    events = sorted(facts.of("ras-communicator", "ras-member"), key=lambda event: event.origin.sequence)
    for event in events:
        if event.kind == "ras-communicator":
            groups.append([])
        else:
            counts = compiled(_COUNT).findall(event.fields["counts"])
            groups[-1].append(({name: int(number) for name, number in counts}, event))
    return [group for group in groups if group]


def _compared(facts: JobFacts, states: list[Event], last: list[Event]) -> Finding:
    return conclude(
        facts,
        [*states, *last],
        severity="warning",
        confidence="possible",
        summary=f"RAS: rank {listed(event.fields['rank'] for event in last)} is not where the others are"
        if last
        else "RAS: the ranks of a communicator are not at the same operation",
        explanation="Ranks that work are apart for a moment too. Look again: whose count stays is the rank to look at.",
        hosts=[event.fields["node"] for event in last],
    )


def _operation(event: Event) -> int:
    return event.number("operation") or 0


RULE = Rule(
    id="ras-report",
    title="NCCL's RAS names ranks that do not answer, failed or are behind",
    severity="critical; warning where the ranks only are at different operations",
    actions=("look-at-rank",),
    check=check,
)
