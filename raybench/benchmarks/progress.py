"""Where a rank is right now, readable from outside without its help, so that a hung or stopped rank can be named.

Each rank writes five integers into memory that it shares with its parent. Writing one costs some 50 ns, so it is done
for every iteration.
"""

from collections.abc import MutableSequence
from dataclasses import dataclass

FIELDS = 5
PHASES = (
    "not started",
    "joining the process group",
    "preparing buffers",
    "warming up",
    "timing",
    "measuring overlap",
    "verifying",
    "waiting for the others",
    "finished",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of one rank: index into the plan, index of the size, block, iterations completed."""

    phase: str
    benchmark: int
    point: int
    block: int
    iteration: int

    def order(self) -> tuple[int, int, int, int, int]:
        """A key that grows as the run goes on: the rank with the smallest is behind."""
        return self.benchmark, self.point, PHASES.index(self.phase), self.block, self.iteration


class ProgressSlot:
    """The five integers of one rank, in a slice of a shared array: phase, benchmark, point, block, iteration."""

    __slots__ = ("_start", "_values")

    def __init__(self, values: MutableSequence[int] | None = None, index: int = 0) -> None:
        self._values = [0] * FIELDS if values is None else values
        self._start = index * FIELDS

    def enter(self, phase: str) -> None:
        """The rank enters a phase; its block and iteration start from zero."""
        start = self._start
        self._values[start + 3] = self._values[start + 4] = 0
        self._values[start] = PHASES.index(phase)

    def benchmark(self, index: int) -> None:
        """The rank turns to another benchmark of the plan, at its first size."""
        self._values[self._start + 1] = index
        self._values[self._start + 2] = 0

    def point(self, index: int) -> None:
        """The rank turns to another size, or another pair, of its benchmark."""
        self._values[self._start + 2] = index

    def block(self, block: int) -> None:
        """The rank starts a block of timed iterations."""
        self._values[self._start + 3] = block
        self._values[self._start + 4] = 0

    def iteration(self, completed: int) -> None:
        """The rank has completed that many iterations of its block; on a GPU the device has, not only the queueing."""
        self._values[self._start + 4] = completed

    def read(self) -> Position:
        """The position as last written."""
        phase, benchmark, point, block, iteration = self._values[self._start : self._start + FIELDS]
        return Position(phase=PHASES[phase], benchmark=benchmark, point=point, block=block, iteration=iteration)
