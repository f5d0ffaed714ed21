"""The process may not start more threads.

Symptom: ``Call to pthread_create failed: Resource temporarily unavailable``; ``Thread creation failed: ...``.

Why: ``ulimit -u`` counts all threads of the user on the machine, a container has a limit of its own (pids). NCCL
starts some threads a communicator, and a framework as many as there are processors, in each rank.

Not when: the process goes on to work; another resource is named (file-limit, host-memory-exhausted).

Source: pthread_create(3): EAGAIN; NCCL's checks.h.
"""

from diagnostics.facts import JobFacts
from diagnostics.judging.error_number import named_error
from diagnostics.rules.base import Outcome, Rule, answer, stopped_at


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL was refused a thread."""
    events = stopped_at(facts, "thread-refused")
    error = named_error(events[0].fields["text"]) if events else None
    return answer(
        facts,
        events,
        severity="critical",
        summary="A rank cannot start a thread" + (f" ({error})" if error else ""),
        explanation="The limit of processes counts threads, too: of the user (ulimit -u), of the container (pids), or "
        "of the job's cgroup.",
    )


RULE = Rule(
    id="thread-limit",
    title="The limit of threads is too low",
    severity="critical",
    actions=("raise-nproc",),
    check=check,
)
