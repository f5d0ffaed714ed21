"""The job was ended from outside before its program ended.

Symptom: ``CANCELLED AT ... DUE TO TIME LIMIT`` (Slurm), ``job killed: walltime`` (PBS), ``TERM_RUNLIMIT`` (LSF),
``DeadlineExceeded`` or ``Preempted`` (Kubernetes), ``got signal: 15``, ``Received 1 death signal`` (torchrun),
``KeyboardInterrupt``.

Why: its time limit was over, something more urgent took its place, or somebody stopped it. The network need not be at
fault; but the work is not done, and a job that is slower than planned ends in the same way.

Not when: the node failed, memory ran out, or a rank failed first: that is another finding, and these lines are listed
under it. ``closing signal SIGTERM`` alone is what torchrun sends to all ranks when one has failed.

Source: the manuals of Slurm (scancel, slurmstepd), PBS, LSF (bhist), Kubernetes (Jobs), PyTorch (elastic).
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found

_NO_CUT = r"closing signal|via signal|signal handler|handler for|install|regist|ignor"
_REASONS = (
    (
        r"(?i)TIME LIMIT|walltime|cput\b|RUNLIMIT|CPULIMIT|TERM_DEADLINE|TERM_WINDOW|deadline|^timeout:",
        "its time limit was over",
    ),
    (r"(?i)preempt|RECLAIM", "it was preempted"),
    (r"SIGHUP|Hangup|\b1 death|signal: 1\b", "its terminal or session ended (SIGHUP)"),
    (r"KeyboardInterrupt|SIGINT|\b2 death|signal: 2\b|OWNER", "it was stopped by its user"),
)
_OF_MEMORY = r"(?i)oom|out of memory"


def cuts(facts: JobFacts) -> list[Event]:
    """Lines that say that somebody or something ended the job."""
    ended = [event for event in facts.of("cancelled") if not compiled(_NO_CUT).search(event.text)]
    told = facts.of("launcher-failure", "process-killed")  # who sends a signal says why; the shell only that one came
    return [event for event in ended if not (told and event.fields.get("text", "").strip() == "Terminated")]


def before_any_cut(facts: JobFacts, events: list[Event]) -> list[Event]:
    """The events without those that follow, in the same file, from the job's end: ranks killed, connections closed."""
    first: dict[str, int] = {}
    for cut in cuts(facts):
        first.setdefault(cut.origin.file, cut.origin.sequence)
    return [
        event
        for event in events
        if event.origin.sequence < first.get(event.origin.file, event.origin.sequence + 1)
        or compiled(_OF_MEMORY).search(event.text)
    ]


def check(facts: JobFacts) -> Outcome:
    """Found where a scheduler, a launcher or the program says that it was ended."""
    events = cuts(facts)
    if not events:
        return CLEAR
    text = " ".join(event.text for event in events)
    reason = next((said for pattern, said in _REASONS if compiled(pattern).search(text)), "it was cancelled")
    return found(
        conclude(
            facts,
            events,
            severity="warning",
            summary=f"The job was cut: {reason}",
            explanation="The program did not end by itself, so its work is not done. That alone says nothing of the "
            "network; but a job that is slower than it should be ends in the same way.",
        )
    )


RULE = Rule(
    id="job-cancelled",
    title="The job was ended from outside",
    severity="warning",
    actions=("why-cancelled",),
    check=check,
    consequence="last",
)
