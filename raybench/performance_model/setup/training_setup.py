"""How a model is trained, as far as memory and communication depend on it.

Each file of this package has the options of one thing and what follows from them; a class builds on those whose options
decide on its own: types, replicas, adapters, kernels, and here batches, the optimizer and what is computed again.
"""

from dataclasses import dataclass
from typing import Literal

from raybench.errors import unknown_name
from raybench.performance_model.setup.checks import check_setup
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.kernels import KernelChoice
from raybench.performance_model.setup.strategies import STRATEGIES

Optimizer = Literal["sgd", "momentum", "adam", "adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit"]
RecomputedModule = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
OPTIMIZERS: tuple[Optimizer, ...] = (
    *("sgd", "momentum", "adam", "adamw", "adamw-8bit"),
    *("paged-adamw", "paged-adamw-8bit"),
)
RECOMPUTED_MODULES: tuple[RecomputedModule, ...] = (
    *("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"),
)
_SELECTIVE_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup(KernelChoice):
    """How a model is trained. Bytes are those of one element; what a field does to memory is in docs/methods.md."""

    batch_size: int  # samples of one rank and one micro-batch
    sequence_length: int

    # Optimizer.
    optimizer: Optimizer = "adamw"
    fused_optimizer: bool = False
    second_list: bool = False  # an AdamW over lists makes two in its update, as PyTorch's 2.0 did

    # What is recomputed.
    checkpointing: bool = False
    recomputed_share: float = 1.0  # of the blocks, with checkpointing
    # What attention and every second matrix product give is kept, the rest computed again (torchtitan).
    selective: bool = False
    saves_exchanged: bool = True  # selective keeps as well what ranks of experts exchange
    recompute_modules: tuple[RecomputedModule, ...] = ()  # of each block, by Megatron-LM, and nothing else
    # Blocks' activations go to CPU memory and come back (torchtune's enable_activation_offloading, DeepSpeed's
    # cpu_checkpointing).
    offloads_activations: bool = False

    def __post_init__(self) -> None:
        own = self.compute_bytes if self.strategy == "zero2" else FP32_BYTES
        object.__setattr__(self, "gradient_bytes", self.gradient_bytes or own)
        for name, choices in (("strategy", STRATEGIES), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in choices:
                raise unknown_name(name, getattr(self, name), choices)
        check_setup(self)

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on one rank."""
        return self.batch_size * self.sequence_length

    @property
    def is_usual(self) -> bool:
        """Whether weights and moments are in fp32, and activations stay on the GPU, as most programs have it."""
        return self.parameter_bytes == FP32_BYTES and not self.moment_bytes and not self.offloads_activations

    @property
    def recomputed(self) -> float:
        """Share of the forward pass that is done twice; selective: every second product of each block."""
        if self.selective:
            return _SELECTIVE_SHARE
        return self.recomputed_share if self.checkpointing else 0.0
