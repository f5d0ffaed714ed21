"""Every rank ends with the reduction of all ranks' messages.

Bus factor 2(n-1)/n: each of the S bytes must be added up over n ranks (n-1 transfers) and the sum handed back to all
(n-1 transfers), over n links that work at once: t >= S * 2(n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments, torch_reduce_op
from raybench.benchmarks.messages.pattern import Segment, reduced_table, table_of


def sent(args: CollectiveArguments) -> list[Segment]:
    """The whole message of this rank."""
    table = table_of(args.rank, args.world_size, args.dtype, args.reduce_op)
    return [Segment(offset=0, count=args.elements, table=table)]


def expected(args: CollectiveArguments) -> list[Segment]:
    """The reduction over all ranks, everywhere."""
    table = reduced_table(args.world_size, args.dtype, args.reduce_op or "sum")
    return [Segment(offset=0, count=args.elements, table=table)]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """all_reduce of the receive buffer (torch.distributed has no out-of-place form)."""
    operation = torch_reduce_op(args.reduce_op)
    return lambda: dist.all_reduce(buffers.receive, operation)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.elements),
    bus_factor=lambda world_size: 2 * (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
