"""Whether what a node's actor passed on is an event of that node's ranks that a run can work with. Pure."""

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise

import msgspec

from raybench.benchmarks.events import (
    AgentSaid,
    BenchmarkFinished,
    BenchmarkStarted,
    Event,
    OwnSpeedMeasured,
    PointMeasured,
    RankFailed,
    RankMark,
    RankReady,
    RanksMarked,
    WorkloadMeasured,
    decode,
)
from raybench.benchmarks.machine_use import MachineSeconds
from raybench.benchmarks.messages.operations import is_matrix
from raybench.benchmarks.rank.progress import PHASES
from raybench.benchmarks.registry import labels_of, records_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec, OwnSpeed, RankSamples
from raybench.benchmarks.timed import are_times
from raybench.benchmarks.workload import RankRecord
from raybench.errors import IncompleteRunError

OfBenchmark = BenchmarkStarted | PointMeasured | OwnSpeedMeasured | WorkloadMeasured | BenchmarkFinished
_LONGEST_PIECE_BYTES = 2**17
_LEAST_WORK_SECONDS, _MOST_WORK_SECONDS = 1e-12, 1e9
_COUNTS = ("visible_gpus", "gpu_memory_bytes", "pid")  # facts of a rank that are read as numbers


class EventError(IncompleteRunError):
    """A node passed on what no rank of its own can have said."""


def event_of(data: bytes, ranks: Container[int], plan: Sequence[BenchmarkSpec], world_size: int) -> Event:
    """The event in bytes from the node of ``ranks``. Raises EventError where it is none, or not one of theirs."""
    try:
        event = decode(data, plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventError(f"what it sent is not an event of a rank ({error})") from error
    problem = _problem(event, ranks, plan, world_size)
    if problem is not None:
        raise EventError(f"what it sent is not an event of one of its ranks ({type(event).__name__}: {problem})")
    return event


def _problem(event: Event, ranks: Container[int], plan: Sequence[BenchmarkSpec], world_size: int) -> str | None:
    if isinstance(event, AgentSaid):
        return "more than a piece" if len(event.data) > _LONGEST_PIECE_BYTES else None
    if event.rank not in ranks:
        return f"rank {event.rank} is not on that node"
    problem: str | None = None
    match event:
        case RankReady():
            problem = _facts_problem(event.facts)
        case RankFailed():
            problem = None if event.error.strip() else "it does not say what failed"
        case RanksMarked():
            problem = _marks_problem(event.marks, ranks)
        case BenchmarkStarted() | PointMeasured() | OwnSpeedMeasured() | WorkloadMeasured() | BenchmarkFinished():
            problem = _measured_problem(event, plan, world_size)
    return problem


def _measured_problem(event: OfBenchmark, plan: Sequence[BenchmarkSpec], world_size: int) -> str | None:
    if not 0 <= event.benchmark < len(plan):
        return f"there is no benchmark {event.benchmark}"
    match event:
        case PointMeasured():
            return _samples_problem(event.samples, event.rank, plan[event.benchmark], world_size)
        case OwnSpeedMeasured():
            return _speed_problem(event.speed, plan[event.benchmark])
        case BenchmarkFinished():
            return _machine_problem(event.machine)
        case WorkloadMeasured():
            return _record_problem(event.record, plan[event.benchmark], world_size)
    return None


def _facts_problem(facts: Mapping[str, str]) -> str | None:
    strange = (name for name in _COUNTS if not facts.get(name, "0").isdecimal())
    return next((f"{name} is not a number" for name in strange), None)


def _machine_problem(machine: MachineSeconds | None) -> str | None:
    if machine is None:
        return None
    known = [one for one in (machine.busy, machine.stolen, machine.waiting) if one is not None]
    if not are_times([machine.seconds, *known]) or max([machine.seconds, *known]) > _MOST_WORK_SECONDS:
        return "a time that is none"
    return None if machine.seconds > 0 and machine.processors > 0 else "a machine without a processor, or no time"


def _marks_problem(marks: Sequence[RankMark], ranks: Container[int]) -> str | None:
    if any(one.rank not in ranks for one in marks):
        return "it speaks for ranks of other nodes"
    if any(one.position.phase not in PHASES for one in marks):
        return "a phase that there is not"
    if any(len(one.state) != 1 for one in marks):
        return "a state that is none"
    if any(not 0 <= one.stops <= one.stopped_looks <= one.looks for one in marks):
        return "looks that do not add up"
    counts = [count for one in marks for count in (one.moves, *one.position.order())]
    return None if min(counts, default=0) >= 0 and are_times([one.usual_seconds for one in marks]) else "a count"


def _samples_problem(samples: RankSamples, rank: int, spec: BenchmarkSpec, world_size: int) -> str | None:
    if min(samples.message_bytes, samples.element_count, samples.wrong_elements) < 0:
        return "a negative count"
    of_pairs = is_matrix(spec)
    if samples.contributors != (2 if of_pairs else world_size):
        return f"{samples.contributors} ranks are said to measure it, of {world_size}"
    pair = (samples.source_rank, samples.destination_rank)
    known = rank in pair and all(one in range(world_size) for one in pair) if of_pairs else pair == (None, None)
    if not known:
        return f"the pair {pair}, which is none of its"
    if not samples.stamps or not all(samples.stamps):
        return "a block without samples"
    seconds = [one for block in samples.stamps for one in block]
    if not are_times([*seconds, samples.bus_factor]) or not _are_of_work(samples.own_seconds):
        return "a time that is none"
    growing = (before < after for block in samples.stamps for before, after in pairwise((0.0, *block)))
    return None if all(growing) else "a clock that does not advance"


def _speed_problem(speed: OwnSpeed, spec: BenchmarkSpec) -> str | None:
    if len(speed.seconds) != spec.own_samples:
        return f"{len(speed.seconds)} samples of its own speed, of {spec.own_samples}"
    return None if _are_of_work(speed.seconds) else "a time that is none"


def _are_of_work(seconds: Sequence[float]) -> bool:
    """Whether work can take so long: ranks are compared while the run goes on, by shares of such times."""
    return all(_LEAST_WORK_SECONDS <= one <= _MOST_WORK_SECONDS for one in seconds)


def _record_problem(record: RankRecord, spec: BenchmarkSpec, world_size: int) -> str | None:
    if workload_of(spec.kind).records is None:
        return f"a record of another kind than {spec.kind}"
    if record.label not in labels_of(spec, world_size):
        return f"there is no point {record.label[:60]!r}"
    return records_of(spec.kind).problem(record)
