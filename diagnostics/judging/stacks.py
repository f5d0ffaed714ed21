"""Failure stacks that stand alone: the innermost file tells what failed where no warning does.

NCCL warns of what failed and then prints its stack, the innermost call first. Where a log holds the INFO lines only, as
one that was filtered, the files of the stack are all that is left.
"""

from collections import defaultdict
from collections.abc import Iterator

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers import SIGNS
from diagnostics.rules.program.run_failed import says_to_go_on

MAX_LINES_BETWEEN = 60  # of other ranks, between two lines of one stack


def lone_stacks(facts: JobFacts) -> Iterator[list[Event]]:
    """Stacks, the innermost line first, of processes that did not go on, in a log whose warnings tell of no failure."""
    frames = [event for event in facts.of("trace") if event.origin.process and not facts.survived(event)]
    if not frames or any(_tells(event) for kind in facts.events for event in facts.of(kind)):
        return
    spoken: dict[object, list[Event]] = defaultdict(list)
    for event in frames:
        spoken[event.origin.file, event.origin.process, event.origin.thread].append(event)
    for lines in spoken.values():
        stack = [lines[0]]
        for event in lines[1:]:
            near = event.origin.line - stack[-1].origin.line <= MAX_LINES_BETWEEN
            if not near or event.fields["code"] != stack[0].fields["code"]:
                yield stack
                stack = []
            stack.append(event)
        yield stack


def _tells(event: Event) -> bool:
    return event.origin.level == "WARN" and event.kind not in SIGNS and not says_to_go_on(event)
