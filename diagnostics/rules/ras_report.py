"""NCCL's RAS found ranks that do not answer, have failed, or are not where the others are.

Symptom: the output of ``ncclras`` has a communicator with ``INCOMPLETE``, ``ERROR`` or ``MISMATCH``, or processes that
are ``considered dead``.

Why: a process has ended or hangs (it does not answer), NCCL returned an error on a rank, or ranks are at different
operations. In a job that hangs, the rank with the lowest count is the one the others wait for.

Not when: every communicator is ``OK``. Ranks of a job that is well are at different operations too, for a moment:
``MISMATCH`` alone is a warning, and counts that stay apart in a second look prove it.

Source: NCCL's user guide on RAS; src/ras/client_support.cc of NCCL 2.24 to 2.30.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, plural


def check(facts: JobFacts) -> Outcome:
    """Found where RAS names ranks or processes, the silent and failed ones before those at another operation."""
    finding = _silent(facts) or _failed(facts) or _apart(facts)
    return found(finding) if finding else CLEAR


def _silent(facts: JobFacts) -> Finding | None:
    signs = facts.of("ras-dead", "ras-missing")
    if not signs:
        return None
    processes = facts.of("ras-process")
    named = [f"process {one.fields['process']} on {one.fields['node']}" for one in processes]
    count = max(one.number("count") or 0 for one in signs)
    dead = bool(facts.of("ras-dead"))
    return conclude(
        facts,
        [*signs[:2], *processes],
        severity="critical",
        summary=f"RAS has no answer from {listed(named) if named else plural(count, 'process or rank')}",
        explanation="RAS considers it dead: it ended, or its host or network is gone."
        if dead
        else "It hangs, or it ended without telling NCCL; the others wait for it in their next collective.",
        hosts=[one.fields["node"] for one in processes],
        blocks=True,
    )


def _failed(facts: JobFacts) -> Finding | None:
    failed = [event for event in facts.of("ras-rank") if "error" in event.fields]
    states = [event for event in facts.of("ras-state") if event.fields["state"] == "ERROR"]
    if not failed and not states:
        return None
    ranks = [event.fields["rank"] for event in failed]
    return conclude(
        facts,
        [*states[:1], *failed],
        severity="critical",
        summary=f"RAS: NCCL failed on rank {listed(ranks)}" if ranks else "RAS: NCCL failed on a communicator",
        explanation=f"It reported: {failed[0].fields['error']}." if failed else "`ncclras -v` names the ranks.",
        hosts=[event.fields["node"] for event in failed],
        blocks=True,
    )


def _apart(facts: JobFacts) -> Finding | None:
    states = [event for event in facts.of("ras-state") if event.fields["state"] == "MISMATCH"]
    if not states:
        return None
    behind = [event for event in facts.of("ras-rank") if "error" not in event.fields]
    lowest = min((_operation(event) for event in behind), default=0)
    last = [event for event in behind if _operation(event) == lowest]
    return conclude(
        facts,
        [*states[:1], *last],
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
