"""The one driver of all collectives: for each size allocate, warm up, time blocks, check one operation exactly."""

import importlib
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, Job, RankContext, UnsupportedError
from raybench.benchmarks.pattern import PERIOD, Segment, tolerance_of
from raybench.benchmarks.registry import BENCHMARKS, sizes_of
from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec, RankSamples
from raybench.benchmarks.timing import Stamps, iterations_for, synchronize, timed_block

_CHECK_ELEMENTS = 2**24  # expected values are made this many at a time, so that a check needs no second buffer
_UNSUPPORTED = (
    "not support",
    "unsupported",
    "not implemented",
    "invalid scalar type",
    "cannot use reduceop",
    "invalid reduceop",
)


def run(context: RankContext, spec: BenchmarkSpec) -> Iterator[RankSamples]:
    """Sweep one collective. Yields this rank's samples size after size, the same sizes in every rank.

    Raises UnsupportedError, in every rank alike, where the backend lacks the operation, type or reduction.
    """
    collective: Collective = importlib.import_module(BENCHMARKS[spec.name].module).COLLECTIVE
    _probe(context, spec, collective)
    context.progress.enter("preparing buffers")
    jobs = _jobs(context, spec)
    memory = _Memory(context, spec, collective, jobs)
    for index, job in enumerate(jobs[: memory.fitting]):
        context.progress.point(index)
        yield _measure(context, spec, collective, job, memory.buffers(job))


def _jobs(context: RankContext, spec: BenchmarkSpec) -> list[Job]:
    element_bytes = DTYPE_BYTES[spec.dtype]
    return [_job(context, spec, size // element_bytes) for size in sizes_of(spec, context.world_size)]


def _job(context: RankContext, spec: BenchmarkSpec, elements: int) -> Job:
    return Job(
        rank=context.rank,
        world_size=context.world_size,
        elements=elements,
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        root=spec.root,
    )


class _Memory:
    """Buffers for the largest size that fits every rank, allocated once; smaller sizes use their first part."""

    def __init__(self, context: RankContext, spec: BenchmarkSpec, collective: Collective, jobs: list[Job]) -> None:
        self._collective, self._in_place = collective, spec.in_place
        free = _free_bytes(context)
        needs = [sum(collective.lengths(job)) * DTYPE_BYTES[spec.dtype] for job in jobs]
        own = sum(need <= free * 0.8 for need in needs)
        agreed = torch.tensor([own], device=context.device)
        dist.all_reduce(agreed, dist.ReduceOp.MIN)
        self.fitting = int(agreed.item())
        if not self.fitting:
            raise UnsupportedError(
                f"{needs[0]} bytes of buffers do not fit the memory of every rank ({free} bytes free on rank "
                f"{context.rank}); ask for smaller --sizes"
            )
        dtype = getattr(torch, spec.dtype)
        send, receive = collective.lengths(jobs[self.fitting - 1])
        longest = max(send, receive) if spec.in_place else receive
        self._receive = torch.empty(longest, dtype=dtype, device=context.device)
        self._send = self._receive if spec.in_place else torch.empty(send, dtype=dtype, device=context.device)

    def buffers(self, job: Job) -> Buffers:
        """Send and receive tensors for one size."""
        send, receive = self._collective.lengths(job)
        if not self._in_place:
            return Buffers(send=self._send[:send], receive=self._receive[:receive])
        offset = self._collective.in_place_offset(job)
        if send < receive:
            return Buffers(send=self._receive[offset : offset + send], receive=self._receive[:receive])
        first = offset if send > receive else 0
        return Buffers(send=self._receive[:send], receive=self._receive[first : first + receive])


def _free_bytes(context: RankContext) -> int:
    if context.device.type == "cuda":
        return int(torch.cuda.mem_get_info(context.device)[0])
    import psutil  # noqa: PLC0415 - not needed on a GPU

    return int(psutil.virtual_memory().available) // max(context.ranks_on_machine, 1)


def _probe(context: RankContext, spec: BenchmarkSpec, collective: Collective) -> None:
    """One smallest operation, so that what the backend lacks is said before anything is measured.

    An average of integers is not even tried on gloo: it fails halfway, and what it leaves running in gloo's threads
    breaks or hangs an operation some benchmarks later (torch 2.13).
    """
    if context.backend == "gloo" and spec.reduce_op == "avg" and "int" in spec.dtype:
        raise UnsupportedError(f"gloo does not offer {spec.name} of {spec.dtype} with avg: it averages floats only")
    job = _job(context, spec, context.world_size)
    send, receive = collective.lengths(job)
    dtype = getattr(torch, spec.dtype)
    try:
        buffers = Buffers(
            send=torch.zeros(send, dtype=dtype, device=context.device),
            receive=torch.zeros(receive, dtype=dtype, device=context.device),
        )
        collective.prepare(job, buffers)()
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        if not any(word in str(error).lower() for word in _UNSUPPORTED):
            raise
        reason = str(error).strip().splitlines()[0]
        what = f"{spec.name} of {spec.dtype}" + (f" with {spec.reduce_op}" if spec.reduce_op else "")
        raise UnsupportedError(f"{context.backend} does not offer {what}: {reason}") from error


def _measure(
    context: RankContext, spec: BenchmarkSpec, collective: Collective, job: Job, buffers: Buffers
) -> RankSamples:
    operation = collective.prepare(job, buffers)
    write_segments(buffers.send, collective.sent(job))
    iterations = _warm_up(context, spec, operation)
    context.progress.enter("timing")
    stamps: list[Stamps] = []
    for block in range(spec.blocks):
        context.progress.block(block)
        stamps.append(timed_block(context, operation, iterations))
    return RankSamples(
        message_bytes=job.elements * DTYPE_BYTES[job.dtype],
        element_count=job.elements,
        bus_factor=collective.bus_factor(context.world_size),
        stamps=tuple(stamps),
        wrong_elements=_verify(context, collective, job, buffers, operation) if spec.verify else 0,
        verified=spec.verify,
        contributors=context.world_size,
    )


def _warm_up(context: RankContext, spec: BenchmarkSpec, operation: Callable[[], object]) -> int:
    """Untimed operations; then the iterations of a block, from how long the last of them took."""
    context.progress.enter("warming up")
    if spec.warmup:
        timed_block(context, operation, spec.warmup)
    if spec.iterations is not None:
        return spec.iterations
    trial = timed_block(context, operation, 2)
    return iterations_for(context, trial[1] - trial[0], target_seconds=spec.block_seconds, most=spec.max_iterations)


def _verify(
    context: RankContext,
    collective: Collective,
    job: Job,
    buffers: Buffers,
    operation: Callable[[], object],
) -> int:
    """Elements of this rank's receive buffer that are wrong after one operation on fresh data."""
    context.progress.enter("verifying")
    buffers.receive.fill_(125)  # in no table: what is not written shows, and so does what an earlier operation left
    write_segments(buffers.send, collective.sent(job))
    synchronize(context)
    operation()
    if context.device.type == "cuda":
        torch.cuda.synchronize(context.device)
    return count_wrong(buffers.receive, collective.expected(job), tolerance_of(job.reduce_op, job.world_size))


def write_segments(tensor: torch.Tensor, segments: Iterable[Segment]) -> None:
    """Fill parts of a one-dimensional tensor with their repeated tables."""
    for segment, start, values in _pieces(tensor, segments):
        tensor[segment.offset + start : segment.offset + start + len(values)] = values


def count_wrong(tensor: torch.Tensor, segments: Iterable[Segment], tolerance: float = 0.0) -> int:
    """Elements that differ from their repeated tables by more than the relative tolerance; NaN always differs."""
    wrong = 0
    for segment, start, values in _pieces(tensor, segments):
        found = tensor[segment.offset + start : segment.offset + start + len(values)]
        equal = found == values if not tolerance else (found - values).abs() <= values.abs() * tolerance
        wrong += len(values) - int(equal.sum().item())
    return wrong


def _pieces(tensor: torch.Tensor, segments: Iterable[Segment]) -> Iterator[tuple[Segment, int, torch.Tensor]]:
    for segment in segments:
        table = torch.tensor(segment.table, dtype=tensor.dtype, device=tensor.device)
        for start in range(0, segment.count, _CHECK_ELEMENTS):
            count = min(_CHECK_ELEMENTS, segment.count - start)
            phase = (segment.phase + start) % PERIOD
            yield segment, start, table.repeat((phase + count) // PERIOD + 1)[phase : phase + count]
