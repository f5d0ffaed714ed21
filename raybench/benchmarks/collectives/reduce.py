"""The root ends with the reduction of all ranks' messages; the others' buffers are then undefined and not checked.

Bus factor 1: all S bytes of the result must enter the root over its one link: t >= S / B.
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, Job, torch_reduce_op
from raybench.benchmarks.pattern import Segment, reduced_table, table_of


def sent(job: Job) -> list[Segment]:
    """The whole message of this rank."""
    table = table_of(job.rank, job.world_size, job.dtype, job.reduce_op)
    return [Segment(offset=0, count=job.elements, table=table)]


def expected(job: Job) -> list[Segment]:
    """The reduction, at the root only."""
    if not job.is_root:
        return []
    table = reduced_table(job.world_size, job.dtype, job.reduce_op or "sum")
    return [Segment(offset=0, count=job.elements, table=table)]


def prepare(job: Job, buffers: Buffers) -> Callable[[], object]:
    """Reduce of the receive buffer to the root (torch.distributed has no out-of-place form)."""
    operation, root = torch_reduce_op(job.reduce_op), job.root or 0
    return lambda: dist.reduce(buffers.receive, root, operation)


COLLECTIVE = Collective(
    lengths=lambda job: (job.elements, job.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
