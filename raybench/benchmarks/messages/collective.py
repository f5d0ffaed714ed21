"""The one driver of all collectives: for each size allocate, warm up, time blocks, check one operation exactly."""

import importlib
from collections.abc import Generator, Iterable, Iterator

import torch

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments, Prepared, RankContext
from raybench.benchmarks.free_memory import sizes_that_fit
from raybench.benchmarks.messages.operations import OPERATIONS, sizes_of
from raybench.benchmarks.messages.pattern import PERIOD, Segment, poison_of, tolerance_of
from raybench.benchmarks.messages.probe import prepared, probe
from raybench.benchmarks.own_speed import own_seconds
from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec, OwnSpeed, RankSamples
from raybench.benchmarks.timing import Stamps, iterations_for, synchronize, timed_block

_CHECK_ELEMENTS = 2**24  # expected values are made this many at a time, so that a check needs no second buffer


def run(context: RankContext, spec: BenchmarkSpec) -> Generator[RankSamples | OwnSpeed, None, int]:
    """Sweep one collective. Yields this rank's samples size after size, the same sizes in every rank, and its speed.

    Returns how many of the largest sizes do not fit the memory.

    Raises UnsupportedError, in every rank alike, where the backend lacks the operation, type or reduction.
    """
    collective: Collective = importlib.import_module(OPERATIONS[spec.name].module).COLLECTIVE
    probe(context, spec, collective)
    context.progress.enter("preparing buffers")
    calls = _jobs(context, spec)
    memory = _Memory(context, spec, collective, calls)
    for index, args in enumerate(calls[: memory.fitting]):
        context.progress.point(index)
        samples = _measure(context, spec, collective, args, memory.buffers(args))
        yield samples
        if spec.own_samples:
            context.progress.enter("timing its own work")
            seconds = own_seconds(context, spec.own_samples)
            yield OwnSpeed(message_bytes=samples.message_bytes, seconds=seconds)
    return len(calls) - memory.fitting


def _jobs(context: RankContext, spec: BenchmarkSpec) -> list[CollectiveArguments]:
    element_bytes = DTYPE_BYTES[spec.dtype]
    return [_job(context, spec, size // element_bytes) for size in sizes_of(spec, context.world_size)]


def _job(context: RankContext, spec: BenchmarkSpec, elements: int) -> CollectiveArguments:
    return CollectiveArguments(
        rank=context.rank,
        world_size=context.world_size,
        elements=elements,
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        root=spec.root,
    )


class _Memory:
    """Buffers for the largest size that fits every rank, allocated once; smaller sizes use their first part."""

    def __init__(
        self, context: RankContext, spec: BenchmarkSpec, collective: Collective, calls: list[CollectiveArguments]
    ) -> None:
        self._collective, self._in_place = collective, spec.in_place
        copies = 1 if context.ring is None else 2  # MLX holds both buffers once more
        self.fitting = sizes_that_fit(context, [self._need(args) * copies for args in calls])
        dtype = getattr(torch, spec.dtype)
        send, receive = collective.lengths(calls[self.fitting - 1])
        longest = max(send, receive) if spec.in_place else receive
        self._receive = torch.empty(longest, dtype=dtype, device=context.device)
        self._send = self._receive if spec.in_place else torch.empty(send, dtype=dtype, device=context.device)

    def _need(self, args: CollectiveArguments) -> int:
        lengths = self._collective.lengths(args)
        return (max(lengths) if self._in_place else sum(lengths)) * DTYPE_BYTES[args.dtype]

    def buffers(self, args: CollectiveArguments) -> Buffers:
        """Send and receive tensors for one size."""
        send, receive = self._collective.lengths(args)
        if not self._in_place:
            return Buffers(send=self._send[:send], receive=self._receive[:receive])
        offset = self._collective.in_place_offset(args)
        if send < receive:
            return Buffers(send=self._receive[offset : offset + send], receive=self._receive[:receive])
        first = offset if send > receive else 0
        return Buffers(send=self._receive[:send], receive=self._receive[first : first + receive])


def _measure(
    context: RankContext, spec: BenchmarkSpec, collective: Collective, args: CollectiveArguments, buffers: Buffers
) -> RankSamples:
    operation = prepared(context, spec, collective, args, buffers)
    write_segments(buffers.send, collective.sent(args))
    operation.load()
    iterations = _warm_up(context, spec, operation)
    context.progress.enter("timing")
    stamps: list[Stamps] = []
    for block in range(spec.blocks):
        context.progress.block(block)
        stamps.append(timed_block(context, operation.call, iterations))
    return RankSamples(
        message_bytes=args.elements * DTYPE_BYTES[args.dtype],
        element_count=args.elements,
        bus_factor=collective.bus_factor(context.world_size),
        stamps=tuple(stamps),
        wrong_elements=_verify(context, collective, args, buffers, operation) if spec.verify else 0,
        verified=spec.verify,
        contributors=context.world_size,
    )


def _warm_up(context: RankContext, spec: BenchmarkSpec, operation: Prepared) -> int:
    """Untimed operations; then the iterations of a block, from how long the last of them took."""
    context.progress.enter("warming up")
    if spec.warmup:
        timed_block(context, operation.call, spec.warmup)
    if spec.iterations is not None:
        return spec.iterations
    trial = timed_block(context, operation.call, 2)
    return iterations_for(context, trial[1] - trial[0], target_seconds=spec.block_seconds, most=spec.max_iterations)


def _verify(
    context: RankContext,
    collective: Collective,
    args: CollectiveArguments,
    buffers: Buffers,
    operation: Prepared,
) -> int:
    """Elements of this rank's receive buffer that are wrong after one operation on fresh data."""
    context.progress.enter("verifying")
    sent, expected = list(collective.sent(args)), list(collective.expected(args))
    buffers.receive.fill_(poison_of(args.dtype, [*sent, *expected]))  # nor may what an earlier operation left stay
    write_segments(buffers.send, sent)
    operation.load()
    synchronize(context)
    operation.call()
    if context.device.type == "cuda":  # gpu: collectives-1
        torch.cuda.synchronize(context.device)
    operation.store()
    return count_wrong(buffers.receive, expected, tolerance_of(args.reduce_op, args.world_size, args.dtype))


def write_segments(tensor: torch.Tensor, segments: Iterable[Segment]) -> None:
    """Fill parts of a one-dimensional tensor with their repeated tables."""
    for segment, start, values in _pieces(tensor, segments):
        tensor[segment.offset + start : segment.offset + start + len(values)] = values


def count_wrong(tensor: torch.Tensor, segments: Iterable[Segment], tolerance: float = 0.0) -> int:
    """Elements that differ from their repeated tables by more than the relative tolerance; NaN always differs."""
    wrong = 0
    for segment, start, values in _pieces(tensor, segments):
        found = tensor[segment.offset + start : segment.offset + start + len(values)]
        equal = _within(found, values, tolerance) if tolerance else found == values
        wrong += len(values) - int(equal.sum().item())
    return wrong


def _within(found: torch.Tensor, values: torch.Tensor, tolerance: float) -> torch.Tensor:
    wide = torch.promote_types(found.dtype, torch.float32)  # a bound of a few roundings is not computed with rounding
    found, values = found.to(wide), values.to(wide)
    return (found - values).abs() <= values.abs() * tolerance


def _pieces(tensor: torch.Tensor, segments: Iterable[Segment]) -> Iterator[tuple[Segment, int, torch.Tensor]]:
    for segment in segments:
        table = torch.tensor(segment.table, dtype=tensor.dtype, device=tensor.device)
        for start in range(0, segment.count, _CHECK_ELEMENTS):
            count = min(_CHECK_ELEMENTS, segment.count - start)
            phase = (segment.phase + start) % PERIOD
            yield segment, start, table.repeat((phase + count) // PERIOD + 1)[phase : phase + count]
