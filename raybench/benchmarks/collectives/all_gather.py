"""Every rank ends with the parts of all ranks, in rank order. S counts the gathered message.

Bus factor (n-1)/n: each of the S bytes must reach n-1 other ranks, over n links that work at once:
t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.pattern import Segment, table_of

# named all_gather_into_tensor until torch 2.12
_NAME = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"


def sent(args: CollectiveArguments) -> list[Segment]:
    """This rank's part."""
    return [Segment(offset=0, count=args.part, table=table_of(args.rank, args.world_size, args.dtype, None))]


def expected(args: CollectiveArguments) -> list[Segment]:
    """Part r is what rank r sent."""
    return [
        Segment(offset=rank * args.part, count=args.part, table=table_of(rank, args.world_size, args.dtype, None))
        for rank in range(args.world_size)
    ]


def prepare(_: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """all_gather into one tensor."""
    single: Callable[..., object] = getattr(dist, _NAME)
    return lambda: single(buffers.receive, buffers.send)


COLLECTIVE = Collective(
    lengths=lambda args: (args.part, args.elements),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
    in_place_offset=lambda args: args.rank * args.part,
)
