"""What a GPU has to do for one micro-batch, by the unit that limits each part: pure arithmetic over shapes.

Seconds at the peak of the unit: no GPU reaches them (``efficiency.py`` says what published trainings reach).
"""

from dataclasses import dataclass

from raybench.hardware.gpus import Gpu
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer

TYPES = ("bf16", "fp16")  # of which the first that a GPU has units for counts
# FlashAttention-2 has 70 % of an A100's peak and 35 % of an H100's (Shah et al. 2024, FlashAttention-3, section 1): its
# instructions are Ampere's. A GPU whose peak is beyond the first Hoppers' has the same gap.
_AMPERE_INSTRUCTIONS_SHARE = 0.5
_FASTEST_WITHOUT_GAP_TFLOPS = 400.0
# Of its peak, a Hopper against an A100. Not fitted: eager runs (torchtitan) are slower than 0.8 would have them,
# compiled ones (KempnerForge, NeMo) faster than 0.74, and what was compiled is not asked yet. Large bf16 products
# alone reach some 790 of an H200's 989 TFLOP/s.
_HELD_SHARE = 0.74
_CAUSAL_SHARE = 0.5  # of the scores, where blocks that the mask drops are skipped
# Elements of the residual stream and of the MLP's inner width that element-wise kernels read and write for a token and
# block, forward and backward: norms, residual sums, rotation; SiLU or GELU and its product.
_STREAM_PASSES, _INNER_PASSES = 20, 6
_BYTES_PER_LOGIT = 24  # read and written by cross entropy in fp32, forward and backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Seconds of one micro-batch: matrix products and attention at the peak, the rest at the memory's bandwidth.

    ``at_peak``: all operations, as if every one ran at it. ``adapters``: inputs and outputs of every layer with one, in
    each pass. ``packed``: one byte for each 4-bit weight that is unpacked. ``blocks``: whose kernels have to be
    started; ``hidden``: their width.
    """

    at_peak: float
    products: float
    attention: float
    elements: float
    logits: float
    adapters: float
    packed: float
    blocks: int
    hidden: int

    @property
    def has_adapters(self) -> bool:
        """Whether a base is frozen."""
        return self.adapters > 0


def work_of(gpu: Gpu, model: Transformer, setup: TrainingSetup) -> Work:
    """The work of one micro-batch on one rank, in 16 bits. The GPU has units for one such type (``TYPES``)."""
    peak = next(rate for rate in map(gpu.peak_tflops, TYPES) if rate)
    bandwidth, again, tokens = gpu.memory_gb_per_s * 1e9, setup.recomputed, setup.tokens
    attended = again if setup.checkpointing else 0.0  # selective checkpointing keeps what attention gives
    attention = model.attention_flops_per_token(setup.sequence_length) * (1 + attended / 3)
    computed = 1.0 if setup.whole_attention or not setup.flash_attention else _CAUSAL_SHARE
    held = _HELD_SHARE if peak > _FASTEST_WITHOUT_GAP_TFLOPS else 1.0
    gap = _AMPERE_INSTRUCTIONS_SHARE if peak > _FASTEST_WITHOUT_GAP_TFLOPS else 1.0
    width = setup.compute_bytes * (_STREAM_PASSES * model.hidden + _INNER_PASSES * model.feedforward)
    products = _product_flops(model, setup)
    return Work(
        at_peak=tokens * (products + attention) / (peak * 1e12),
        products=tokens * products / (held * peak * 1e12),
        attention=tokens * computed * attention / (gap * peak * 1e12),
        elements=tokens * model.layers * width * (1 + again / 3) / bandwidth,
        logits=tokens * model.vocabulary * _BYTES_PER_LOGIT / bandwidth,
        adapters=tokens * _adapter_bytes(model, setup) / bandwidth,
        packed=(2 + again) * model.layers * model.linear_parameters_per_layer / bandwidth if setup.quantized else 0.0,
        blocks=model.layers,
        hidden=model.hidden,
    )


def _product_flops(model: Transformer, setup: TrainingSetup) -> float:
    """Of the matrix products, for each token; recomputation included."""
    again = setup.recomputed * 2.0 * (model.layers * model.parameters_per_layer - model.idle_parameters)
    if setup.lora_rank:
        adapters = model.lora_parameters(setup.lora_rank, setup.lora_targets)
        return 4.0 * model.computing_parameters + 6.0 * adapters + again
    return 6.0 * model.computing_parameters + again


def _adapter_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """What adapters read and write beside their layers, for each token."""
    if not setup.lora_rank:
        return 0.0
    linears = model.linears()
    width = sum(sum(linears[name]) * model.copies(name) for name in setup.lora_targets or linears)
    return model.layers * width * setup.compute_bytes * (3 + setup.recomputed)
