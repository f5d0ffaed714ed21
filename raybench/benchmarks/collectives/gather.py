"""The root ends with the parts of all ranks, in rank order. S counts the gathered message.

Bus factor (n-1)/n: all bytes but the root's own part enter the root over its one link: t >= S (n-1) / (n B).
"""

from collections.abc import Callable

import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.collectives.all_gather import expected as gathered
from raybench.benchmarks.collectives.all_gather import sent
from raybench.benchmarks.messages.pattern import Segment


def expected(args: CollectiveArguments) -> list[Segment]:
    """Part r is what rank r sent, at the root only."""
    return gathered(args) if args.is_root else []


def prepare(args: CollectiveArguments, buffers: Buffers) -> Callable[[], object]:
    """Gather into views of the root's receive buffer."""
    parts = list(buffers.receive.chunk(args.world_size)) if args.is_root else None
    root = args.root or 0
    return lambda: dist.gather(buffers.send, parts, root)


COLLECTIVE = Collective(
    lengths=lambda args: (args.part, args.elements if args.is_root else 0),
    bus_factor=lambda world_size: (world_size - 1) / world_size,
    sent=sent,
    expected=expected,
    prepare=prepare,
)
