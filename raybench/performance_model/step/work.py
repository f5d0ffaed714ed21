"""What a GPU has to do for one micro-batch, by the unit that limits each part: pure arithmetic over shapes.

Seconds at the peak of the unit: no GPU reaches them (``efficiency.py`` says what published trainings reach).
"""

import math
from dataclasses import dataclass

from raybench.hardware.gpus import Gpu
from raybench.performance_model.memory.activations import computing
from raybench.performance_model.memory.recomputed_modules import NORM_PASSES, inner_share, norms_again, products_share
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.attention import (
    AMPERE_INSTRUCTIONS_SHARE,
    CAUSAL_SHARE,
    FASTEST_WITHOUT_GAP_TFLOPS,
    attention_times,
    is_before_flash,
    is_by_older_instructions,
    masked_more,
    older_share,
)
from raybench.performance_model.step.output_layer import head_times, logit_bytes
from raybench.performance_model.step.starts import Starts, starts_of

TYPES = ("bf16", "fp16")  # of which the first that a GPU has units for counts
_WIDE_TYPES = ("fp32", "tf32")  # whose products have rates of their own
# Of those whose power holds their clock down; what of it goes to memory and leakage whatever the clock.
FULL_WATTS = {"H100 SXM": 700.0, "H200": 700.0, "H800 SXM": 700.0}
LEAST_WATTS = 200.0  # that nvidia-smi -pl takes of them (Min Power Limit)
_IDLE_WATTS = 150.0
# The share of its peak that a GPU's best matrix product reaches, by power and software
# (github.com/stas00/ml-engineering, compute/accelerator/README.md, "Maximum Achievable Matmul FLOPS", November 2026). A
# GPU that is not named: as an H100 where power holds its clock down, else as an A100.
_H100_REACHES, _A100_REACHES = 0.803, 0.869
# Boards of some 70 W keep no more than their base clock in many products in a row: a T4 reached 24 of its 65 TFLOP/s,
# which is base over boost (forums.developer.nvidia.com, topic 264462); L4 and A10 by the same rule (795 of 2040, 885 of
# 1695 MHz). H100 PCIe and NVL: an H100's 794 TFLOP/s times the root of their power above idle (``clock_share``).
_REACHES = {
    "GH200 96GB": 0.838, "GH200 144GB": 0.838, "B200": 0.776, "GB200": 0.729, "B300": 0.786, "GB300": 0.786,
    "MI300X": 0.514, "MI300A": 0.514, "MI325X": 0.604, "MI350X": 0.680, "MI355X": 0.680,
    "T4": 0.369, "L4": 0.390, "A10": 0.522, "H100 PCIe": 0.634, "H100 NVL": 0.641,
}  # fmt: skip
# How many times as long trainings on AMD's GPUs take as their best matrix product suggests, because of the software.
# Published ones in bf16 on MI250 and MI300X with software of 2023 and 2024 (torchao, ROCm/TransformerEngine issues 78
# and 79, llm-foundry issue 1153, Databricks) take 1.28 times as long as on NVIDIA's in the median; with this factor the
# mean error of all sources is nearly the least (15.0 %; 15.1 with 1.15, 14.9 with 1.35). Later GPUs have later
# software: AMD's own trainings on them (Primus, 2025) are faster than this factor allows.
_AMD_SLOWER = 1.25
_AMD_OF_2025 = ("MI325X", "MI350X", "MI355X")
# How many times as fast a matrix product is in fp8 as in bf16, on NVIDIA's and on AMD's GPUs, whose fp8 peaks are twice
# as high: large products on H100 and MI300X (weak: typed from memory). Inputs, weights and the gradients of outputs are
# cast for it. Bytes moved per element of those: fewest where the kernel before writes fp8 (Transformer Engine); most
# where the absolute maximum is searched, and the element scaled, cast and transposed for the other product (torchao;
# ROCm's Transformer Engine of 2024, step by step; that of 2025, which MI325X and later have, is as fast as NVIDIA's).
# With fused kernels, a third of the most on NVIDIA's: all rows of NeMo, Megatron-LM and MLPerf are faster than with the
# middle.
_FP8_TIMES, _AMD_FP8_TIMES = 1.8, 1.6
_FP8_BYTES, _FUSED_FP8_BYTES, _AMD_FP8_BYTES = (1.0, 9.0), (1.0, 3.0), (1.0, 27.0)
# Bytes moved per weight of a frozen 8-bit base in each pass: read, written in 16 bits and read again; or as slow as
# bitsandbytes unpacks a 4-bit weight (``packed`` of the fit), since LLM.int8 looks for outliers in each input: T5-3B
# takes twice as long as in fp16 (huggingface.co/blog/hf-bitsandbytes-integration, "Is it faster").
_BASE_8BIT_BYTES = (5.0, 10.3)
# How often element-wise kernels read or write an element of the residual stream (norms, residual sums, rotation) and of
# the MLP's inner width (SiLU or GELU and its product), per token and block, forward and backward.
_STREAM_PASSES, _INNER_PASSES = 20, 6
# The same of gpt-oss's, uncompiled, each step of which is a kernel (transformers, models/gpt_oss/modeling_gpt_oss.py,
# _apply_gate): a bias on both halves (reads and writes 4 F), two clamps (4), the gate's sigmoid and products (7), one
# added to the other half and their product (5), the second bias and the router's weight (4); twice that backward. Three
# programs' trainings of it on six GPUs take 1.2 to 1.7 times as long as with 6; the fit of them alone is 60 to 72.
_CLAMPED_PASSES = 72
# The same without a compiler for one RMSNorm (cast, square, mean, scale, cast back and weight, in fp32: 36 bytes per
# element of 16 bits forward, twice that backward), and for the rotation of q and of k (20 each way).
_SEPARATE_NORM_PASSES, _SEPARATE_ROTATION_PASSES = 54, 20
# Bytes read and written per stored attention score, forward and backward: products, scale, mask and softmax (in fp32
# under autocast) as a kernel each, or one fused kernel (Megatron-LM's, a compiler's) between the products.
_BYTES_PER_SCORE = {"plain": (24, 36), "fused": (10, 16)}

# How many times as many tokens as on average the rank with most of them gets, where nobody forces experts to be equally
# loaded: 2.6 and 3.0 in fine-tuning over 16 ranks, 5.1 in its worst step (deepspeedai/DeepSpeed pull request 8213). All
# others wait for it. Qwen3-235B takes 1.31 times as long if experts take five times their share of tokens at most as
# with one (InternLM/xtuner, megatron_moe_benchmark.md, "EP Load Imbalance").
MOST_TOKENS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Seconds of one micro-batch: matrix products and attention at the peak, the rest at the memory's bandwidth.

    Where nobody says which kernels compute something, the mean of what they take counts, and ``unsure...`` is by how
    much more or less it may be.
    """

    at_peak: float  # all operations, as if every one ran at it
    products: float
    attention: float
    elements: float  # element-wise kernels
    separate: float  # what more moves where a norm and a rotation are many kernels each
    logits: float
    adapters: float  # inputs and outputs of every layer with one, in each pass
    packed: float  # one byte per 4-bit weight, each time that it is unpacked
    starts: Starts  # not seconds: what a host launches
    hidden: float  # not seconds: the width of the products
    casts: float = 0.0  # of fp8, and of a frozen base
    unsure: float = 0.0  # of separate kernels
    unsure_elements: float = 0.0  # of stored attention scores
    unsure_attention: float = 0.0
    unsure_casts: float = 0.0
    unsure_logits: float = 0.0  # of a loss that nobody names
    unsure_products: float = 0.0  # of an output layer of an even width
    masked: float = 0.0  # how much longer attention takes where samples are padded and it is given a mask
    unbalanced: float = 0.0  # of products, what the rank with most tokens has of experts' beside as many as the others
    padded: float = 0.0  # what a compiler spares of the products that pads an odd vocabulary, which no row says
    is_held: bool = False  # the GPU's power does not let it keep its clock
    # It sums in fp32 at half the rate of its units (GeForce); then neither power nor memory holds it back.
    is_halved: bool = False
    is_gptq: bool = False  # weights are unpacked by GPTQ's kernels


def work_of(
    gpu: Gpu, model: Transformer, setup: TrainingSetup, power_watts: float | None = None, dtype: str = "bf16"
) -> Work:
    """The work of one micro-batch on one rank. The GPU has units for one of ``TYPES``.

    ``power_watts``: the GPU's power limit; None: its full power. With ``dtype`` fp8 only matrix products are in fp8:
    they are faster, and their inputs are cast; ``at_peak`` stays that of 16 bits.
    """
    types = (dtype, *TYPES) if dtype in _WIDE_TYPES else TYPES
    peak = next(rate for rate in map(gpu.peak_tflops, types) if rate)
    is_held = peak > FASTEST_WITHOUT_GAP_TFLOPS
    clock = _clock(gpu, power_watts, is_held=is_held)
    bandwidth, tokens = gpu.memory_gb_per_s * 1e9, setup.tokens
    again = products_share(model, setup) if setup.recompute_modules else setup.recomputed
    attention = model.attention_flops_per_token(setup.sequence_length) * (1 + attention_again(setup) / 3)
    whole = setup.whole_attention or setup.masked_attention or not setup.flash_attention
    older = older_share(gpu, peak)
    slow, unsure = attention_times(gpu, setup, older)
    attended_seconds = tokens * (1.0 if whole else CAUSAL_SHARE) * attention / (clock * peak * 1e12)
    width = _element_bytes(model, setup)
    scores, unsure_scores = _score_bytes(gpu, model, setup)
    products = _product_flops(model, setup)
    separate = tokens * model.layers * _separate_bytes(model, setup) * (1 + again / 3) / bandwidth
    has_separate = setup.has_separate_kernels
    gain, casts, unsure_casts = _fp8(gpu, model, setup) if dtype == "fp8" else (1.0, 0.0, 0.0)
    cast_base, unsure_base = (size / bandwidth for size in _base_casts(model, setup))
    head, unsure_head = _head(model, setup, is_held)
    moved, unsure_moved = logit_bytes(setup)
    logits = (1 + model.predicting) * tokens * model.vocabulary / bandwidth
    return Work(
        at_peak=tokens * (products + attention) / (peak * 1e12),
        products=tokens * (products / gain + head) / (clock * peak * 1e12) + _wide_adapters(gpu, model, setup),
        padded=tokens * head / (clock * peak * 1e12) if setup.compiled and model.vocabulary % 2 else 0.0,
        unsure_products=tokens * unsure_head / (clock * peak * 1e12),
        unbalanced=(_most_tokens(model) - 1) * tokens * _routed_flops(model, setup) / gain / (clock * peak * 1e12),
        casts=casts + cast_base,
        unsure_casts=unsure_casts + unsure_base,
        attention=slow * attended_seconds,
        unsure_attention=unsure * attended_seconds,
        masked=masked_more(gpu, setup, older, slow) * attended_seconds,
        elements=tokens * model.layers * (width + scores) / bandwidth,
        unsure_elements=tokens * model.layers * unsure_scores / bandwidth,
        separate=separate * (0.5 if has_separate is None else float(has_separate)),
        logits=logits * moved,
        unsure_logits=logits * unsure_moved,
        adapters=tokens * _adapter_bytes(model, setup) / bandwidth,
        packed=_unpacked_bytes(model, setup) / bandwidth,
        starts=starts_of(gpu, model, setup, again),
        hidden=model.hidden * _narrowness(gpu, setup, dtype),
        unsure=separate / 2 if has_separate is None else 0.0,
        is_held=is_held,
        is_halved=any(name.startswith("GeForce") for name in gpu.devices),
        is_gptq=setup.packing == "gptq",
    )


def _clock(gpu: Gpu, power_watts: float | None, *, is_held: bool) -> float:
    """How fast its best matrix product is, by its peak, against an H100's or an A100's, to which the fit refers."""
    usual = _H100_REACHES if is_held else _A100_REACHES
    clock = clock_share(gpu, power_watts) * _REACHES.get(gpu.name, usual) / usual
    return clock / (_AMD_SLOWER if is_amd(gpu) and gpu.name not in _AMD_OF_2025 else 1.0)


def _element_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """Read and written by element-wise kernels per token and block; a third of it in the forward pass."""
    stream = _STREAM_PASSES * model.hidden / setup.sequence_shards
    passes = _CLAMPED_PASSES if model.clamps_inner and not setup.compiled else _INNER_PASSES
    inner = passes * _inner_width(model)
    if not setup.recompute_modules:
        return setup.compute_bytes * (stream + inner) * (1 + setup.recomputed / 3)
    stream += NORM_PASSES * norms_again(model, setup) * model.hidden / setup.sequence_shards
    return setup.compute_bytes * (stream + inner * (1 + inner_share(model, setup) / 3))


def _inner_width(model: Transformer) -> float:
    """The inner width of what computes a token in an average layer: of all of its experts, and of a shared one."""
    widths = (
        kind.layers * (kind.feedforward * (kind.experts_per_token or 1) + kind.shared_feedforward)
        for kind in model.kinds()
    )
    return sum(widths) / model.layers


def _unpacked_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """One for each weight in 4 bits that is unpacked, in each pass."""
    if not setup.quantized or setup.packing == "8bit":
        return 0.0
    return (2 + setup.recomputed) * setup.packed_parameters(model)


def _base_casts(model: Transformer, setup: TrainingSetup) -> tuple[float, float]:
    """Bytes that a base in 8 bits, or in fp32 by autocast, has moved to be cast; and how many more or fewer it may be.

    One in fp32 in each pass forward: the cast is kept until the backward pass has been.
    """
    if setup.casts_base:
        each = setup.frozen_bytes + setup.compute_bytes
        return each * (1 + setup.recomputed) * (model.parameters - model.lookup_parameters), 0.0
    if not setup.quantized or setup.packing != "8bit":
        return 0.0, 0.0
    fewest, most = ((2 + setup.recomputed) * setup.packed_parameters(model) * each for each in _BASE_8BIT_BYTES)
    return (fewest + most) / 2, (most - fewest) / 2


def is_amd(gpu: Gpu) -> bool:
    """Whether AMD makes it: its Instincts."""
    return gpu.name.startswith("MI")


def _fp8(gpu: Gpu, model: Transformer, setup: TrainingSetup) -> tuple[float, float, float]:
    """How much faster products are; seconds of the casts at the memory's bandwidth, and by how much they are not known.

    Cast are inputs, in each pass forward, the gradients of outputs, and the weights of a micro-batch, forward and
    backward.
    """
    elements = sum(
        kind.layers * (setup.tokens * computing(kind, name) * (inputs * (1 + setup.recomputed) + outputs))
        + 2 * kind.layers * inputs * outputs * kind.copies(name)
        for kind in model.kinds()
        for name, (inputs, outputs) in kind.linears().items()
    )
    nvidia = _FUSED_FP8_BYTES if setup.kernels == "fused" else _FP8_BYTES
    fewest, most = _AMD_FP8_BYTES if is_amd(gpu) and gpu.name not in _AMD_OF_2025 else nvidia
    seconds = elements / (gpu.memory_gb_per_s * 1e9)
    return _AMD_FP8_TIMES if is_amd(gpu) else _FP8_TIMES, seconds * (fewest + most) / 2, seconds * (most - fewest) / 2


def has_slower_attention(gpu: Gpu, setup: TrainingSetup) -> bool:
    """Whether FlashAttention-2's instructions, an older generation's, are slower there than the GPU's own."""
    peak = next((rate for rate in map(gpu.peak_tflops, TYPES) if rate), 0.0)
    return peak > FASTEST_WITHOUT_GAP_TFLOPS and not is_by_older_instructions(gpu, setup)


def clock_share(gpu: Gpu, power_watts: float | None) -> float:
    """Of the clock that the GPU keeps in matrix products at full power: as the root of what is left above idle."""
    full = FULL_WATTS.get(gpu.name)
    if power_watts is None or full is None or power_watts >= full:
        return 1.0
    return math.sqrt(max(power_watts - _IDLE_WATTS, 1.0) / (full - _IDLE_WATTS))


def _score_bytes(gpu: Gpu, model: Transformer, setup: TrainingSetup) -> tuple[float, float]:
    """Read and written for each token and block where the scores of attention are stored, and how much is not known.

    FlashAttention stores none, which needs Ampere: on a GPU before it (without units for bf16) another kernel may store
    none either, or scores are stored after all, and nobody says which; with fused kernels their softmax is one.
    """
    is_old = is_before_flash(gpu)
    if setup.flash_attention and not is_old:
        return 0.0, 0.0
    is_open = setup.flash_attention and setup.kernels == "plain"
    forward, backward = _BYTES_PER_SCORE["fused" if setup.compiled else setup.kernels]
    again = 1.0 if "core_attn" in setup.recompute_modules else setup.recomputed
    stored = model.heads * setup.sequence_length * (forward * (1 + again) + backward)
    return (stored / 2, stored / 2) if is_open else (stored, 0.0)


def _separate_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """For each token and block, of a model with RMSNorm or rotary positions: PyTorch has one kernel for a LayerNorm."""
    norms = _SEPARATE_NORM_PASSES * model.norms_per_layer * model.hidden if model.norm == "rms" else 0
    turned = (model.heads + model.key_value_heads) * model.head_size
    rotation = 0 if model.positions else _SEPARATE_ROTATION_PASSES * turned
    return setup.compute_bytes * (norms / setup.sequence_shards + rotation)


def attention_again(setup: TrainingSetup) -> float:
    """Share of attention's forward pass that is done twice: selective checkpointing keeps what it gives."""
    if setup.recompute_modules:
        return float("core_attn" in setup.recompute_modules)
    return setup.recomputed if setup.checkpointing else 0.0


def products_again(model: Transformer, setup: TrainingSetup) -> float:
    """Share of the blocks' matrix products that is done twice: selective, all of experts, which are kept of none."""
    if setup.recompute_modules:
        return products_share(model, setup)
    if not (setup.selective and model.experts):
        return setup.recomputed
    passed = (model.layers - model.dense_layers) * model.experts_per_token * model.each_expert
    of_experts = passed / (model.block_parameters - model.idle_parameters)
    return of_experts + (1 - of_experts) * setup.recomputed


def _routed_flops(model: Transformer, setup: TrainingSetup) -> float:
    """Of products of experts on several ranks, for each token; none where nothing but balance is said of these."""
    if model.expert_ranks == 1 or setup.is_balanced:
        return 0.0
    passed = (model.layers - model.dense_layers) * model.experts_per_token * model.each_expert
    each = 4.0 if setup.lora_rank else 6.0
    return (each + 2.0 * products_again(model, setup)) * passed


def _most_tokens(model: Transformer) -> float:
    """How many times as many copies of tokens as on average the rank with most of them may get.

    At most one of each token for each of its experts: of two ranks that share eight experts twice as many.
    """
    ranks, each = model.expert_ranks, model.experts_per_token
    return min(MOST_TOKENS, ranks * min(each, model.experts / ranks) / each) if each else 1.0


def _product_flops(model: Transformer, setup: TrainingSetup) -> float:
    """Of the matrix products, for each token; recomputation included."""
    again = products_again(model, setup) * 2.0 * (model.block_parameters - model.idle_parameters)
    if setup.lora_rank:
        adapters = 0 if setup.casts_inputs else model.lora_parameters(setup.lora_rank, setup.lora_targets)
        return 4.0 * model.computing_parameters + 6.0 * adapters + again
    return 6.0 * model.computing_parameters + again


def _wide_adapters(gpu: Gpu, model: Transformer, setup: TrainingSetup) -> float:
    """Seconds of products of adapters in fp32 that nothing casts: without TF32, which PyTorch leaves off."""
    rate = gpu.peak_tflops("fp32")
    if not setup.casts_inputs or rate is None:
        return 0.0
    adapters = model.lora_parameters(setup.lora_rank, setup.lora_targets)
    return setup.tokens * (6.0 + 2.0 * setup.recomputed) * adapters / (rate * 1e12)


def _narrowness(gpu: Gpu, setup: TrainingSetup, dtype: str) -> float:
    """How much less a product of a wide type waits for memory, as if it were so much wider: 1 in 16 bits.

    By how much fewer operations it does for each byte at its peak.
    """
    wide, narrow = gpu.peak_tflops(dtype), next((rate for rate in map(gpu.peak_tflops, TYPES) if rate), None)
    if dtype not in _WIDE_TYPES or wide is None or narrow is None:
        return 1.0
    return 2 * narrow / (setup.compute_bytes * wide)


def _head(model: Transformer, setup: TrainingSetup, is_held: bool) -> tuple[float, float]:
    """Operations for each token that an output layer of an unaligned width takes the time of, beside its own.

    And how many more or fewer they may be. With a frozen base its weights have no gradient.
    """
    times, unsure = head_times(model, setup)
    slower = 1 / AMPERE_INSTRUCTIONS_SHARE if is_held and times > 1 else 1.0
    own = (1 + model.predicting) * (4.0 if setup.lora_rank else 6.0) * model.output_weights
    return own * (times * slower - 1), own * unsure * slower


def _adapter_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """What adapters read and write beside their layers, for each token: in their own type where nothing casts."""
    if not setup.lora_rank:
        return 0.0
    width = sum(
        kind.layers * sum(size) * kind.copies(name)
        for kind in model.kinds()
        for name, size in kind.linears().items()
        if name in setup.lora_targets or not setup.lora_targets
    )
    each = setup.stored_bytes if setup.casts_inputs else setup.compute_bytes
    return width * each * (3 + setup.recomputed)
