"""One way to train a model on a machine, and how fast it is. Pure."""

import math
from dataclasses import dataclass, field
from typing import Literal

from raybench.performance_model.estimate.answer import Estimate

Limit = Literal["network", "computation", "kernel starts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way: the estimate with its micro-batch, or with a single sample where not even that fits.

    ``tokens_per_second``: as the fit has it, 0 where the times are not known (bounds are the wider the less is known of
    a program); ``fused`` the same with kernels that are sure to be fused. Counted once: ways are compared many times.
    """

    estimate: Estimate
    fits: bool | None
    tokens_per_second: float = field(init=False)
    fused: float = field(init=False)

    def __post_init__(self) -> None:
        one = self.estimate
        seconds = one.likely_step_seconds
        likely = one.samples_per_step * one.request.setup.sequence_length / seconds if seconds else 0.0
        object.__setattr__(self, "tokens_per_second", likely)
        object.__setattr__(self, "fused", likely * (1 + one.step.efficiency.unsure) if seconds else 0.0)

    @property
    def limit(self) -> Limit | None:
        """What a step waits for most; None where the times are not known."""
        step, accumulation = self.estimate.step, self.estimate.request.accumulation
        if step.fastest is None or step.slowest is None:
            return None
        if step.fastest.communication > math.sqrt(step.fastest.compute * step.slowest.compute):
            return "network"
        starts = step.efficiency.least_seconds * step.efficiency.spread * accumulation
        return "kernel starts" if starts * math.sqrt(2) >= step.slowest.compute else "computation"  # more than the work
