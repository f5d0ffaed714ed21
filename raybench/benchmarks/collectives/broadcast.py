"""Every rank ends with the root's message.

Bus factor 1: all S bytes must leave the root over its one link: t >= S / B.
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, Job
from raybench.benchmarks.pattern import Segment, table_of


def sent(job: Job) -> list[Segment]:
    """Each rank starts with data of its own; only the root's may survive."""
    return [Segment(offset=0, count=job.elements, table=table_of(job.rank, job.world_size, job.dtype, None))]


def expected(job: Job) -> list[Segment]:
    """The root's message."""
    return [Segment(offset=0, count=job.elements, table=table_of(job.root or 0, job.world_size, job.dtype, None))]


def prepare(job: Job, buffers: Buffers) -> Callable[[], object]:
    """broadcast of the receive buffer (torch.distributed has no out-of-place form)."""
    root = job.root or 0
    return lambda: dist.broadcast(buffers.receive, root)


COLLECTIVE = Collective(
    lengths=lambda job: (job.elements, job.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
