"""Rank r ends with part r of the reduction of all ranks' messages. S counts the message before the reduction.

Bus factor (n-1)/n: the adding half of an all_reduce: n-1 transfers for each of the S bytes over n links:
t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments, torch_reduce_op
from raybench.benchmarks.messages.pattern import Segment, reduced_table, table_of

# named reduce_scatter_tensor until torch 2.12
_NAME = "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"


def sent(args: CollectiveArguments) -> list[Segment]:
    """The whole message of this rank."""
    table = table_of(args.rank, args.world_size, args.dtype, args.reduce_op)
    return [Segment(offset=0, count=args.elements, table=table)]


def expected(args: CollectiveArguments) -> list[Segment]:
    """This rank's part of the reduction."""
    table = reduced_table(args.world_size, args.dtype, args.reduce_op or "sum")
    return [Segment(offset=0, count=args.part, table=table, phase=args.rank * args.part)]


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """reduce_scatter from one tensor; in place, the output is this rank's part of the input."""
    operation = torch_reduce_op(args.reduce_op)
    single: Callable[..., object] = getattr(dist, _NAME)
    return lambda: single(buffers.receive, buffers.send, operation)


COLLECTIVE = Collective(
    lengths=lambda args: (args.elements, args.part),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
    in_place_offset=lambda args: args.rank * args.part,
)
