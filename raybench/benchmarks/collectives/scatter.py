"""Rank r ends with part r of the root's message. S counts the root's message.

Bus factor (n-1)/n: all bytes but the root's own part leave the root over its one link: t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.pattern import Segment, table_of


def sent(args: CollectiveArguments) -> list[Segment]:
    """The whole message, at the root only."""
    table = table_of(args.rank, args.world_size, args.dtype, None)
    return [Segment(offset=0, count=args.elements, table=table)] if args.is_root else []


def expected(args: CollectiveArguments) -> list[Segment]:
    """This rank's part of the root's message."""
    table = table_of(args.root or 0, args.world_size, args.dtype, None)
    return [Segment(offset=0, count=args.part, table=table, phase=args.rank * args.part)]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """Scatter from views of the root's send buffer."""
    parts = list(buffers.send.chunk(args.world_size)) if args.is_root else None
    root = args.root or 0
    return lambda: dist.scatter(buffers.receive, parts, root)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements if args.is_root else 0, args.part),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
