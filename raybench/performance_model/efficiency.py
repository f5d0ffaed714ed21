"""How fast a GPU really computes a training step: the share of its peak, and what each micro-batch takes at least.

Fitted to published trainings (docs/methods.md, "Step"; `tests/performance_model/published/`). Larger matrices reach a
larger share of the peak, and so do more tokens at once; with few tokens Python and the start of kernels take longer
than the GPU; a 4-bit base is unpacked again in each pass.
"""

from dataclasses import dataclass

from raybench.errors import UsageError
from raybench.hardware.gpus import Gpu
from raybench.performance_model.training_setup import TrainingSetup
from raybench.performance_model.transformer import Transformer

# Share of the peak that endless matrices would reach, and the hidden size at which it is half of that.
_LIMITS = {"A100": (0.72, 500), "A800": (0.72, 500), "H100": (0.61, 1100), "H800": (0.61, 1100), "H200": (0.61, 1100)}
_LIMIT_OF_OTHERS = (0.66, 700)
_HALF_TOKENS = 180  # of a micro-batch, at which half of the share is reached
_ADAPTER_HIDDEN = 700  # more: adapters add a small product, and a read of every input, beside each large product
_SPREAD, _SPREAD_OF_OTHERS = 1.23, 1.45  # of published step times around the fit: 90 % are within
# Of one block and micro-batch, all its passes, by PyTorch without a compiler: its kernels cannot start faster.
_BLOCK_SECONDS, _ADAPTER_BLOCK_SECONDS = 1.8e-3, 4.8e-3
_UNPACKED_WEIGHTS_PER_BYTE = 0.05  # 4-bit weights that are unpacked in the time in which memory reads a byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Share of the peak, low and high, where it is from, and what else a micro-batch takes.

    ``least_seconds``: no micro-batch is faster; ``unpack_seconds`` come on top. Either may be ``spread`` times less or
    more. Raises UsageError for what is no range of shares.
    """

    low: float
    high: float
    source: str
    least_seconds: float = 0.0
    unpack_seconds: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= 1:
            raise UsageError(
                f"an efficiency of {self.low:g} to {self.high:g} is not a range of shares of the peak, such as 0.3:0.5"
            )

    def micro_batch_seconds(self, peak_seconds: float) -> tuple[float, float]:
        """Shortest and longest time of what takes ``peak_seconds`` at the peak."""
        shortest = max(peak_seconds / self.high, self.least_seconds / self.spread) + self.unpack_seconds / self.spread
        longest = max(peak_seconds / self.low, self.least_seconds * self.spread) + self.unpack_seconds * self.spread
        return shortest, longest


def expected_efficiency(gpu: Gpu | None, model: Transformer, setup: TrainingSetup) -> Efficiency:
    """What published trainings of such a size on such a GPU reach; wider where none of its family is known."""
    family = gpu.name.split()[0] if gpu else ""
    known = family in _LIMITS
    limit, half_hidden = _LIMITS.get(family, _LIMIT_OF_OTHERS)
    if setup.lora_rank:
        half_hidden += _ADAPTER_HIDDEN
    center = limit / (1 + half_hidden / model.hidden) / (1 + _HALF_TOKENS / setup.tokens)
    spread = _SPREAD if known else _SPREAD_OF_OTHERS
    source = f"fitted to published trainings on {family}" if known else "of other GPUs; none of this family is known"
    block = _ADAPTER_BLOCK_SECONDS if setup.lora_rank else _BLOCK_SECONDS
    return Efficiency(
        low=center / spread,
        high=min(1.0, center * spread),
        source=f"{source}; --efficiency replaces it",
        least_seconds=block * model.layers,
        unpack_seconds=_unpack_seconds(gpu, model, setup),
        spread=spread,
    )


def _unpack_seconds(gpu: Gpu | None, model: Transformer, setup: TrainingSetup) -> float:
    """Of one micro-batch: every weight in the forward pass, once more where it is computed again, and backward."""
    if not setup.quantized or gpu is None:
        return 0.0
    weights = model.layers * model.linear_parameters_per_layer
    passes = 3 if setup.checkpointing else 2
    return passes * weights / (gpu.memory_gb_per_s * 1e9 * _UNPACKED_WEIGHTS_PER_BYTE)
