"""The root ends with the reduction of all ranks' messages; the others' buffers are then undefined and not checked.

Bus factor 1: all S bytes of the result must enter the root over its one link: t >= S / B.
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
    """The reduction, at the root only."""
    if not args.is_root:
        return []
    table = reduced_table(args.world_size, args.dtype, args.reduce_op or "sum")
    return [Segment(offset=0, count=args.elements, table=table)]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """Reduce of the receive buffer to the root (torch.distributed has no out-of-place form)."""
    operation, root = torch_reduce_op(args.reduce_op), args.root or 0
    return lambda: dist.reduce(buffers.receive, root, operation)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
