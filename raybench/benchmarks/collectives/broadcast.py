"""Every rank ends with the root's message.

Bus factor 1: all S bytes must leave the root over its one link: t >= S / B.
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.pattern import Segment, table_of


def sent(args: CollectiveArguments) -> list[Segment]:
    """Each rank starts with data of its own; only the root's may survive."""
    return [Segment(offset=0, count=args.elements, table=table_of(args.rank, args.world_size, args.dtype, None))]


def expected(args: CollectiveArguments) -> list[Segment]:
    """The root's message."""
    return [Segment(offset=0, count=args.elements, table=table_of(args.root or 0, args.world_size, args.dtype, None))]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """broadcast of the receive buffer (torch.distributed has no out-of-place form)."""
    root = args.root or 0
    return lambda: dist.broadcast(buffers.receive, root)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
