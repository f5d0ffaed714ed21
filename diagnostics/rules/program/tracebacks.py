"""Tracebacks of Python: how near the end of a file they stand, and which of them nothing behind tells of."""

from typing import NamedTuple

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.programs import world
from diagnostics.parsers.programs.successes import SUCCEEDED

TAIL_LINES = 150
IGNORED_LINES = 60  # behind "Exception ignored in", which Python prints of what it does without
LINES_OF_A_TRACEBACK = 40
_DONE = ("tests-ended", "work-done", SUCCEEDED)
_BESIDE = world.KINDS | {"traceback", "shell-variable", "version"}


class OpenTraceback(NamedTuple):
    """A traceback that keeps a log from showing that the job works, and what is said of it."""

    event: Event
    told: str


def open_traceback(facts: JobFacts) -> OpenTraceback | None:
    """The traceback of an exception that is not recognised, or behind which nothing shows work; None without one."""
    if (event := unread_traceback(facts)) and not facts.steps:
        return OpenTraceback(
            event,
            f"line {event.origin.line} of {event.origin.file} begins a traceback, and which exception it is of "
            "was not recognised. Look at the lines behind it.",
        )
    if event := _left_behind(facts):
        return OpenTraceback(
            event,
            f"line {event.origin.line} of {event.origin.file} begins a traceback, and no line behind it shows that the "
            "program went on to work. Look at what ended there.",
        )
    return None


def torn_off_traceback(facts: JobFacts) -> Event | None:
    """A traceback that its file ends in, or that ends an excerpt without a line of NCCL, where nothing else is told."""
    event = unread_traceback(facts)
    if event is not None and event.origin.file in facts.torn_tracebacks:
        return event
    if event is None or facts.lines_nccl or facts.steps or not facts.events.keys() <= _BESIDE:
        return None
    near = facts.last_lines.get(event.origin.file, 0) - event.origin.line <= LINES_OF_A_TRACEBACK
    return event if near else None


def unread_traceback(facts: JobFacts) -> Event | None:
    """A traceback near the end of a file, of an exception that is not recognised or that the file ends before."""
    near = (event for event in facts.of("traceback") if ends_its_file(event, facts))
    return next((event for event in near if not _is_read(event, facts)), None)


def _left_behind(facts: JobFacts) -> Event | None:
    """A traceback far above the end of a file, behind which nothing shows that the program works, or that it was done.

    What the other ranks print as they end, and what stands behind a job, may be of any length.
    """
    far = [event for event in facts.of("traceback") if not (_is_near(event, facts) or event.origin.file in facts.steps)]
    return next((event for event in far if not (_is_got_over(event, facts) or _is_done_without(event, facts))), None)


def _is_done_without(traceback: Event, facts: JobFacts) -> bool:
    """Whether a line behind a traceback says that the work was done, or it is of what the program does without."""
    done = (one.origin for one in facts.of(*_DONE) if one.origin.file == traceback.origin.file)
    behind = any(one.line > traceback.origin.line for one in done)
    return behind or is_behind("exception-ignored", traceback, IGNORED_LINES, facts)


def _is_read(traceback: Event, facts: JobFacts) -> bool:
    """Whether something behind a traceback tells of its exception, or it is of what the program does without."""
    told = facts.of(*(kind for kind in facts.events if kind != "traceback"))
    here = [event.origin.line for event in told if event.origin.file == traceback.origin.file]
    behind = any(0 <= line - traceback.origin.line <= TAIL_LINES for line in here)
    return behind or is_behind("exception-ignored", traceback, IGNORED_LINES, facts)


def is_behind(kind: str, event: Event, lines: int, facts: JobFacts) -> bool:
    """Whether an event of a kind stands at most so many lines before another one, in its file; in one line in JSON."""
    same = (one.origin for one in facts.of(kind) if one.origin.file == event.origin.file)
    before = (one.line for one in same if one.sequence < event.origin.sequence)
    return any(0 <= event.origin.line - line <= lines for line in before)


def ends_its_file(event: Event, facts: JobFacts) -> bool:
    """Whether an exception is among the last lines of its file, and the process that raised it may have ended by it."""
    return _is_near(event, facts) and not _is_got_over(event, facts)


def _is_near(event: Event, facts: JobFacts) -> bool:
    return event.origin.line > facts.last_lines.get(event.origin.file, 0) - TAIL_LINES


def _is_got_over(event: Event, facts: JobFacts) -> bool:
    """Whether who raised an exception works behind it, or steps of the program are done there."""
    return facts.survived(event) or facts.steps_are_done_behind(event)
