"""Ways to train a model on a machine: each strategy with the largest micro-batch that fits, the fastest first. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from raybench.performance_model.estimate import Estimate, EstimateRequest, estimate, least_setup
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory import estimate_memory, largest_batch
from raybench.performance_model.training_setup import Strategy, TrainingSetup

_AS_FAST = 1.03
Limit = Literal["network", "computation", "kernel starts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way: the estimate with its micro-batch, or with a single sample where not even that fits."""

    estimate: Estimate
    fits: bool | None

    @property
    def tokens_per_second(self) -> float:
        """The geometric middle of its bounds; 0 where the times are not known."""
        pair = self.estimate.tokens_per_second
        return math.sqrt(pair[0] * pair[1]) if pair else 0.0

    @property
    def limit(self) -> Limit | None:
        """What a step waits for most; None where the times are not known."""
        one = self.estimate
        if one.fastest is None or one.slowest is None:
            return None
        if one.fastest.communication > math.sqrt(one.fastest.compute * one.slowest.compute):
            return "network"
        starts = one.efficiency.least_seconds * one.efficiency.spread * one.request.accumulation
        return "kernel starts" if starts >= one.slowest.compute else "computation"


def ways_to_train(request: EstimateRequest, samples_per_rank: int) -> tuple[Way, ...]:
    """All ways, those that fit first, the fastest of them first; then those that may fit; then by the memory needed.

    ``request``: model, machine, and what does not change. Each way has the largest micro-batch that fits and divides
    the samples of a rank and step. Of ways that are as fast within 3 %, the simpler one comes first.
    """
    ways = [_way(request, setup, samples_per_rank) for setup in _setups(request)]
    best = max((way.tokens_per_second for way in ways if way.fits), default=0.0)
    return tuple(sorted(ways, key=lambda way: _rank(way, best)))


def _rank(way: Way, best: float) -> tuple[int, float]:
    if way.fits is False:
        return 2, float(way.estimate.memory.peak)
    speed = way.tokens_per_second
    as_fast = best > 0 and speed > 0
    return (0 if way.fits else 1), float(round(math.log(best / speed) / math.log(_AS_FAST))) if as_fast else 0.0


def _setups(request: EstimateRequest) -> Iterator[TrainingSetup]:
    for strategy in _strategies(request.layout):
        for checkpointing in (False, True):
            yield replace(request.setup, strategy=strategy, checkpointing=checkpointing)


def _strategies(layout: Layout) -> tuple[Strategy, ...]:
    if layout.world_size == 1:
        return ("ddp",)
    return ("ddp", "fsdp-grad-op", "fsdp", *(("fsdp-hybrid",) if layout.nodes > 1 else ()))


def _way(request: EstimateRequest, setup: TrainingSetup, samples_per_rank: int) -> Way:
    """With the largest micro-batch that fits in any case, else with the largest that may fit, else with one sample."""
    setup = replace(setup, gradients_kept=True)
    asked = replace(request, setup=setup)
    most = float("inf") if request.memory_bytes is None else float(request.memory_bytes)
    for fits, fitting in ((True, setup), (None, least_setup(asked))):
        if estimate_memory(request.model, replace(fitting, batch_size=1), request.layout).peak > most:
            continue
        largest = largest_batch(request.model, fitting, request.layout, most, most=samples_per_rank)
        batch = next(size for size in range(largest, 0, -1) if samples_per_rank % size == 0)
        return Way(estimate=_estimate(asked, batch, samples_per_rank), fits=fits)
    return Way(estimate=_estimate(asked, 1, samples_per_rank), fits=False)


def _estimate(request: EstimateRequest, batch: int, samples_per_rank: int) -> Estimate:
    setup = replace(request.setup, batch_size=batch)
    return estimate(replace(request, setup=setup, accumulation=samples_per_rank // batch))
