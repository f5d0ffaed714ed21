"""What is told of a training: whether it fits, how long a step takes, how fast that is, and what it costs.

Each figure is derived from the memory and the step's time of the request; what is not known (the peak of a GPU, a
price) is None.
"""

import math
from dataclasses import dataclass

from raybench.performance_model.communication import Traffic
from raybench.performance_model.cost import Cost
from raybench.performance_model.estimate.measured import Measured
from raybench.performance_model.estimate.step_time import StepTime
from raybench.performance_model.memory.rank import LONG_SHARE, MemoryEstimate
from raybench.performance_model.nearest.fit import NearestFit
from raybench.performance_model.request.forms import LargestBatch
from raybench.performance_model.request.own_runs import Traits
from raybench.performance_model.request.request import EstimateRequest, sure_bytes
from raybench.performance_model.step.bounds import model_flops_per_token


def outermost(*bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """The outermost of the bounds that are known; None where none are."""
    known = [one for one in bounds if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def needs_no_more(request: EstimateRequest, least: MemoryEstimate, limit: float) -> bool:
    """Whether it may run in so many bytes, in the form that needs least."""
    return least.needed <= limit * (1 + LONG_SHARE * request.is_known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The answer. ``step``: time of the request as it stands.

    ``measured``: of this very setting; it replaces the bounds of the step, the peak and the verdict. ``meant_seconds``:
    bounds of the step over all values of options that are left open, and ``meant_computation`` those of its
    computation (``with_meant``). ``recomputed``: the least memory with blocks computed again, where nobody says
    whether they are and it does not fit without.
    """

    request: EstimateRequest
    traffic: Traffic
    communication_seconds: float | None
    memory: MemoryEstimate
    least_memory: MemoryEstimate
    largest_batch: LargestBatch | None
    nearest: NearestFit | None
    step: StepTime
    unknown: tuple[str, ...]
    recomputed: MemoryEstimate | None = None
    measured: Measured | None = None
    most_peak: int = 0
    lean_peak: int = 0  # 0: that of ``least_memory``
    meant_seconds: tuple[float, float] | None = None
    meant_computation: tuple[float, float] | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the device's memory.

        None where its size or an option that decides is not known, or the two are nearer than an estimate is exact.
        """
        if self.measured is not None and self.measured.fits is not None:
            return self.measured.fits
        limit = self.request.memory_bytes
        if limit is None:
            return None
        said = self._fits_in(limit)
        return said if all(self._fits_in(size) is said for size in self.request.other_sizes) else None

    def _fits_in(self, limit: float) -> bool | None:
        """Whether it fits into so many bytes."""
        if max(self.memory.peak, self.most_peak) <= sure_bytes(limit):
            return True
        least = self.least_memory if self.recomputed is None else self.recomputed
        return None if needs_no_more(self.request, least, limit) else False

    @property
    def hangs_on_size(self) -> bool:
        """Whether it fits into the GPU's memory as it is taken, or not, and GPUs of that name have another size too."""
        limit = self.request.memory_bytes
        return self.fits is None and limit is not None and self._fits_in(limit) is not None

    @property
    def peak(self) -> int:
        """Bytes that the device must have: as measured, else of the form that needs most."""
        return (self.measured and self.measured.peak) or max(self.memory.peak, self.most_peak)

    @property
    def least_peak(self) -> int:
        """The same of the form that needs least, and at most the request's own: ZeRO needs more for small models."""
        return (self.measured and self.measured.least_peak) or min(
            self.lean_peak or self.least_memory.peak, self.memory.peak
        )

    @property
    def least_needed(self) -> int | None:
        """What that form cannot do without, where it may fit and its peak is more than there is; else None.

        The rest of the peak is blocks that PyTorch's allocator lets go of before it fails.
        """
        limit = self.request.memory_bytes
        if limit is None or self.fits is not None or self.least_peak <= limit:
            return None
        return (self.least_memory if self.recomputed is None else self.recomputed).needed

    @property
    def likely_peak(self) -> int:
        """The same of the request as it stands, by which published figures are judged: between least and most.

        Where kernels or a loss are open it has those that take most, but a compiled model's loss is compiled with it.
        """
        return (self.measured and self.measured.peak) or self.memory.peak

    @property
    def said(self) -> tuple[object, ...]:
        """What is said of options that may be open, by which the same training meant otherwise is told apart."""
        setup = self.request.setup
        names = ("kernels", "loss", "compiled", "native_attention", "masked_attention", "flash_attention", "overlaps")
        of_experts = (setup.sends_once, setup.overlaps_exchange, setup.is_balanced)
        return (*(getattr(setup, name) for name in names), setup.fused_optimizer, *of_experts)

    @property
    def samples_per_step(self) -> int:
        """Over all ranks."""
        return self.request.setup.batch_size * self.request.accumulation * self.request.layout.data

    @property
    def step_seconds(self) -> tuple[float, float] | None:
        """As measured, else as estimated: fastest and slowest."""
        if self.measured is not None and self.measured.step_seconds is not None:
            return self.measured.step_seconds
        return self.estimated_step_seconds

    @property
    def estimated_step_seconds(self) -> tuple[float, float] | None:
        """Fastest: all communication hidden that can be, high efficiency. Slowest: none hidden, low efficiency.

        How much is hidden and how fast computation is are independent errors, added as squares, unless the efficiency
        is given. Where the network is open, the bounds hold for its fastest and its slowest form; so they do for open
        options once ``with_meant`` has looked at them.
        """
        return self.meant_seconds if self._is_meant_otherwise else outermost(self.step.bounds, self.meant_seconds)

    @property
    def computation_seconds(self) -> tuple[float, float] | None:
        """Computation of a step, fastest and slowest, over all values of open options as the step's bounds."""
        computation = self.step.computation
        if computation is None or self._is_meant_otherwise:
            return self.meant_computation
        return outermost(computation, self.meant_computation)

    @property
    def _is_meant_otherwise(self) -> bool:
        """Whether it runs with blocks computed again alone, so that its time without is none of its bounds."""
        return self.recomputed is not None and self.meant_seconds is not None

    @property
    def traits(self) -> Traits | None:
        """What makes other trainings like it; None where no step time is known, or the efficiency is given."""
        request, step, seconds = self.request, self.step, self.step.uncorrected
        if seconds is None or step.slowest is None or not step.fitted or request.gpu is None or step.is_given:
            return None
        setup, layout, fitted = request.setup, request.layout, step.fitted[0][0]
        return Traits(
            ranks=layout.world_size,
            parameters=request.model.parameters,
            tokens=setup.tokens,
            launches=min(1.0, step.efficiency.least_seconds * request.accumulation / fitted.compute),
            communication=max(0.0, 1 - step.slowest.compute / seconds[1]),
            gpu=request.gpu.name,
            strategy=setup.strategy,
            adapters=(setup.lora_rank > 0, setup.quantized),
            kernels=(setup.kernels, setup.compiled),
            dtype=request.dtype,
            cut=(layout.tensor, layout.context, layout.pipeline),
        )

    @property
    def likely_step_seconds(self) -> float | None:
        """By which ways are compared: as the fit has it, whatever the bounds; or the middle of what was measured.

        And of the bounds where it runs with blocks computed again alone: the fit's is of a step without.
        """
        bounds = self.step_seconds
        if bounds is None:
            return None
        is_fits = bounds == self.estimated_step_seconds and not self._is_meant_otherwise
        likely = self.step.likely if is_fits else None
        return likely or math.sqrt(bounds[0] * bounds[1])

    @property
    def tokens_per_second(self) -> tuple[float, float] | None:
        """Over all ranks: low, high."""
        if self.step_seconds is None:
            return None
        tokens = self.samples_per_step * self.request.setup.sequence_length
        return tokens / self.step_seconds[1], tokens / self.step_seconds[0]

    @property
    def mfu(self) -> tuple[float, float] | None:
        """Model operations over what the peak could do in a step: low, high."""
        peak = self.request.gpu.peak_tflops(self.request.dtype) if self.request.gpu else None
        if self.tokens_per_second is None or peak is None:
            return None
        per_token = model_flops_per_token(self.request)
        low, high = (
            rate * per_token / (self.request.layout.world_size * peak * 1e12) for rate in self.tokens_per_second
        )
        return low, high

    def costs(self) -> tuple[Cost, Cost] | None:
        """Cheapest and dearest; None without a price or a step time."""
        if self.request.price is None or self.tokens_per_second is None:
            return None
        low, high = (
            Cost(
                price=self.request.price,
                nodes=self.request.layout.nodes,
                samples_per_second=rate / self.request.setup.sequence_length,
                tokens_per_second=rate,
            )
            for rate in self.tokens_per_second
        )
        return high, low
