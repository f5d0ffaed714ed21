"""Time of one step between its bounds, and how far these are apart: errors of the fit, and memory that is full."""

import math
from dataclasses import dataclass, replace

from raybench.performance_model.communication import StepSeconds
from raybench.performance_model.request.own_runs import NO_CORRECTION, Correction
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.step.efficiency import Efficiency
from raybench.performance_model.step.spreads import exposed_share

# How many times as long the slowest step takes where the allocator has to free blocks and allocate them again: in seven
# FSDP runs of fms-acceleration whose blocks filled the GPU, steps took 1.0 to 1.48 times as long (docs/methods.md).
PRESSED_TIMES = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Of a request as it stands. ``fastest`` and ``slowest`` are None where the GPU's peak or the network is not known.

    ``efficiency``: as given, or of published trainings; it makes ``fastest`` and ``slowest``. ``fitted``: the same two
    at the efficiency that the fit has, once for each form that the network may have. ``correction``: what runs of one's
    own say. ``is_pressed``: blocks that wait for other streams fill the GPU, and are freed and allocated again.
    """

    request: EstimateRequest
    fastest: StepSeconds | None
    slowest: StepSeconds | None
    fitted: tuple[tuple[StepSeconds, StepSeconds], ...]
    optimizer_seconds: tuple[float, float]
    efficiency: Efficiency
    is_pressed: bool = False
    correction: Correction = NO_CORRECTION

    @property
    def is_given(self) -> bool:
        """Whether the efficiency is, as one number: its bounds are exact then."""
        return self.request.efficiency is not None and self.request.efficiency.spread == 1

    @property
    def pressed_times(self) -> float:
        """How many times as long the slowest step takes for that; the fastest takes no longer."""
        return PRESSED_TIMES if self.is_pressed else 1.0

    @property
    def computation(self) -> tuple[float, float] | None:
        """Seconds of computation, fastest and slowest."""
        if self.fastest is None or self.slowest is None:
            return None
        low, high = self.fastest.compute, self.slowest.compute
        if self.fitted and not self.is_given:
            low, high = self._corrected(low, self.fitted[0][0].compute, high)
        return low, high

    @property
    def efficiency_range(self) -> tuple[float, float]:
        """Share of the peak that the computation is taken to reach, with what runs of one's own say of it."""
        low, high = self.efficiency.low, self.efficiency.high
        if self.is_given:
            return low, high
        fastest, slowest = self._corrected(1 / high, 1 / self.efficiency.middle.low, 1 / low)
        return 1 / slowest, 1 / fastest

    def _corrected(self, low: float, middle: float, high: float) -> tuple[float, float]:
        """Bounds of seconds, as runs of one's own have it."""
        half = math.log(high / low) / 2
        times, share = self.correction.times(half), self.correction.share(half)
        return middle * times * (low / middle) ** share, middle * times * (high / middle) ** share

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Seconds of the fastest and the slowest; no step is faster than its computation is at its fastest.

        Errors are added as squares, so that what may be hidden or not (activations that go to the CPU and back, a
        hundred times as long) moves the fastest step as well.
        """
        if self.fastest is None or self.slowest is None or self.computation is None:
            return None
        if self.is_given:
            bounds = [self._between(self.fastest, self.slowest)]
        else:
            bounds = [self._around(*steps) for steps in self.fitted]
        least = max(min(low for low, _ in bounds), self.computation[0])
        return least, max(high for _, high in bounds) * self.pressed_times

    @property
    def uncorrected(self) -> tuple[float, float] | None:
        """The same, whatever runs of one's own say."""
        return replace(self, correction=NO_CORRECTION).bounds

    @property
    def likely(self) -> float | None:
        """Seconds as the fit has it, whatever the bounds; of a given efficiency the middle of the bounds."""
        if self.fitted and not self.is_given:
            middles = [self._sides(*steps)[0] for steps in self.fitted]
            return float(math.prod(middles) ** (1 / len(middles)))
        bounds = self.bounds
        return bounds and math.sqrt(bounds[0] * bounds[1])

    def _middle(self, least: float, most: float) -> float:
        """Where a step most likely is between the fit's least and most."""
        return float(least * (most / least) ** exposed_share(self.request.setup, self.request.model))

    def _around(self, fastest: StepSeconds, slowest: StepSeconds) -> tuple[float, float]:
        """Bounds around the likely step."""
        middle, low, high, computation = self._sides(fastest, slowest)
        return middle * math.exp(-low), max(middle * math.exp(high), computation)

    def _sides(self, fastest: StepSeconds, slowest: StepSeconds) -> tuple[float, float, float, float]:
        """The likely step, how far its bounds are from it, as logarithms, and its longest computation.

        The computation's errors count for its share of the step; for communication only how far whole steps differ.
        Runs of one's own move all of it, and leave a share of how far it is.
        """
        (least, most), efficiency = self._between(fastest, slowest), self.efficiency
        hidden, middle = math.log(most / least) / 2, self._middle(least, most)
        computed = min(1.0, (slowest.compute + slowest.bubble) / most)
        slow = computed * efficiency.slow + (1 - computed) * min(efficiency.slow, efficiency.slow_steps)
        fast = computed / efficiency.fast + (1 - computed) / min(efficiency.fast, efficiency.fast_steps)
        low, high = (math.hypot(math.log(side), hidden) for side in (fast, slow))
        half = (low + high) / 2
        times, share = self.correction.times(half), self.correction.share(half)
        # no slowest step is shorter than its computation
        computation = times * (slowest.compute + slowest.bubble) * efficiency.slow**share
        return middle * times, low * share, high * share, computation

    def _between(self, fastest: StepSeconds, slowest: StepSeconds) -> tuple[float, float]:
        """Least and most with the update."""
        return fastest.least + self.optimizer_seconds[0], slowest.most + self.optimizer_seconds[1]
