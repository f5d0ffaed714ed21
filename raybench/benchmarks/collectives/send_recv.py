"""A ring: every rank sends its message to the next rank while it receives that of the previous one.

Bus factor 1: each link carries S bytes each way: t >= S / B.
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, Job
from raybench.benchmarks.pattern import Segment, table_of
from raybench.benchmarks.recording import exchange


def sent(job: Job) -> list[Segment]:
    """The whole message of this rank."""
    return [Segment(offset=0, count=job.elements, table=table_of(job.rank, job.world_size, job.dtype, None))]


def expected(job: Job) -> list[Segment]:
    """The previous rank's message."""
    previous = (job.rank - 1) % job.world_size
    return [Segment(offset=0, count=job.elements, table=table_of(previous, job.world_size, job.dtype, None))]


def prepare(job: Job, buffers: Buffers) -> Callable[[], object]:
    """One batched send and receive."""
    following, previous = (job.rank + 1) % job.world_size, (job.rank - 1) % job.world_size
    if job.world_size == 1:
        return lambda: buffers.receive.copy_(buffers.send)
    operations = [
        dist.P2POp(dist.isend, buffers.send, following),
        dist.P2POp(dist.irecv, buffers.receive, previous),
    ]
    return lambda: exchange(operations)


COLLECTIVE = Collective(
    lengths=lambda job: (job.elements, job.elements),
    bus_factor=lambda _: 1.0,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
