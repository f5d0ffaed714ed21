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
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.offload import slowest_seconds
from raybench.performance_model.step.spreads import SPREADS, Spread, classes_of, spread_of, unpublished
from raybench.performance_model.step.starts import COMPILED_STARTS
from raybench.performance_model.step.work import TYPES, Work, work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The fitted constants: what published trainings reach of each unit of a GPU."""

    # Shares of the peak.
    products: float  # matrix products of endless size
    half_hidden: float  # the hidden size at which products reach half of that
    held: float  # of products, where power does not let the GPU keep its clock
    halved: float  # of products, where the rate is halved for sums in fp32
    attention: float  # of long sequences
    # Times as long as at the memory's bandwidth.
    elements: float
    separate: float
    logits: float
    adapters: float
    packed: float
    gptq: float  # packed by GPTQ, whose kernels unpack it
    # Seconds to launch the kernels, forward and backward.
    block_seconds: float  # of 125 kernels, or of hooks that take as long
    adapter_seconds: float  # of one layer's adapter

    def working_seconds(self, work: Work) -> float:
        """Seconds of the GPU's work in a micro-batch."""
        held = self.held if work.is_held else self.halved if work.is_halved else 1.0
        computed = work.products / (self.products * held) * (1 + self.half_hidden / work.hidden)
        computed += work.attention / self.attention
        moved = work.casts + self.elements * work.elements + self.logits * work.logits + self.adapters * work.adapters
        unpacked = (self.gptq if work.is_gptq else self.packed) * work.packed
        return computed + moved + self.separate * work.separate + unpacked

    def starting_seconds(self, work: Work) -> float:
        """Seconds of kernel launches in a micro-batch."""
        return work.starts.blocks * self.block_seconds + work.starts.adapted * self.adapter_seconds

    def seconds(self, work: Work) -> float:
        """Seconds of one micro-batch: launches hide behind the work where that is much longer."""
        return math.hypot(self.working_seconds(work), self.starting_seconds(work))

    def slower_starts(self, work: Work, times: float) -> float:
        """How many times as long a micro-batch takes where launches take ``times`` as long."""
        return math.hypot(self.working_seconds(work), times * self.starting_seconds(work)) / self.seconds(work)

    def padded_times(self, work: Work) -> float:
        """How many times as fast it is where a compiler pads the products of an odd vocabulary.

        PyTorch's does where it finds that faster (torch/_inductor/fx_passes/pad_mm.py), but not in every release: in
        three people's notes on GPT-2, compiled, the output layer took 1.1, 1.8 and 2.8 times as long with 50,257 words
        as with 50,304.
        """
        return self.seconds(work) / self.seconds(replace(work, products=work.products - work.padded))

    def unbalanced_times(self, work: Work) -> float:
        """How many times as long it takes where a rank's experts get as many more tokens than usual as they may."""
        return self.seconds(replace(work, products=work.products + work.unbalanced)) / self.seconds(work)

    def masked_times(self, work: Work) -> float:
        """How many times as long it takes where samples are padded and attention is given a mask."""
        return 1 + work.masked / self.attention / self.seconds(work)

    def unsure(self, work: Work) -> float:
        """Share of the work by which it may be more or less, where nobody says which kernels compute it.

        Independent errors, added as squares.
        """
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
    products=0.6912,
    half_hidden=102.7,
    held=0.8529,
    halved=1.25,
    attention=0.5762,
    elements=1.877,
    separate=1.369,
    logits=1.708,
    adapters=1.919,
    packed=10.81,
    gptq=25.34,
    block_seconds=0.005459,
    adapter_seconds=7.96e-05,
)
# Where a rank has all of a layer's experts, which most programs compute one after another: five published trainings of
# Mixtral on one and two A100 take 1.08 to 1.44 times as long as a dense model of as much work.
EXPERTS_TOGETHER_TIMES = 1.2
# How far programs differ, as factors within which nine in ten are: how many times as long kernel launches may take
# (Python, hooks, the CPU), with fused kernels or adapters and without; and an optimizer on the CPU. Independent errors,
# added as squares. Programs that are not tuned lie far behind the fit where each kernel has little work (SmolLM3 by
# FSDP2, InternEvo on 1024 GPUs, minGPT), and not where it has much: with three times the launches, bounds are the
# narrowest that hold as many sources. Where DTensor's dispatch is counted, its releases and programs differ by no more
# than those of fused kernels. So do those of models with experts, either way: a layer of Qwen3-30B takes 9 to 17 ms on
# H100 by Megatron-Core where its tokens are few, and 7 ms by pith-train.
STARTS_SPREAD, SLOWER_STARTS, OFFLOAD_SPREAD = 1.6, 3.0, 1.4
# The same of a compiled model whose blocks have no hooks: one wrapper starts its kernels, whatever its modules do in
# Python, so that which of them are fused, and the host, are most of what is not known. With it as many sources of
# compiled trainings are inside as with three times; with 2, fewer.
SLOWER_COMPILED_STARTS = 2.5
# How many times as fast launches are at most: captured as graphs, fused further, or eager on a host with fast cores
# (LoRA of Qwen-7B and 14B with 256 tokens takes 0.53 to 0.6 of the middle).
FEWER_STARTS = 2.0
# The same of a compiled model of whose blocks an eager one's launches are told, since hooks may take the most of them:
# half as many (``step/starts.py``).
FEWER_COMPILED_STARTS = FEWER_STARTS / COMPILED_STARTS
# The most that published trainings reach of a GeForce's peak: 0.95 with all operations counted (said of a 7B's blocks
# on an RTX 3090, compiled; 0.74 without: modula-systems/modula pull request 1), 0.87 without the scores that the mask
# drops (torchtune's LoRA of Llama 3.1 8B on an RTX 4090). Their peak is at a lower clock than they keep: large products
# reach 1.05 to 1.15 of it (zzc0721/torch-performance-test-data).
GEFORCE_REACHED, GEFORCE_COMPUTED = 0.95, 0.87
_STAND_IN = "a100"  # for an unknown GPU: only the range that is shown depends on it
_MOST_SHARE = 2.0  # at the peak, with nothing but attention whose mask drops half of the scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Share of the peak, low and high, and where it is from. Raises UsageError for what is no range of shares.

    ``slow`` and ``fast``: the factors between the middle and the bounds where it is fitted, 1 where it is given.
    ``slow_steps``, ``fast_steps``: the same of whole steps, without the errors of their computation. ``least_seconds``:
    kernel launches of a micro-batch, which the shares include. ``unsure``: by how much fused kernels may be faster,
    where nobody says whether they are.
    All attention scores count, so that a kernel that skips those which a causal mask drops may be above 1. With
    ``in_fp8`` the shares are of the peak in 16 bits, and include fp8's gain.
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
        """With the share that is as likely too high as too low, and without a range."""
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

    ``timing``: the program whose own step times give the bounds, where it is named.
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
    """The largest share of the peak that any training is known to reach; without a limit except on GeForce."""
    if not work.is_halved:
        return math.inf
    return max(GEFORCE_REACHED, GEFORCE_COMPUTED * work.at_peak / (work.products + work.attention))


def experts_times(model: Transformer) -> float:
    """How many times as long a rank with all of a layer's experts takes as a dense model of as much work."""
    is_whole = model.experts and model.expert_ranks == 1
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

    No program is faster for an optimizer on the CPU. ``moved``: how many times as long the slowest takes if activations
    go to the CPU. ``of_experts``: whose launches differ by as much either way.
    """
    sides = slow_sides(work, calibration, setup, moved, of_experts=of_experts)
    slow = max(math.hypot(math.log(spread.slow), known) + longer for known, longer in sides)
    fewer = math.log(calibration.slower_starts(work, 1 / _faster_times(work, setup, of_experts=of_experts)))
    fast = math.hypot(math.log(spread.fast), math.log1p(calibration.unsure(work)), fewer)
    return math.exp(slow), math.exp(fast) * calibration.padded_times(work)


def slow_sides(
    work: Work, calibration: Calibration, setup: TrainingSetup, moved: float = 1.0, *, of_experts: bool = False
) -> tuple[tuple[float, float], ...]:
    """What makes a step longer, whatever its class, as logarithms: by errors, and by all that no row says beside them.

    What is not known of kernels and of their starts, and what the CPU holds up, are errors independent of each other.
    Two where DTensor may dispatch tensor ranks' operations: without it, and with it.
    """
    starts = work.starts
    with_it = replace(work, starts=replace(starts, blocks=starts.blocks + starts.may_be_dispatched, is_dispatched=True))
    held_up, found = math.log(OFFLOAD_SPREAD) * (setup.offload != "none"), []
    for one in (work, with_it) if starts.may_be_dispatched else (work,):
        slower = math.log(calibration.slower_starts(one, _slower_times(one, setup, of_experts=of_experts)))
        known = math.hypot(math.log1p(calibration.unsure(one)), slower, held_up, math.log(moved))
        longer = calibration.seconds(one) / calibration.seconds(work)
        longer *= calibration.masked_times(one) * calibration.unbalanced_times(one)
        found.append((known, math.log(longer)))
    return tuple(found)


def _faster_times(work: Work, setup: TrainingSetup, *, of_experts: bool) -> float:
    """How many times as fast kernel launches are at most."""
    if of_experts:
        return STARTS_SPREAD
    return FEWER_COMPILED_STARTS if setup.compiled and not work.starts.is_fused else FEWER_STARTS


def _slower_times(work: Work, setup: TrainingSetup, *, of_experts: bool) -> float:
    """How many times as long kernel launches take at most."""
    if of_experts or setup.kernels == "fused" or setup.lora_rank or work.starts.is_dispatched:
        return STARTS_SPREAD
    return SLOWER_COMPILED_STARTS if work.starts.is_fused else SLOWER_STARTS


def _source(gpu: Gpu | None, model: Transformer) -> str:
    if model.experts:
        return "of published trainings on it and of 137 of models with experts"
    if gpu is None:
        return "of GPUs of which few published trainings are known"
    return unpublished(gpu) or f"fitted to published trainings on {gpu.name.split()[0]}"
