"""How fast a GPU really computes a training step, against its peak and its memory's bandwidth.

One set of constants for all GPUs, fitted to published trainings (`tests/performance_model/published/`, docs/methods.md,
"Step time"; `python -m tests.performance_model.leave_one_out` prints how well it predicts those it was not fitted to).
Larger matrices reach a larger share of the peak because less of their time is memory traffic; with few tokens Python
and the start of kernels take longer than the GPU; a 4-bit base is unpacked again in each pass.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from raybench.errors import UsageError
from raybench.hardware.gpus import Gpu, gpu_for
from raybench.performance_model.step.offload import slowest_seconds
from raybench.performance_model.step.spreads import SPREADS, Spread, classes_of, spread_of, unpublished
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer
from raybench.performance_model.work import TYPES, Work, work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What published trainings reach of each unit.

    ``products``, ``attention``: shares of the peak, of endless matrices and of long sequences; ``half_hidden``: the
    hidden size at which products reach half of theirs; ``held``: of these, a GPU that cannot keep its clock;
    ``halved``: one whose rate is halved for sums in fp32.
    ``elements``, ``separate``, ``logits``, ``adapters``, ``packed`` (``gptq``: by its kernels): times the
    work takes at the memory's bandwidth. ``block_seconds``, ``adapter_seconds``: to start
    the kernels of a block, and of a layer's adapter, forward and backward, without a compiler.
    """

    products: float
    half_hidden: float
    held: float
    halved: float
    attention: float
    elements: float
    separate: float
    logits: float
    adapters: float
    packed: float
    gptq: float
    block_seconds: float
    adapter_seconds: float

    def working_seconds(self, work: Work) -> float:
        """Of the GPU."""
        held = self.held if work.is_held else self.halved if work.is_halved else 1.0
        computed = work.products / (self.products * held) * (1 + self.half_hidden / work.hidden)
        computed += work.attention / self.attention
        moved = work.casts + self.elements * work.elements + self.logits * work.logits + self.adapters * work.adapters
        unpacked = (self.gptq if work.is_gptq else self.packed) * work.packed
        return computed + moved + self.separate * work.separate + unpacked

    def starting_seconds(self, work: Work) -> float:
        """Of the kernels' starts."""
        return work.blocks * self.block_seconds + work.adapted * self.adapter_seconds

    def seconds(self, work: Work) -> float:
        """Of one micro-batch: the starts hide behind the work where that is much longer."""
        return math.hypot(self.working_seconds(work), self.starting_seconds(work))

    def slower_starts(self, work: Work, times: float) -> float:
        """How much longer a micro-batch takes where kernels take so many times as long to start."""
        return math.hypot(self.working_seconds(work), times * self.starting_seconds(work)) / self.seconds(work)

    def masked_times(self, work: Work) -> float:
        """How much longer it takes where samples are padded, and attention is given a mask for that."""
        return 1 + work.masked / self.attention / self.seconds(work)

    def unsure(self, work: Work) -> float:
        """Share of the work that is there or not, where nobody says which kernels compute it: independent errors."""
        held = self.held if work.is_held else 1.0
        seconds = (
            self.separate * work.unsure,
            self.elements * work.unsure_elements,
            work.unsure_attention / self.attention,
            work.unsure_casts,
            self.logits * work.unsure_logits,
            work.unsure_products / (self.products * held),
        )
        return math.hypot(*seconds) / self.working_seconds(work)


# The fit of `tests/performance_model/calibration_fit.py` to all published rows; a test fits again and compares.
CALIBRATION = Calibration(
    products=0.695,
    half_hidden=78.42,
    held=0.8699,
    halved=1.25,
    attention=0.58,
    elements=1.897,
    separate=1.546,
    logits=1.548,
    adapters=1.508,
    packed=9.855,
    gptq=24.53,
    block_seconds=0.005533,
    adapter_seconds=6.301e-05,
)
# Where a rank has all of a layer's experts, which most programs compute one after another: five published trainings of
# Mixtral on one and two A100 take 1.08 to 1.44 times as long as a dense model of as much work.
EXPERTS_TOGETHER_TIMES = 1.2
# How far programs differ in what no row can tell of the next one, as factors of which nine in ten are within: how many
# times as long they may take to start kernels (Python, hooks, the CPU), with fused kernels or adapters and without;
# what an optimizer on the CPU holds up. Independent errors, added as squares. Of programs that are not said to be tuned
# those with little work for each kernel lie far behind the fit (SmolLM3 by FSDP2, InternEvo on 1024 GPUs, minGPT), and
# those with much do not: with three times the bounds are the narrowest that hold as many sources. Where DTensor's
# dispatch is counted its releases and programs differ by no more than those of fused kernels.
STARTS_SPREAD, SLOWER_STARTS, OFFLOAD_SPREAD = 1.6, 3.0, 1.4
# How much faster at most: kernels captured as graphs, or fused further; eager ones by a host with fast cores (LoRA of
# Qwen-7B and 14B with 256 tokens takes 0.53 to 0.6 of the middle).
FEWER_STARTS = 2.0
# The most that published trainings reach of a GeForce's peak: of all that is counted 0.95 (said of a 7B's blocks on
# an RTX 3090, compiled; 0.74 without: modula-systems/modula pull request 1), of what is computed, without the scores
# that are dropped, 0.87 (torchtune's LoRA of Llama 3.1 8B on an RTX 4090). Their peak is at a clock below that which
# they keep: large products have 1.05 to 1.15 of it (zzc0721/torch-performance-test-data).
GEFORCE_REACHED, GEFORCE_COMPUTED = 0.95, 0.87
_STAND_IN = "a100"  # for a GPU that is not known, of which nothing depends on but the range that is shown
_MOST_SHARE = 2.0  # at the peak, of nothing but scores half of which are dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Share of the peak, low and high, and where it is from.

    ``least_seconds``: of the start of a micro-batch's kernels, which is in the shares. ``slow`` and ``fast``: the
    factors between the middle and the bounds, of what is fitted; 1 of what is given. ``slow_steps``, ``fast_steps``:
    those of whole steps, without what is not known of their computation. ``unsure``: how much faster fused
    kernels may be, where nobody says whether they are.
    Shares are of all scores of attention: a kernel that skips those which a causal mask drops may be above 1. With
    ``in_fp8`` they are of the peak in 16 bits, and have what fp8 gains in them. Raises UsageError for what is no range
    of shares.
    """

    low: float
    high: float
    source: str
    least_seconds: float = 0.0
    slow: float = 1.0
    fast: float = 1.0
    unsure: float = 0.0
    in_fp8: bool = False
    slow_steps: float = 1.0
    fast_steps: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= _MOST_SHARE:
            raise UsageError(
                f"an efficiency of {self.low:g} to {self.high:g} is not a range of shares of the peak, such as 0.3:0.5"
            )

    @property
    def spread(self) -> float:
        """The factor between the middle and either bound."""
        return math.sqrt(self.slow * self.fast)

    @property
    def middle(self) -> "Efficiency":
        """The share that is as likely too high as too low."""
        share = min(_MOST_SHARE, self.low * self.slow)
        return replace(self, low=share, high=share, slow=1.0, fast=1.0)

    def micro_batch_seconds(self, peak_seconds: float) -> tuple[float, float]:
        """Shortest and longest time of what takes ``peak_seconds`` at the peak."""
        return peak_seconds / self.high, peak_seconds / self.low


def expected_efficiency(
    gpu: Gpu | None,
    model: Transformer,
    setup: TrainingSetup,
    *,
    power_watts: float | None = None,
    dtype: str = "bf16",
    calibration: Calibration = CALIBRATION,
    spreads: Mapping[str, Spread] = SPREADS,
    timing: str = "",
) -> Efficiency:
    """What published trainings of such a size on such a GPU reach; wider where programs differ more.

    ``timing``: by whose published step times, where the program is named.
    """
    stand_in = gpu if gpu is not None and any(map(gpu.peak_tflops, TYPES)) else gpu_for(_STAND_IN)
    work = work_of(stand_in, model, setup, power_watts, dtype)
    spread = spread_of(classes_of(gpu, model, setup, timing), spreads)
    share = work.at_peak / calibration.seconds(work) / experts_times(model)
    moved = 1 + slowest_seconds(model, setup, stand_in) / calibration.seconds(work)
    slow, fast = factors(work, calibration, spread, setup, moved, of_experts=model.experts > 0)
    fast = max(1.0, min(fast, _reached(work) / share))
    return Efficiency(
        low=min(_MOST_SHARE, share / slow),
        high=min(_MOST_SHARE, share * fast),
        source=f"{_source(gpu, model)}; --efficiency replaces it",
        least_seconds=calibration.starting_seconds(work),
        slow=slow,
        fast=fast,
        unsure=calibration.unsure(work),
        in_fp8=dtype == "fp8",
        slow_steps=spread.slow,
        fast_steps=spread.fast,
    )


def _reached(work: Work) -> float:
    """The largest share of the peak that any training is known to reach; no end where the fit is not near it."""
    if not work.is_halved:
        return math.inf
    return max(GEFORCE_REACHED, GEFORCE_COMPUTED * work.at_peak / (work.products + work.attention))


def experts_times(model: Transformer) -> float:
    """How much longer a rank with all of a layer's experts takes than a dense model of as much work."""
    is_whole = model.experts and getattr(model, "expert_ranks", 1) == 1
    return EXPERTS_TOGETHER_TIMES if is_whole else 1.0


def factors(
    work: Work,
    calibration: Calibration,
    spread: Spread,
    setup: TrainingSetup,
    moved: float = 1.0,
    *,
    of_experts: bool = False,
) -> tuple[float, float]:
    """How many times as long as the fit the slowest takes, and how many times as fast the fastest is.

    Nobody is faster for an optimizer on the CPU. ``moved``: how many times as long activations take that go to the CPU,
    by the slowest. ``of_experts``: whose class has all that starts may differ by in it.
    """
    sides = slow_sides(work, calibration, setup, moved, of_experts=of_experts)
    slow = max(math.hypot(math.log(spread.slow), known) + longer for known, longer in sides)
    fewer = 0.0 if of_experts else math.log(calibration.slower_starts(work, 1 / FEWER_STARTS))
    fast = math.hypot(math.log(spread.fast), math.log1p(calibration.unsure(work)), fewer)
    return math.exp(slow), math.exp(fast)


def slow_sides(
    work: Work, calibration: Calibration, setup: TrainingSetup, moved: float = 1.0, *, of_experts: bool = False
) -> tuple[tuple[float, float], ...]:
    """What makes a step longer, whatever its class, as logarithms: by errors, and by all that no row says beside them.

    What is not known of kernels and of their starts, and what the CPU holds up, are errors independent of each other.
    Two where DTensor may dispatch tensor ranks' operations: without it, and with it.
    """
    dispatched = replace(work, blocks=work.blocks + work.may_be_dispatched, is_dispatched=True)
    held_up, found = math.log(OFFLOAD_SPREAD) * (setup.offload != "none"), []
    for one in (work, dispatched) if work.may_be_dispatched else (work,):
        is_even = setup.kernels == "fused" or setup.lora_rank or one.is_dispatched
        slower = (
            0.0 if of_experts else math.log(calibration.slower_starts(one, STARTS_SPREAD if is_even else SLOWER_STARTS))
        )
        known = math.hypot(math.log1p(calibration.unsure(one)), slower, held_up, math.log(moved))
        longer = calibration.seconds(one) / calibration.seconds(work) * calibration.masked_times(one)
        found.append((known, math.log(longer)))
    return tuple(found)


def _source(gpu: Gpu | None, model: Transformer) -> str:
    if model.experts:
        return "of published trainings on it and of 47 of models with experts"
    if gpu is None:
        return "of GPUs of which few published trainings are known"
    return unpublished(gpu) or f"fitted to published trainings on {gpu.name.split()[0]}"
