"""Part r of rank s's message ends as part s on rank r. S counts one rank's message.

Bus factor (n-1)/n: each rank sends all but its own part over its link: t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.pattern import Segment, table_of


def sent(args: CollectiveArguments) -> list[Segment]:
    """The whole message of this rank."""
    return [Segment(offset=0, count=args.elements, table=table_of(args.rank, args.world_size, args.dtype, None))]


def expected(args: CollectiveArguments) -> list[Segment]:
    """Part s is this rank's part of what rank s sent."""
    return [
        Segment(
            offset=sender * args.part,
            count=args.part,
            table=table_of(sender, args.world_size, args.dtype, None),
            phase=args.rank * args.part,
        )
        for sender in range(args.world_size)
    ]


def prepare(_: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """all_to_all between two tensors, in equal parts."""
    return lambda: dist.all_to_all_single(buffers.receive, buffers.send)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.elements),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
