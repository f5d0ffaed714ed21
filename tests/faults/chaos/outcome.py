"""What came of one row: whether it was planted, how the command ended, and what is wrong with that."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Python's, behind whatever prefix its line has, and C++'s
STACK_TRACE = re.compile(r"Traceback \(most recent call last\)|^\s*@\s+0x[0-9a-f]+", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``skipped``: why it could not be run here. ``seconds`` from the fault to the end of the command."""

    planted: bool = False
    skipped: str = ""
    status: int | None = None
    seconds: float = 0.0
    text: str = ""
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that has ended. ``left``: processes and files that it should not have left."""

    status: int | None
    seconds: float
    text: str
    document: Mapping[str, Any] | None = None
    left: Sequence[str] = ()

    def outcome(self, complaints: Iterator[str], *, planted: bool = True) -> Outcome:
        """This, and what was found wrong with it."""
        found = tuple(complaints) if planted else ()
        return Outcome(planted=planted, status=self.status, seconds=self.seconds, text=self.text, complaints=found)


Rule = Callable[[Ended], Iterator[str]]


def ended_well(ended: Ended, *, statuses: Sequence[int], limit_seconds: float) -> Iterator[str]:
    """Complaints about what is judged the same for every command."""
    if ended.status is None:
        yield "HANG: it did not end"
        return
    if ended.status not in statuses:
        yield f"EXIT: {ended.status}, expected {' or '.join(map(str, statuses))}"
    if ended.seconds > limit_seconds:
        yield f"LATE: {ended.seconds:.0f} s after the fault, limit {limit_seconds:.0f} s"
    if STACK_TRACE.search(ended.text):
        yield "TRACE: a stack trace reached the user"
    if ended.left:
        yield f"LEFT: {len(ended.left)}: {'; '.join(ended.left[:3])}"
