"""What a node's actor says to the process that holds its ranks, and back. MessagePack over a local socket."""

import msgspec

from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import Operation
from raybench.benchmarks.rank.recorded import Recorded
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.ranks.stack import Frame


class ReservePort(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Open a listening socket for the rendezvous on this address; port 0 takes any free one."""

    address: str
    port: int


class StartRanks(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fork one process per assignment. ``variables`` are set in each rank before it does anything; None removes one."""

    assignments: tuple[RankAssignment, ...]
    plan: tuple[BenchmarkSpec, ...]
    variables: dict[str, str | None]
    log_folder: str
    log_limit_bytes: int


class AskPositions(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where is every rank, and what state is its process in?"""


class AskActivities(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is every rank doing? The answer takes some seconds.

    ``whole``: by what stops a rank for a moment too, since the launch is over; a rank that still measures is spared.
    """

    whole: bool


class StopRanks(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End every rank, with the processes that it started."""


class PortReserved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The port that is held, or why none could be."""

    port: int
    error: str | None = None


class RankPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank is. ``state``: R running, S sleeping, T stopped, D in the kernel, Z ended, X gone (proc(5))."""

    rank: int
    state: str
    phase: str
    benchmark: int
    point: int
    block: int
    iteration: int


class Positions(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where every rank of this node is."""

    ranks: tuple[RankPosition, ...]


class RankActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank is doing.

    ``states``: its process states in the window, one letter a look. ``is_moving``: it got on meanwhile. ``cpu_seconds``
    and ``io_bytes`` are those of the window; None where they cannot be read. ``stack``: the main thread's frames, the
    innermost first, empty where none came; ``other_stacks``: of threads that run Python too. ``recorded``: None where
    the flight recorder did not answer. ``quiet_seconds``: since the rank moved on in its plan; ``step_seconds``: how
    long that took the last times. ``native_stack``: with the frames of libraries, where py-spy could look;
    ``nccl_ras``: what NCCL's RAS service in this rank answered, empty in ranks that do not listen.
    """

    rank: int
    states: str
    is_moving: bool
    cpu_seconds: float | None
    window_seconds: float
    io_bytes: int | None
    stack: tuple[Frame, ...]
    other_stacks: tuple[tuple[Frame, ...], ...]
    wait_channel: str | None
    kernel_stack: tuple[str, ...]
    operations: tuple[Operation, ...]
    recorded: tuple[Recorded, ...] | None
    quiet_seconds: float | None
    step_seconds: tuple[float, ...]
    native_stack: tuple[Frame, ...] = ()
    nccl_ras: str = ""


class Activities(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What every rank of this node is doing."""

    ranks: tuple[RankActivity, ...]


class RanksStopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """No rank process of this node is left."""


class RankEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An encoded ``benchmarks.events.Event`` of a rank."""

    data: bytes


class HostFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The process that holds the ranks could not do what it was told."""

    error: str


Request = ReservePort | StartRanks | AskPositions | AskActivities | StopRanks
Reply = PortReserved | Positions | Activities | RanksStopped | RankEvent | HostFailed

encode = msgspec.msgpack.encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
