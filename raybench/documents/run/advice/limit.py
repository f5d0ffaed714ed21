"""What limits a training, from its own figures, and what to change then."""

import math
from collections.abc import Iterator
from typing import Literal

from raybench.documents.run.communication import MODERATE_OVERHEAD, UNKNOWN
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.threshold import HIGH_DATA_SHARE

Limit = Literal["rank", "data", "network", "compute", "unknown"]


def limit_of(point: TrainingPoint) -> Limit:
    """What a step waits for beyond its bound: a rank, its data, or the network; what none explains is compute.

    Unknown where the exposed communication of several ranks is not known, or its interval reaches over the bound, and
    where a rank may hold up the others: waiting for it would pass for the network.
    """
    if point.stragglers:
        return "rank"
    waits = point.overhead_band
    if point.data_share > HIGH_DATA_SHARE and point.data_share >= (point.overhead or 0.0):
        return "data"
    if waits in ("moderate", "high", "moderate to high"):
        return "unknown" if point.straggler_undecided else "network"
    return "compute" if waits == "low" or point.world_size == 1 else "unknown"


def limit_advice(point: TrainingPoint) -> Iterator[str]:
    """What limits it with the figure that says so, then what to change."""
    limit, share = limit_of(point), point.overhead
    if limit == "rank":
        yield f"limited by rank {point.stragglers[0].rank}, for which the others wait: see to it before anything else"
    elif limit == "data":
        made = point.known_facts.data is None
        change = (
            "random samples made on the spot, which says nothing of your loader" if made else "raise --data-workers"
        )
        yield f"limited by its data ({point.data_share:.0%} of a step waits for them): {change}"
    elif limit == "network" and share is not None:
        yield f"limited by the network ({share:.0%} of a step waits for communication, {point.overhead_band})"
        yield from _network_advice(point, share)
    elif limit == "compute":
        alone = "one rank waits for nobody" if point.world_size == 1 else "little of a step waits for the network"
        yield f"limited by what each rank computes itself ({alone}): --compile, a larger batch or --dtype may help"
    elif point.straggler_undecided:
        yield f"what limits it is open between the network and a slow rank: {point.straggler_reason}"
    elif point.overhead_band == UNKNOWN or point.communication.best_exposed is None:
        yield f"what limits it is unknown: {point.overhead_reason or 'raise --overlap-steps to measure what waits'}"
    else:
        yield f"what limits it is open: the overhead is {point.overhead_band} by its interval; raise --overlap-steps"


def _network_advice(point: TrainingPoint, share: float) -> Iterator[str]:
    if point.label.partition(" ")[0] == "fsdp":
        yield "a larger batch gathers as much for more samples; --sharding grad-op gathers once less, for more memory"
        return
    times = accumulation_for(share)
    if times is not None:
        yield (
            f"{times}x the micro-batches a step (--gradient-accumulation-steps) would by these figures wait for "
            f"{accumulated(share, times):.0%} of it, with {times}x the global batch; not measured"
        )
    yield "'raybench study communication' measures what fp16, bf16, PowerSGD or other buckets gain"


def accumulated(share: float, times: int) -> float:
    """The share that waits where ``times`` as many micro-batches compute before gradients are synchronised once."""
    return share / (share + times * (1 - share))


def accumulation_for(share: float) -> int | None:
    """How many times the micro-batches a step needs, for a share to fall below what is moderate; None for no number."""
    if share >= 1:
        return None
    least = share * (1 - MODERATE_OVERHEAD) / (MODERATE_OVERHEAD * (1 - share))
    times = max(math.floor(least) + 1, 1)
    return times if times > 1 else None
