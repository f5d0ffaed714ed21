"""A ring: every rank sends its message to the next rank while it receives that of the previous one.

Bus factor 1: each link carries S bytes each way: t >= S / B.
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.pattern import Segment, table_of
from raybench.benchmarks.rank.recording import exchange


def sent(args: CollectiveArguments) -> list[Segment]:
    """The whole message of this rank."""
    return [Segment(offset=0, count=args.elements, table=table_of(args.rank, args.world_size, args.dtype, None))]


def expected(args: CollectiveArguments) -> list[Segment]:
    """The previous rank's message."""
    previous = (args.rank - 1) % args.world_size
    return [Segment(offset=0, count=args.elements, table=table_of(previous, args.world_size, args.dtype, None))]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """One batched send and receive."""
    following, previous = (args.rank + 1) % args.world_size, (args.rank - 1) % args.world_size
    if args.world_size == 1:
        return lambda: buffers.receive.copy_(buffers.send)
    operations = [
        dist.P2POp(dist.isend, buffers.send, following),
        dist.P2POp(dist.irecv, buffers.receive, previous),
    ]
    return lambda: exchange(operations)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
