"""A training run before it is run: volume and time of communication, memory, step time, throughput and cost.

Pure arithmetic over the other modules of this package. Each figure carries the formula it comes from; what is not known
(the peak of a GPU, a price) is said to be unknown, with what to give.
"""

import math
from dataclasses import dataclass, replace

from raybench.performance_model.communication import StepSeconds, Traffic
from raybench.performance_model.cost import Cost
from raybench.performance_model.estimate.forms import LargestBatch, largest_batches, least_memory, least_peak, most_peak
from raybench.performance_model.estimate.own_runs import NO_CORRECTION, Correction, Traits, correction_of
from raybench.performance_model.estimate.request import EstimateRequest, sure_bytes
from raybench.performance_model.estimate.said import said_requests
from raybench.performance_model.estimate.unknown import unknown_of
from raybench.performance_model.memory.rank import LONG_SHARE, MemoryEstimate, estimate_memory
from raybench.performance_model.nearest_fit import Fitting, NearestFit, nearest_fit
from raybench.performance_model.programs.taken import decided_anew, refused
from raybench.performance_model.step.bounds import (
    computation_of,
    fitted_steps,
    model_flops_per_token,
    peak_tflops,
    step_bounds,
)
from raybench.performance_model.step.efficiency import Efficiency
from raybench.performance_model.step.links import has_open_fabric, linked_layout, linked_network
from raybench.performance_model.step.spreads import exposed_share
from raybench.performance_model.step.traffic import training_traffic
from raybench.performance_model.step.update import update_seconds
from raybench.performance_model.ways.measured import Measured

# How many times as long the slowest step takes where the allocator has to free blocks and allocate them again: in seven
# FSDP runs of fms-acceleration whose blocks filled the GPU, steps took 1.0 to 1.48 times as long (docs/methods.md).
PRESSED_TIMES = 1.25


def needs_no_more(request: EstimateRequest, least: MemoryEstimate, limit: float) -> bool:
    """Whether it may run in so many bytes, in the form that needs least."""
    return least.needed <= limit * (1 + LONG_SHARE * request.is_known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The answer. ``fastest`` and ``slowest`` bound the step; None where the GPU's peak or the network is not known.

    ``efficiency``: as given, or of published trainings. ``measured``: of this very setting; it replaces the bounds of
    the step, the peak and the verdict. ``meant_seconds``: bounds of the step over all values of options that are left
    open, and ``meant_computation`` those of its computation (``with_meant``). ``recomputed``: the least memory with
    blocks computed again, where nobody says whether they are and it does not fit without.
    """

    request: EstimateRequest
    traffic: Traffic
    communication_seconds: float | None
    memory: MemoryEstimate
    least_memory: MemoryEstimate
    largest_batch: LargestBatch | None
    nearest: NearestFit | None
    fastest: StepSeconds | None
    slowest: StepSeconds | None
    fitted: tuple[tuple[StepSeconds, StepSeconds], ...]
    optimizer_seconds: tuple[float, float]
    efficiency: Efficiency
    unknown: tuple[str, ...]
    recomputed: MemoryEstimate | None = None
    measured: Measured | None = None
    most_peak: int = 0
    lean_peak: int = 0  # 0: that of ``least_memory``
    meant_seconds: tuple[float, float] | None = None
    meant_computation: tuple[float, float] | None = None
    correction: Correction = NO_CORRECTION

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
        of_experts = (setup.sends_once, setup.is_balanced)
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
    def is_pressed(self) -> bool:
        """Whether blocks that wait for other streams fill the GPU, and are freed and allocated again each step."""
        limit, least = self.request.memory_bytes, self.least_memory
        room = float("inf") if limit is None else limit - least.context
        return self.request.setup.on_streams and least.allocated + least.waiting > room

    @property
    def pressed_times(self) -> float:
        """How many times as long the slowest step takes for that; the fastest takes no longer."""
        return PRESSED_TIMES if self.is_pressed else 1.0

    @property
    def estimated_step_seconds(self) -> tuple[float, float] | None:
        """Fastest: all communication hidden that can be, high efficiency. Slowest: none hidden, low efficiency.

        How much is hidden and how fast computation is are independent errors, added as squares, unless the efficiency
        is given. Where the network is open, the bounds hold for its fastest and its slowest form; so they do for open
        options once ``with_meant`` has looked at them.
        """
        return _outermost(self._own_seconds, self.meant_seconds)

    @property
    def computation_seconds(self) -> tuple[float, float] | None:
        """Computation of a step, fastest and slowest, over all values of open options as the step's bounds."""
        if self._computation is None:
            return None
        return _outermost(self._computation, self.meant_computation)

    @property
    def _computation(self) -> tuple[float, float] | None:
        """The same of the request as it stands."""
        if self.fastest is None or self.slowest is None:
            return None
        low, high = self.fastest.compute, self.slowest.compute
        if self.fitted and not self._is_given:
            low, high = self._corrected(low, self.fitted[0][0].compute, high)
        return low, high

    @property
    def efficiency_range(self) -> tuple[float, float]:
        """Share of the peak that the computation is taken to reach, with what runs of one's own say of it."""
        low, high = self.efficiency.low, self.efficiency.high
        if self._is_given:
            return low, high
        fastest, slowest = self._corrected(1 / high, 1 / self.efficiency.middle.low, 1 / low)
        return 1 / slowest, 1 / fastest

    def _corrected(self, low: float, middle: float, high: float) -> tuple[float, float]:
        """Bounds of seconds, as runs of one's own have it."""
        half = math.log(high / low) / 2
        times, share = self.correction.times(half), self.correction.share(half)
        return middle * times * (low / middle) ** share, middle * times * (high / middle) ** share

    @property
    def uncorrected_seconds(self) -> tuple[float, float] | None:
        """Of the request as it stands, whatever runs of one's own say."""
        return replace(self, correction=NO_CORRECTION)._own_seconds

    @property
    def traits(self) -> Traits | None:
        """What makes other trainings like it; None where no step time is known, or the efficiency is given."""
        request, seconds = self.request, self.uncorrected_seconds
        if seconds is None or self.slowest is None or not self.fitted or request.gpu is None or self._is_given:
            return None
        setup, layout, fitted = request.setup, request.layout, self.fitted[0][0]
        return Traits(
            ranks=layout.world_size,
            parameters=request.model.parameters,
            tokens=setup.tokens,
            launches=min(1.0, self.efficiency.least_seconds * request.accumulation / fitted.compute),
            communication=max(0.0, 1 - self.slowest.compute / seconds[1]),
            gpu=request.gpu.name,
            strategy=setup.strategy,
            adapters=(setup.lora_rank > 0, setup.quantized),
            kernels=(setup.kernels, setup.compiled),
            dtype=request.dtype,
            cut=(layout.tensor, layout.context, layout.pipeline),
        )

    @property
    def _own_seconds(self) -> tuple[float, float] | None:
        """Of the request as it stands; no step is faster than its computation is at its fastest.

        Errors are added as squares, so that what may be hidden or not (activations that go to the CPU and back, a
        hundred times as long) moves the fastest step as well.
        """
        if self.fastest is None or self.slowest is None or self._computation is None:
            return None
        if self._is_given:
            bounds = [self._between(self.fastest, self.slowest)]
        else:
            bounds = [self._around(*steps) for steps in self.fitted]
        least = max(min(low for low, _ in bounds), self._computation[0])
        return least, max(high for _, high in bounds) * self.pressed_times

    @property
    def likely_step_seconds(self) -> float | None:
        """By which ways are compared: as the fit has it, whatever the bounds; or the middle of what was measured."""
        bounds = self.step_seconds
        if bounds is None:
            return None
        if bounds != self.estimated_step_seconds:
            return math.sqrt(bounds[0] * bounds[1])
        if not self.fitted or self._is_given:
            own = self._own_seconds or bounds
            return math.sqrt(own[0] * own[1])
        middles = [self._sides(*steps)[0] for steps in self.fitted]
        return float(math.prod(middles) ** (1 / len(middles)))

    @property
    def _is_given(self) -> bool:
        return self.request.efficiency is not None and self.request.efficiency.spread == 1

    def _likely(self, least: float, most: float) -> float:
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
        hidden, middle = math.log(most / least) / 2, self._likely(least, most)
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


def estimate(request: EstimateRequest, *, alone: bool = True) -> Estimate:
    """All figures that the request allows.

    Not ``alone``: one of many that are compared, without largest batches, the nearest fit and values of open options.
    """
    traffic = training_traffic(
        request.model,
        request.setup,
        linked_layout(request),
        accumulation=request.accumulation,
        reduce_bytes=request.reduce_bytes,
    )
    peak, efficiency = peak_tflops(request), computation_of(request)
    told = replace(request, efficiency=efficiency)  # so that it is computed once
    fastest, slowest = step_bounds(told, traffic, peak)
    limit = request.memory_bytes
    times = request.accumulation
    memory = estimate_memory(request.model, request.setup, request.layout, accumulation=times)
    most, least = most_peak(request, memory.peak), least_memory(request)
    found = Estimate(
        request=request,
        traffic=traffic,
        communication_seconds=_communication_seconds(request, traffic),
        memory=memory,
        least_memory=least,
        largest_batch=largest_batches(request) if limit and alone else None,
        nearest=_nearest(request) if alone and limit is not None and most > request.sure_bytes else None,
        fastest=fastest,
        slowest=slowest,
        fitted=fitted_steps(told, traffic, peak),
        optimizer_seconds=update_seconds(request.model, request.setup, request.layout, request.gpu),
        efficiency=efficiency,
        unknown=unknown_of(request, peak),
        recomputed=_recomputed(request, least) if alone else None,
        most_peak=most,
        lean_peak=least_peak(request),
    )
    traits = found.traits if request.own_runs else None
    if traits is not None:
        found = replace(found, correction=correction_of(traits, found.said, request.own_runs))
    return with_meant(found) if alone else found


def _recomputed(request: EstimateRequest, least: MemoryEstimate) -> MemoryEstimate | None:
    """The least memory with blocks computed again, where that alone decides, and nobody says it."""
    limit = request.memory_bytes
    if limit is None or request.checkpointing_known or needs_no_more(request, least, limit):
        return None
    found = least_memory(_checkpointed(request))
    return found if needs_no_more(request, found, limit) else None


def _checkpointed(request: EstimateRequest) -> EstimateRequest:
    asked = request.asked or request
    setup = replace(asked.setup, checkpointing=True)
    return decided_anew(replace(asked, setup=setup, checkpointing_known=True))


def with_meant(found: Estimate) -> Estimate:
    """The estimate with bounds that hold for every value of open options with which the training can run."""
    again = [] if found.recomputed is None else [_checkpointed(found.request)]
    asked = [*again, *(one for request in (found.request, *again) for one in said_requests(request))]
    others = (estimate(one, alone=False) for one in asked)
    can_run = [one for one in others if one.fits is not False]
    return replace(
        found,
        meant_seconds=_outermost(*(one.step_seconds for one in can_run)),
        meant_computation=_outermost(*(one.computation_seconds for one in can_run)),
    )


def _outermost(*bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    """The outermost of the bounds that are known; None where none are."""
    known = [one for one in bounds if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _communication_seconds(request: EstimateRequest, traffic: Traffic) -> float | None:
    network = None if has_open_fabric(request) else linked_network(request)
    return None if network is None else traffic.seconds(network)


def _nearest(request: EstimateRequest) -> NearestFit | None:
    """The nearest fit, each run tried as it would be asked for: what its program decides is decided anew."""
    asked = request.asked or request

    def peak_of(run: Fitting) -> int | None:
        one = replace(
            asked,
            setup=run.setup,
            layout=run.layout,
            accumulation=run.accumulation,
            program=run.program,
            kernels_known=asked.kernels_known or "kernels" in run.said,
            loss_known=asked.loss_known or "loss" in run.said,
            checkpointing_known=True,
        )
        if one.layout.is_cut and not asked.layout.is_cut and "gradient_bytes" not in asked.said:  # as options have it
            one = replace(one, setup=replace(one.setup, gradient_bytes=2 if one.dtype == "fp16" else 4))
        one = decided_anew(one)
        if one.program is not None and refused(one.program, one) is not None:
            return None
        memory = estimate_memory(one.model, one.setup, one.layout, accumulation=one.accumulation)
        return most_peak(one, memory.peak)

    ask = Fitting(
        model=asked.model,
        setup=replace(asked.setup, checkpointing=request.setup.checkpointing),
        layout=asked.layout,
        accumulation=asked.accumulation,
        program=asked.program,
        peak_of=peak_of,
        recomputes_anyway=request.setup.checkpointing and not asked.setup.checkpointing,
    )
    return nearest_fit(ask, request.sure_bytes)
