"""A training run before it is run: volume and time of communication, memory, step time, throughput and cost.

Pure arithmetic over the other modules of this package. Each figure carries the formula it comes from; what is not known
(the peak of a GPU, a price) is said to be unknown, with what to give.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from raybench.errors import UsageError
from raybench.hardware.gpus import Gpu
from raybench.performance_model.communication import (
    Message,
    Shape,
    Sharding,
    ShardUnit,
    StepSeconds,
    Traffic,
    ddp_traffic,
    fsdp_traffic,
    step_seconds,
)
from raybench.performance_model.cost import Cost, Price
from raybench.performance_model.efficiency import Efficiency, expected_efficiency
from raybench.performance_model.layout import Layout, Network
from raybench.performance_model.measured_way import Measured
from raybench.performance_model.memory import (
    LONG_SHARE,
    SHORT_SHARE,
    MemoryEstimate,
    estimate_memory,
    largest_batch,
)
from raybench.performance_model.nearest_fit import Fitting, NearestFit, nearest_fit
from raybench.performance_model.parallel.part import bubble_share, local_setup, part_of, stage_imbalance
from raybench.performance_model.parallel.traffic import cut_traffic
from raybench.performance_model.training_setup import PACKED_BYTES, TrainingSetup, keeps_gathered
from raybench.performance_model.transformer import Transformer
from raybench.performance_model.update import update_seconds

# Shares of the line rate that NCCL reaches with large messages, of published healthy logs (docs/methods.md).
NVLINK_SHARE, PCIE_SHARE, NIC_SHARE = 0.80, 0.80, 0.92
# How much faster fp8 makes matrix products, with the casts around them, where shares of the 16-bit peak are given:
# torchtitan with torchao's float8 about 1.4 (Llama 3.1 8B), Transformer Engine up to 1.9; the peaks' ratio is 2.
FP8_GAINS = (1.3, 1.9)
# How much longer the slowest step takes where the allocator has to let blocks go: of seven of fms-acceleration's runs
# of FSDP whose blocks filled the GPU, steps took 1.0 to 1.48 times those of the others (docs/methods.md).
PRESSED_TIMES = 1.25
_SHARDING_STRATEGIES: Mapping[str, Literal["full", "grad-op", "hybrid", "state"]] = {
    "fsdp": "full",
    "fsdp-grad-op": "grad-op",
    "fsdp-hybrid": "hybrid",
    "zero1": "state",
    "zero2": "state",
    "zero3": "full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """What is to be estimated. ``efficiency``: how fast computation is, else as published trainings were.

    Without a ``network`` nothing that takes its time is estimated; ``network_unknown`` says what to give. Where the
    kernels or the loss are not known, the setup has those that take most memory, and what takes least counts as well.
    ``power_watts``: what each GPU is limited to; None: to what it was made for.
    """

    model: Transformer
    setup: TrainingSetup
    layout: Layout
    network: Network | None
    dtype: str = "bf16"
    reduce_bytes: int = 4
    accumulation: int = 1
    gpu: Gpu | None = None
    memory_bytes: int | None = None
    efficiency: Efficiency | None = None
    price: Price | None = None
    epoch_samples: int | None = None
    network_unknown: str | None = None
    basis: Mapping[str, str] = field(default_factory=dict)  # where each given figure comes from
    kernels_known: bool = True
    loss_known: bool = True
    power_watts: float | None = None

    def __post_init__(self) -> None:
        if self.accumulation < 1:
            raise UsageError(f"{self.accumulation} micro-batches a step: there must be at least 1")

    @property
    def sure_bytes(self) -> float:
        """The largest peak that is sure to fit, less than the memory by what estimates are off; infinite if unknown."""
        if self.memory_bytes is None:
            return float("inf")
        return self.memory_bytes / (1 + SHORT_SHARE)

    @property
    def is_known(self) -> bool:
        """Whether one estimate holds, of kernels and a loss that are known; else that of the heaviest is the most."""
        return self.kernels_known and self.loss_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The answer. ``fastest`` and ``slowest`` bound the step; None where the GPU's peak or the network is not known.

    What was ``measured`` at this very setting takes the place of the step's bounds, of the peak and of whether it fits.
    """

    request: EstimateRequest
    traffic: Traffic
    communication_seconds: float | None
    memory: MemoryEstimate
    least_memory: MemoryEstimate
    largest_batch: int | None
    nearest: NearestFit | None
    fastest: StepSeconds | None
    slowest: StepSeconds | None
    optimizer_seconds: tuple[float, float]
    unknown: tuple[str, ...]
    measured: Measured | None = None

    @property
    def efficiency(self) -> Efficiency:
        """That given, or of published trainings."""
        return computation_of(self.request)

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the device's memory; None where its size, or what decides, is not known.

        None as well where they are nearer than an estimate of memory is exact.
        """
        if self.measured is not None and self.measured.fits is not None:
            return self.measured.fits
        limit = self.request.memory_bytes
        if limit is None:
            return None
        if self.memory.peak <= self.request.sure_bytes:
            return True
        return None if self.least_memory.needed <= limit * (1 + LONG_SHARE * self.request.is_known) else False

    @property
    def peak(self) -> int:
        """Bytes that the device must have: measured, else estimated with what takes most."""
        return (self.measured and self.measured.peak) or self.memory.peak

    @property
    def least_peak(self) -> int:
        """The same with what takes least, wherever the request leaves that open."""
        return (self.measured and self.measured.least_peak) or self.least_memory.peak

    @property
    def samples_per_step(self) -> int:
        """Over all ranks."""
        return self.request.setup.batch_size * self.request.accumulation * self.request.layout.data

    @property
    def step_seconds(self) -> tuple[float, float] | None:
        """As measured; else with everything hidden that can be and high efficiency, and with nothing and a low one."""
        if self.measured is not None and self.measured.step_seconds is not None:
            return self.measured.step_seconds
        return self.estimated_step_seconds

    @property
    def is_pressed(self) -> bool:
        """Whether blocks that wait for other streams fill the GPU, and are let go and taken anew each step."""
        limit, least = self.request.memory_bytes, self.least_memory
        room = float("inf") if limit is None else limit - least.context
        return self.request.setup.on_streams and least.allocated + least.waiting > room

    @property
    def estimated_step_seconds(self) -> tuple[float, float] | None:
        """Step time with everything hidden that can be and high efficiency; with nothing hidden and low efficiency."""
        if self.fastest is None or self.slowest is None:
            return None
        slowest = self.slowest.most + self.optimizer_seconds[1]
        return self.fastest.least + self.optimizer_seconds[0], slowest * (PRESSED_TIMES if self.is_pressed else 1.0)

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
    """All figures that the request allows; of one of many that are compared (not ``alone``), no other batches."""
    traffic = training_traffic(
        request.model,
        request.setup,
        request.layout,
        accumulation=request.accumulation,
        reduce_bytes=request.reduce_bytes,
    )
    peak = _peak_tflops(request)
    fastest, slowest = _steps(request, traffic, peak)
    limit = request.memory_bytes
    times = request.accumulation
    memory = estimate_memory(request.model, request.setup, request.layout, accumulation=times)
    return Estimate(
        request=request,
        traffic=traffic,
        communication_seconds=traffic.seconds(request.network) if request.network else None,
        memory=memory,
        least_memory=estimate_memory(request.model, least_setup(request), request.layout, accumulation=times),
        largest_batch=(
            largest_batch(request.model, request.setup, request.layout, request.sure_bytes, accumulation=times)
            if limit and alone
            else None
        ),
        nearest=_nearest(request) if alone and limit is not None and memory.peak > request.sure_bytes else None,
        fastest=fastest,
        slowest=slowest,
        optimizer_seconds=update_seconds(request.model, request.setup, request.layout, request.gpu),
        unknown=tuple(_unknown(request, peak)),
    )


def _peak_tflops(request: EstimateRequest) -> float | None:
    """Of the type; of fp8 that of bf16, which ``FP8_GAINS`` are of. None: no GPU, or no units for the type."""
    if request.gpu is None or request.gpu.peak_tflops(request.dtype) is None:
        return None
    return request.gpu.peak_tflops("bf16" if request.dtype == "fp8" else request.dtype)


def least_setup(request: EstimateRequest) -> TrainingSetup:
    """The setup with what takes least memory, wherever the request leaves it open: fused kernels differ as well."""
    lean = replace(request.setup, on_streams=False)
    if not request.kernels_known:
        lean = replace(lean, kernels="fused", upcast=False, holds_inputs=False, wide_scores=False)
    if lean.kernels == "fused":
        lean = replace(lean, keeps_least=True, has_8bit_inputs=request.dtype == "fp8")
    return lean if request.loss_known else replace(lean, loss="chunked")


def _nearest(request: EstimateRequest) -> NearestFit | None:
    ask = Fitting(model=request.model, setup=request.setup, layout=request.layout, accumulation=request.accumulation)
    return nearest_fit(ask, request.sure_bytes)


def training_traffic(
    model: Transformer, setup: TrainingSetup, layout: Layout, *, accumulation: int = 1, reduce_bytes: int = 4
) -> Traffic:
    """The collectives of one step: of the replicas or shards, and of a model that is cut.

    DDP sends gradients in the parameters' type, FSDP in ``reduce_bytes`` an element, ZeRO in ``gradient_bytes``.
    """
    part = part_of(model, layout)
    sharing = _sharing_messages(part, setup, layout, accumulation, reduce_bytes)
    cut = cut_traffic(model, setup, layout, accumulation=accumulation)
    return Traffic(messages=(*sharing, *cut.messages))


def _sharing_messages(
    part: Transformer, setup: TrainingSetup, layout: Layout, accumulation: int, reduce_bytes: int
) -> tuple[Message, ...]:
    """What ranks that hold the same part send each other; of experts that are spread, those that hold the same."""
    outer = part.outer_shapes()
    table, rest = outer[:1], outer[1:]
    blocks = [block for kind in part.kinds() for block in [_Block.of(kind, setup, layout)] * kind.layers]
    experts, is_frozen = [block.experts for block in blocks if block.experts], setup.lora_rank > 0
    held = layout.sharing_experts
    if setup.strategy == "ddp":
        trained = tuple(shape for block in blocks for shape in (block.adapters if is_frozen else block.whole))
        whole = trained if is_frozen else table + trained + rest
        size = setup.parameter_bytes
        spread = ddp_traffic(sum(experts, ()), layout, gradient_bytes=size, group=held).messages
        return (*ddp_traffic(whole, layout, gradient_bytes=size, accumulation=accumulation).messages, *spread)
    root = ShardUnit(shapes=outer, trainable=() if is_frozen else None, stays_gathered=True)
    units = [
        ShardUnit(shapes=block.whole + block.adapters, trainable=block.adapters if is_frozen else None)
        for block in blocks
    ]
    sharding = Sharding(
        strategy=_SHARDING_STRATEGIES[setup.strategy],
        parameter_bytes=setup.compute_bytes if setup.is_zero else _sent_bytes(part, setup),
        gradient_bytes=_reduced_bytes(setup, reduce_bytes),
        accumulation=1 if keeps_gathered(setup, layout) else accumulation,
        no_sync=setup.whole_gradients or setup.strategy == "zero1",
    )
    own = [ShardUnit(shapes=shapes, trainable=() if is_frozen else None) for shapes in experts]
    spread = fsdp_traffic(own, layout, sharding, group=held).messages
    return (*fsdp_traffic([root, *units], layout, sharding).messages, *spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Shapes of a block's parameters: of experts that are spread, of adapters, and of all else."""

    whole: tuple[Shape, ...]
    adapters: tuple[Shape, ...]
    experts: tuple[Shape, ...]

    @classmethod
    def of(cls, kind: Transformer, setup: TrainingSetup, layout: Layout) -> "_Block":
        """Of a transformer whose layers are alike."""
        experts = kind.expert_shapes() if layout.expert > 1 else ()
        adapters = kind.adapter_shapes(setup.lora_rank, setup.lora_targets) if setup.lora_rank else ()
        return cls(whole=_without(kind.block_shapes(), experts), adapters=adapters, experts=experts)


def _without(shapes: tuple[Shape, ...], some: tuple[Shape, ...]) -> tuple[Shape, ...]:
    rest = list(shapes)
    for shape in some:
        rest.remove(shape)
    return tuple(rest)


def _reduced_bytes(setup: TrainingSetup, reduce_bytes: int) -> int:
    if setup.strategy == "zero3":
        return setup.compute_bytes
    return setup.gradient_bytes if setup.is_zero else reduce_bytes


def _sent_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """Bytes of an element as FSDP gathers it: the compute type; of 4-bit weights the average over a block."""
    if not setup.quantized:
        return setup.compute_bytes
    packed = model.linear_parameters / model.block_parameters
    return packed * PACKED_BYTES[setup.packing] + (1 - packed) * setup.compute_bytes


def model_flops_per_token(request: EstimateRequest) -> float:
    """Operations of the model per token, recomputation not counted: what MFU is made of."""
    model, setup = request.model, request.setup
    if setup.lora_rank:
        return model.lora_flops_per_token(setup.sequence_length, setup.lora_rank, setup.lora_targets)
    return model.flops_per_token(setup.sequence_length)


def computation_of(request: EstimateRequest) -> Efficiency:
    """How fast the request's computation is: as given, or as published trainings of such a size were."""
    if request.efficiency is not None:
        return request.efficiency
    layout = request.layout
    part, setup = part_of(request.model, layout), local_setup(request.setup, layout)
    return expected_efficiency(
        request.gpu,
        part,
        setup,
        power_watts=request.power_watts,
        dtype=request.dtype,
        is_cut=layout.cut_ranks > 1,
    )


def _steps(
    request: EstimateRequest, traffic: Traffic, peak_tflops: float | None
) -> tuple[StepSeconds | None, StepSeconds | None]:
    """The step with the fastest computation, and with the slowest."""
    if peak_tflops is None or request.network is None:
        return None, None
    layout, setup = request.layout, local_setup(request.setup, request.layout)
    least, most = (
        setup.tokens * flops / layout.cut_of_a_token / (peak_tflops * 1e12)
        for flops in _executed_flops_per_token(request)
    )
    efficiency = computation_of(request)
    most *= stage_imbalance(request.model, layout)
    work = efficiency.micro_batch_seconds(least)[0], efficiency.micro_batch_seconds(most)[1]
    share, times = _forward_share(request.setup), request.accumulation
    bubble = bubble_share(layout, times)
    shortest, longest = (
        step_seconds(one * times, traffic, request.network, forward_share=share, bubble=bubble) for one in work
    )
    return shortest, longest


def _executed_flops_per_token(request: EstimateRequest) -> tuple[float, float]:
    """Operations of the model per token and of what is computed again: fewest and most.

    In fp8, with shares that know nothing of it, as many as would take as long in bf16. With a sequence cut over c ranks
    and a causal mask the last one has (2 c - 1) / c times the average of attention, unless its parts are dealt out
    evenly (Brandon et al. 2023).
    """
    model, setup, length = request.model, request.setup, request.setup.sequence_length
    share = setup.recomputed_share if setup.checkpointing else 1.0
    again = model.hardware_flops_per_token(length, recompute=share) - model.flops_per_token(length)
    attention = model.attention_flops_per_token(length)
    if setup.selective:
        again = (again - attention / 3) / 2
    flops = model_flops_per_token(request) + (again if setup.checkpointing or setup.selective else 0.0)
    attended = attention * (1 + share / 3 if setup.checkpointing else 1)
    gains = FP8_GAINS if request.dtype == "fp8" and not computation_of(request).in_fp8 else (1.0, 1.0)
    ranks = request.layout.context
    products = flops - attended
    return attended + products / gains[1], attended * (2 * ranks - 1) / ranks + products / gains[0]


def _forward_share(setup: TrainingSetup) -> float:
    """Of the computation: 2 of 6 operations a weight, 2 of 4 with a frozen base; recomputation adds 2 to the rest."""
    return 2 / ((4 if setup.lora_rank else 6) + 2 * setup.recomputed)


def _unknown(request: EstimateRequest, peak: float | None) -> list[str]:
    reasons = []
    if request.network is None:
        reasons.append(f"times: {request.network_unknown or 'nothing is known of the network'}")
    if request.gpu is None:
        reasons.append("step time, throughput and MFU: the GPU is not known; give --gpu or --node-type")
    elif peak is None:
        instead = next((name for name in ("bf16", "fp16") if request.gpu.peak_tflops(name)), None)
        why = f"step time, throughput and MFU: {request.gpu.name} has no peak for {request.dtype}"
        reasons.append(why + (f"; give --dtype {instead}" if instead else ""))
    if request.memory_bytes is None:
        reasons.append("whether it fits: the memory of the GPU is not known; give --gpu or --memory")
    if request.price is None:
        reasons.append("cost: no price; give --price or a --node-type with a list price")
    return reasons
