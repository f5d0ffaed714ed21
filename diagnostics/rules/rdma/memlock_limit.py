"""The limit of locked memory is too low.

Symptom: ``Call to ibv_reg_mr failed with error Cannot allocate memory``, the same for ibv_create_qp and
ibv_create_cq; libfabric's ``Unable to create extended CQ: Cannot allocate memory``, or EFA's ``(4112)
Failure to post internal receive buffers``.

Why: RDMA pins memory. The limit (``ulimit -l``) of the process is a few MiB by default; a container, the scheduler's
daemon or a login without limits.conf passes that on. It has nothing to do with free memory.

Not when: another error than "Cannot allocate memory" is printed (memory-registration-failed); libfabric tries another
way, and the ranks go on to work; UCX says it while MPI starts, and a benchmark of MPI begins behind it.

Source: NCCL user guide, troubleshooting.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, counted, found
from diagnostics.rules.rdma.verbs import failed_calls, is_bare_queue, is_out_of_memory


def check(facts: JobFacts) -> Outcome:
    """Found where registering memory or creating a queue fails with ENOMEM."""
    calls = failed_calls(facts, "reg_", "create_qp", "create_cq", "alloc_pd")
    events = [event for event in calls if is_out_of_memory(event) or is_bare_queue(event)]
    events += [event for event in facts.of("plugin-registration-failed") if _is_out_of_memory(event)]
    events += [event for event in facts.of("plugin-queue-failed") if not facts.went_on(event)]
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary="The limit of locked memory (ulimit -l) is too low for RDMA",
            explanation=f"{events[0].fields.get('call', 'The plugin')} could not pin memory. The machine is "
            "not out of memory: the "
            "process may lock only a small amount. The limit that counts is that of the rank's own process.",
            occurrences=counted(events),
        )
    )


def _is_out_of_memory(event: Event) -> bool:
    """Whether a plugin says that memory could not be locked, in numbers or in words."""
    return event.fields.get("code") == "-12" or "Cannot allocate memory" in event.fields.get("insert", "")


RULE = Rule(
    id="memlock-limit",
    title="The limit of locked memory is too low",
    severity="critical",
    actions=("memlock",),
    check=check,
)
