"""What a rank tells the driver while it works. Encoded as MessagePack, tagged by type; no torch here."""

from collections.abc import Sequence
from typing import Any

import msgspec

from raybench.benchmarks.machine_use import MachineSeconds
from raybench.benchmarks.rank.progress import Operation, Position
from raybench.benchmarks.registry import records_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples


class RankReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank has joined the process group. ``facts``: versions, device, threads, niceness as the rank sees them."""

    rank: int
    facts: dict[str, str]


class BenchmarkStarted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank turns to the benchmark of that index in the plan."""

    rank: int
    benchmark: int


class PointMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank has measured one size, or one pair."""

    rank: int
    benchmark: int
    samples: RankSamples


class OwnSpeedMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank has timed its own work beside a point that it has measured: said after it, so that nobody waits."""

    rank: int
    benchmark: int
    speed: OwnSpeed


class WorkloadMeasured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank has measured a point of a workload, or goes on with it. Every rank measures every point.

    ``record`` is of the type that the workload of the benchmark has for it.
    """

    rank: int
    benchmark: int
    record: Any


class BenchmarkFinished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank is through with a benchmark; ``skipped`` says why the backend could not do it.

    ``too_large``: how many of its sizes were left out because they do not fit the memory of every rank. ``machine``:
    what its machine did meanwhile, said by the first rank of each node.
    """

    rank: int
    benchmark: int
    skipped: str | None = None
    too_large: int = 0
    machine: MachineSeconds | None = None


class RankFinished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank has done its whole plan."""

    rank: int


class RankFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An exception ended the rank. ``traceback`` is its text."""

    rank: int
    benchmark: int
    error: str
    traceback: str


class RankExited(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rank's process has ended; said by its parent. A negative ``code`` is the signal that killed it."""

    rank: int
    code: int
    output_tail: str


class RankMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank has come, seen without its help.

    ``state``: of its process, as in proc(5). ``moves`` grows with each step in its plan and each operation entered or
    left; ``operation`` is the last one. ``usual_seconds``: the second longest of its last steps, 0 without any.
    ``looks``: how often its state was looked at until now, some times a second; in ``stopped_looks`` it was stopped,
    and in ``stops`` of these it was not at the look before.
    """

    rank: int
    state: str
    position: Position
    moves: int
    usual_seconds: float
    operation: Operation | None = None
    looks: int = 0
    stopped_looks: int = 0
    stops: int = 0


class RanksMarked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where all ranks of a node are, each second; said by their parent. ``rank`` is the first of them."""

    rank: int
    marks: tuple[RankMark, ...]


class AgentSaid(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Lines of the diagnostics agent of the node's machine, or pieces of them, as they came."""

    data: bytes


Event = (
    RankReady
    | BenchmarkStarted
    | PointMeasured
    | OwnSpeedMeasured
    | WorkloadMeasured
    | BenchmarkFinished
    | RankFinished
    | RankFailed
    | RankExited
    | RanksMarked
    | AgentSaid
)

_DECODER = msgspec.msgpack.Decoder(Event)
_ENCODER = msgspec.msgpack.Encoder()


def encode(event: Event) -> bytes:
    """An event as bytes."""
    return _ENCODER.encode(event)


def decode(data: bytes, plan: Sequence[BenchmarkSpec]) -> Event:
    """The event in bytes made by ``encode``, of a rank that runs the plan.

    Raises msgspec.DecodeError for anything else. A record of a benchmark that the plan lacks is left as it is.
    """
    event: Event = _DECODER.decode(data)
    if isinstance(event, WorkloadMeasured) and 0 <= event.benchmark < len(plan):
        return msgspec.structs.replace(event, record=_typed(event.record, plan[event.benchmark]))
    return event


def _typed(record: Any, spec: BenchmarkSpec) -> Any:
    if workload_of(spec.kind).records is None:
        raise msgspec.ValidationError(f"a record of another kind than {spec.kind}")
    return msgspec.convert(record, records_of(spec.kind).record)
