"""The bandwidth of every ordered pair of ranks, in rounds of disjoint pairs: who is slow, and towards whom."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext, UnsupportedError
from raybench.benchmarks.free_memory import sizes_that_fit
from raybench.benchmarks.messages.collective import count_wrong, write_segments
from raybench.benchmarks.messages.operations import sizes_of
from raybench.benchmarks.messages.pattern import Segment, table_of
from raybench.benchmarks.own_speed import own_seconds
from raybench.benchmarks.rank.recording import exchange
from raybench.benchmarks.spec import DTYPE_BYTES, MOST_OWN_SAMPLES, BenchmarkSpec, RankSamples
from raybench.benchmarks.timing import fitting, synchronize, timed_block
from raybench.rounds import disjoint_rounds

_TRIALS = 2  # transfers


def run(context: RankContext, spec: BenchmarkSpec) -> Generator[RankSamples, None, int]:
    """Measure every ordered pair at the first size of the spec. Yields only the pairs that this rank is part of.

    Bus factor 1: the link carries each byte once. All pairs of a round send at the same time, as they would in an
    all_to_all; ranks of one node then share its NICs.
    """
    if context.world_size < 2:
        raise UnsupportedError("a pair needs two ranks, and this run has one")
    context.progress.enter("preparing buffers")
    message_bytes = sizes_of(spec, context.world_size)[0]
    sizes_that_fit(context, [message_bytes])
    elements = message_bytes // DTYPE_BYTES[spec.dtype]
    buffer = torch.empty(elements, dtype=getattr(torch, spec.dtype), device=context.device)
    passes = tuple(_passes(context.world_size))
    own_samples = min(-(-spec.own_samples // len(passes)), MOST_OWN_SAMPLES)
    for index, (pairs, forward) in enumerate(passes):
        context.progress.point(index)
        own = own_seconds(context, own_samples)
        pair = next((pair for pair in pairs if context.rank in pair), None)
        if pair is None:
            _sit_out(context, spec)
        else:
            yield replace(_measure(context, spec, buffer, pair if forward else pair[::-1]), own_seconds=own)
    return 0


def _passes(world_size: int) -> Iterator[tuple[tuple[tuple[int, int], ...], bool]]:
    for pairs in disjoint_rounds(world_size):
        yield pairs, True
        yield pairs, False


def _sit_out(context: RankContext, spec: BenchmarkSpec) -> None:
    """Take part in the barriers of a round without sending."""
    context.progress.enter("waiting for the others")
    for _ in range(spec.blocks + 1):
        synchronize(context)


def _measure(context: RankContext, spec: BenchmarkSpec, buffer: torch.Tensor, pair: tuple[int, int]) -> RankSamples:
    source, destination = pair
    context.progress.enter("warming up")
    operation = _transfer(context, buffer, source, destination)
    write_segments(buffer, _message(context, spec, context.rank, len(buffer)))
    for _ in range(max(spec.warmup, 1)):
        operation()
    wrong = _wrong(context, spec, buffer, source)
    context.progress.enter("timing")
    iterations = _iterations(context, spec, operation, pair)
    stamps = []
    for block in range(spec.blocks):
        context.progress.block(block)
        stamps.append(timed_block(context, operation, iterations))
    return RankSamples(
        message_bytes=buffer.numel() * buffer.element_size(),
        element_count=buffer.numel(),
        bus_factor=1.0,
        stamps=tuple(stamps),
        wrong_elements=wrong,
        verified=spec.verify,
        contributors=2,
        source_rank=source,
        destination_rank=destination,
    )


def _transfer(context: RankContext, buffer: torch.Tensor, source: int, destination: int) -> Callable[[], object]:
    if context.rank == source:
        operations = [dist.P2POp(dist.isend, buffer, destination)]
    else:
        operations = [dist.P2POp(dist.irecv, buffer, source)]
    return lambda: exchange(operations)


def _message(context: RankContext, spec: BenchmarkSpec, rank: int, elements: int) -> list[Segment]:
    return [Segment(offset=0, count=elements, table=table_of(rank, context.world_size, spec.dtype, None))]


def _wrong(context: RankContext, spec: BenchmarkSpec, buffer: torch.Tensor, source: int) -> int:
    """Wrong elements of what the receiver just got; the sender has none."""
    if context.device.type == "cuda":  # gpu: collectives-2
        torch.cuda.synchronize(context.device)
    if not spec.verify or context.rank == source:
        return 0
    return count_wrong(buffer, _message(context, spec, source, len(buffer)))


def _iterations(
    context: RankContext, spec: BenchmarkSpec, operation: Callable[[], object], pair: tuple[int, int]
) -> int:
    """The receiver times two transfers and tells the sender how many fit a block. One barrier, as in ``_sit_out``.

    By the sender's clock a slow path is fast at first: it hands a message or two to the buffer of its socket.
    """
    seconds = timed_block(context, operation, _TRIALS)[-1] / _TRIALS
    wanted = spec.iterations or fitting(seconds, target_seconds=spec.block_seconds, most=spec.max_iterations)
    agreed = torch.tensor([wanted], device=context.device)
    source, destination = pair
    receives = context.rank == destination
    exchange([dist.P2POp(dist.isend, agreed, source) if receives else dist.P2POp(dist.irecv, agreed, destination)])
    return int(agreed.item())
