"""Rank r ends with part r of the root's message. S counts the root's message.

Bus factor (n-1)/n: all bytes but the root's own part leave the root over its one link: t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, Job
from raybench.benchmarks.pattern import Segment, table_of


def sent(job: Job) -> list[Segment]:
    """The whole message, at the root only."""
    table = table_of(job.rank, job.world_size, job.dtype, None)
    return [Segment(offset=0, count=job.elements, table=table)] if job.is_root else []


def expected(job: Job) -> list[Segment]:
    """This rank's part of the root's message."""
    table = table_of(job.root or 0, job.world_size, job.dtype, None)
    return [Segment(offset=0, count=job.part, table=table, phase=job.rank * job.part)]


def prepare(job: Job, buffers: Buffers) -> Callable[[], object]:
    """Scatter from views of the root's send buffer."""
    parts = list(buffers.send.chunk(job.world_size)) if job.is_root else None
    root = job.root or 0
    return lambda: dist.scatter(buffers.receive, parts, root)


COLLECTIVE = Collective(
    lengths=lambda job: (job.elements if job.is_root else 0, job.part),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
