"""Where a rank is right now, readable from outside without its help, so that a hung or stopped rank can be named.

Each rank writes integers into memory that it shares with its parent: its position in the plan, when it last moved, and
the operations that it entered last. That costs 0.2 us an iteration and 1.5 us an operation (``tests/measurements/
recording.py``; an all_reduce of 4 bytes between two gloo ranks takes 96 at least), so it is done for every iteration.
"""

import struct
import time
from dataclasses import dataclass
from itertools import pairwise

PHASES = (
    "not started",
    "joining the process group",
    "preparing buffers",
    "warming up",
    "timing",
    "measuring overlap",
    "verifying",
    "timing its own work",
    "waiting for the others",
    "finished",
)
# What a rank can wait in for others. Point-to-point operations have no sequence that their group shares.
POINT_TO_POINT = ("send", "recv", "send_recv")
OPERATIONS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_single"),
    *("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all", "all_to_all_single"),
    *("gather", "scatter", "barrier", "init_process_group", "destroy_process_group", "store", "device"),
    *("new_group", *POINT_TO_POINT),
)
DTYPES = (
    *("", "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("uint8", "int8", "int16", "int32", "int64", "bool"),
)
NOBODY = -1
KEPT_OPERATIONS = 16
_KEPT_STEPS = 32
_POSITION = 5  # phase, benchmark, point, block, iteration
_STEPS, _ENTERED, _LEFT, _TIMES = 5, 6, 7, 8
_RING = _TIMES + _KEPT_STEPS
_RECORD = struct.Struct("10q")  # Operation, but for whether it is over
_RECORD_FIELDS = 10
FIELDS = _RING + KEPT_OPERATIONS * _RECORD_FIELDS
_clock = time.monotonic_ns


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of ``torch.distributed`` that a rank entered: the ``sequence``-th of its process group.

    ``count`` elements of ``dtype``. ``peer`` is the root, or the rank that is sent to; ``source`` the rank that is
    received from. ``group`` tells process groups apart, 0 is that of all ranks; its ranks are ``range(first, first +
    size * stride, stride)``, unknown where ``size`` is 0. ``inside``: it has not returned.
    """

    name: str
    sequence: int
    count: int
    dtype: str
    peer: int
    source: int
    group: int
    first: int
    size: int
    stride: int
    inside: bool


class ProgressSlot:
    """The integers of one rank, in a slice of a shared array."""

    __slots__ = ("_start", "_values")

    def __init__(self, values: "memoryview[int] | None" = None, index: int = 0) -> None:
        self._values = memoryview(bytearray(FIELDS * 8)).cast("q") if values is None else values
        self._start = index * FIELDS

    def enter(self, phase: str) -> None:
        """The rank enters a phase; its block and iteration start from zero."""
        start = self._start
        self._values[start + 3] = self._values[start + 4] = 0
        self._values[start] = PHASES.index(phase)
        self._moved()

    def benchmark(self, index: int) -> None:
        """The rank turns to another benchmark of the plan, at its first size."""
        self._values[self._start + 1] = index
        self._values[self._start + 2] = 0
        self._moved()

    def point(self, index: int) -> None:
        """The rank turns to another size, or another pair, of its benchmark."""
        self._values[self._start + 2] = index
        self._moved()

    def block(self, block: int) -> None:
        """The rank starts a block of timed iterations."""
        self._values[self._start + 3] = block
        self._values[self._start + 4] = 0
        self._moved()

    def iteration(self, completed: int) -> None:
        """The rank has completed that many iterations of its block; on a GPU the device has, not only the queueing."""
        self._values[self._start + 4] = completed
        self._moved()

    def _moved(self) -> None:
        values, start = self._values, self._start
        steps = values[start + _STEPS]
        values[start + _TIMES + steps % _KEPT_STEPS] = _clock()
        values[start + _STEPS] = steps + 1

    def enter_operation(self, record: tuple[int, ...]) -> None:
        """The rank enters an operation.

        ``record``: name, sequence, count, dtype, peer, source, group, first, size, stride as in ``Operation``, with
        the places of name and dtype in OPERATIONS and DTYPES.
        """
        values, start = self._values, self._start
        entered = values[start + _ENTERED]
        place = (start + _RING + entered % KEPT_OPERATIONS * _RECORD_FIELDS) * 8
        _RECORD.pack_into(values, place, *record)
        values[start + _ENTERED] = entered + 1

    def leave_operation(self) -> None:
        """The operation entered last has returned."""
        self._values[self._start + _LEFT] = self._values[self._start + _ENTERED]

    def read(self) -> Position:
        """The position as last written."""
        phase, benchmark, point, block, iteration = self._values[self._start : self._start + _POSITION]
        return Position(phase=PHASES[phase], benchmark=benchmark, point=point, block=block, iteration=iteration)

    def operations(self) -> tuple[Operation, ...]:
        """The operations entered last, oldest first. Only the last one may be inside."""
        entered, left = self._values[self._start + _ENTERED], self._values[self._start + _LEFT]
        first = max(entered - KEPT_OPERATIONS, 0)
        return tuple(self._operation(number, inside=number >= left) for number in range(first, entered))

    def _operation(self, number: int, *, inside: bool) -> Operation:
        begin = self._start + _RING + number % KEPT_OPERATIONS * _RECORD_FIELDS
        code, sequence, count, dtype, *rest = self._values[begin : begin + _RECORD_FIELDS]
        peer, source, group, first, size, stride = rest
        return Operation(
            name=OPERATIONS[code],
            sequence=sequence,
            count=count,
            dtype=DTYPES[dtype],
            peer=peer,
            source=source,
            group=group,
            first=first,
            size=size,
            stride=stride,
            inside=inside,
        )

    @property
    def moves(self) -> int:
        """Steps in the plan, and operations entered and left, since the rank was started."""
        values, start = self._values, self._start
        return values[start + _STEPS] + values[start + _ENTERED] + values[start + _LEFT]

    def last_operation(self) -> Operation | None:
        """The operation entered last, where there is one."""
        entered, left = self._values[self._start + _ENTERED], self._values[self._start + _LEFT]
        return self._operation(entered - 1, inside=entered > left) if entered else None

    def usual_seconds(self) -> float:
        """The second longest of the steps that are kept: the longest may be a preparation. 0 without any."""
        times = self.step_times()
        lengths = sorted(after - before for before, after in pairwise(times))
        return lengths[-2] / 1e9 if len(lengths) > 1 else 0.0

    def step_times(self) -> tuple[int, ...]:
        """Monotonic nanoseconds at which the rank last moved on in its plan, oldest first, as many as are kept."""
        steps = self._values[self._start + _STEPS]
        begin = self._start + _TIMES
        return tuple(self._values[begin + number % _KEPT_STEPS] for number in range(max(steps - _KEPT_STEPS, 0), steps))
