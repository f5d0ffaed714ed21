"""Failure stacks that NCCL printed at level INFO as the last that a process did, where nothing else tells of it."""

from collections import defaultdict

from diagnostics.events import Event, ProcessKey
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.parsers.programs.successes import SUCCEEDED

_DONE = ("tests-ended", "work-done", SUCCEEDED)
_OF_COLLNET = r"(?:^|/)(?:coll_net\.|net_sharp|sharp)"  # which NCCL does without
_OF_A_CONNECTION = r"^(?:\S*/)?socket\.(?:cc|h)$"  # alone it tells that a peer closed it, as at the end of a job


def ended_stack(facts: JobFacts) -> list[Event]:
    """The lines of the first stack behind which its process does nothing; empty where there is none, or all went on.

    Before its first communicator a process tries what it can do without, such as plugins: only an excerpt ends there.
    """
    stacks: dict[tuple[str, ProcessKey], list[Event]] = defaultdict(list)
    for event in facts.of("stack-line"):
        if event.origin.process is not None and not _is_got_over(event, facts):
            stacks[event.origin.file, event.origin.process].append(event)
    return next((lines for lines in stacks.values() if not _is_harmless(lines)), [])


def _is_got_over(event: Event, facts: JobFacts) -> bool:
    """Whether its process works behind a line, or not before it, destroys communicators, or the program ends well."""
    origin = event.origin
    process = facts.processes.get(origin.process) if origin.process else None
    if process is None or process.last_work < 0:
        return True
    if facts.survived(event) or origin.file in facts.steps or facts.steps_are_done_behind(event):
        return True
    if any(one.origin.process == origin.process for one in facts.of("destroy")):
        return True
    done = (one.origin for one in facts.of(*_DONE))
    return any(one.file == origin.file and one.sequence > origin.sequence for one in done)


def _is_harmless(stack: list[Event]) -> bool:
    """Whether lines tell of CollNet alone, or only that a peer closed a connection."""
    sources = [event.fields["source"] for event in stack]
    closed = all(compiled(_OF_A_CONNECTION).search(source) for source in sources)
    return closed or any(compiled(_OF_COLLNET).search(source) for source in sources)
