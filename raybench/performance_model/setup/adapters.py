"""Adapters over a frozen base: what is trained, how the base is stored, and in which types that leaves the rest."""

from dataclasses import dataclass
from typing import Literal

from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.replicas import Replicas

Packing = Literal["nf4", "nf4-single", "gptq", "8bit"]
FrozenInputs = Literal["dropped", "kept", "held"]
FrozenBlocks = Literal["resharded", "left gathered", "perhaps left gathered"]
# Bytes of a weight in 4 bits, or in 8 (LLM.int8, fp8), whose scales a row are next to nothing. NF4 with double
# quantisation: a byte for each 64 and fp32 for 256 of those, 0.127 bits (Dettmers et al. 2023); without it an fp32
# scale for each 64. GPTQ's groups of 128 are counted as the first.
PACKED_BYTES: dict[Packing, float] = {
    "nf4": 0.5 + 1 / 64 + 4 / (64 * 256),
    "nf4-single": 0.5 + 4 / 64,
    "gptq": 0.5 + 1 / 64 + 4 / (64 * 256),
    "8bit": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters(Replicas):
    """Without a rank everything is trained, and there is no base."""

    # Adapters over a frozen base, which is in the compute type, in fp32 or packed.
    lora_rank: int = 0  # 0: everything is trained
    lora_targets: tuple[str, ...] = ()
    adapter_dropout: bool = False  # before each adapter
    quantized: bool = False
    # Of a base that is not packed, as it is loaded; 0: the compute type, to which DeepSpeed casts it.
    base_bytes: int = 0
    packs_experts: bool = True  # False: experts are no linear layers, and stay in 16 bits (bitsandbytes issue 1849)
    keeps_unpacked: bool = False  # packed experts, once used, in the compute type too (bitsandbytes before 0.50)
    packing: Packing = "nf4"  # whose kernels unpack it at their own speeds (bitsandbytes and torchao, or GPTQ's)
    # What of a 4-bit base is not in 4 bits is fp32, and with it the residual stream (peft's
    # prepare_model_for_kbit_training).
    upcast: bool = False
    # Inputs of 4-bit layers: kept by bitsandbytes before 0.43.2; held: beside what autograd saves, where checkpointing
    # without reentry does not reach them.
    frozen_inputs: FrozenInputs = "dropped"
    # Hooks of FSDP1 on frozen blocks' inputs (register_multi_grad_hook), with reentrant checkpointing and adapters
    # wrapped on their own, hold these and their gradients until the backward pass is over.
    holds_inputs: bool = False
    # By FSDP1 once the backward pass has used them; before PyTorch 2.1 they were left gathered until all of it is over.
    frozen_blocks: FrozenBlocks = "resharded"

    def trainable(self, model: Transformer) -> int:
        """Parameters that have gradients."""
        return model.lora_parameters(self.lora_rank, self.lora_targets) if self.lora_rank else model.trained_parameters

    def packed_parameters_per_layer(self, model: Transformer) -> int:
        """Weights of a block that a packed base has in few bits: of linear layers, experts among them or not."""
        experts = 0 if self.packs_experts else model.expert_weights_per_layer
        return model.linear_parameters_per_layer - experts

    def packed_parameters(self, model: Transformer) -> int:
        """The same of all blocks."""
        return sum(kind.layers * self.packed_parameters_per_layer(kind) for kind in model.kinds())

    def unpacked_parameters(self, model: Transformer) -> int:
        """Weights of experts that are packed and stay unpacked beside it."""
        if not self.keeps_unpacked or not self.packs_experts:
            return 0
        return sum(kind.layers * kind.expert_weights_per_layer for kind in model.kinds())

    @property
    def casts_inputs(self) -> bool:
        """Whether each adapter casts what it reads to its own type (peft, tuners/lora/layer.py, _cast_input_dtype)."""
        return self.lora_rank > 0 and not self.autocast and self.stored_bytes > self.compute_bytes

    @property
    def casts_weights(self) -> bool:
        """Whether autocast makes a copy of the weights in the compute type: of whole ones that are trained."""
        return self.has_autocast and not self.is_sharded and not self.lora_rank

    @property
    def frozen_bytes(self) -> int:
        """An element of a frozen base that is not packed, as it is stored: wider ones FSDP casts before it gathers."""
        by_deepspeed = self.is_zero or self.strategy == "zero3"
        return self.compute_bytes if by_deepspeed or not self.base_bytes else self.base_bytes

    @property
    def casts_base(self) -> bool:
        """Whether autocast makes a copy of a whole frozen base in the compute type.

        Each time that a layer is computed: its cache is of what has a gradient (aten/src/ATen/autocast_mode.cpp).
        """
        wide = self.lora_rank > 0 and not self.quantized and self.frozen_bytes > self.compute_bytes
        return wide and not self.is_sharded

    @property
    def residual_bytes(self) -> int:
        """An element of the residual stream: autocast leaves it in the parameters' type, FSDP's mixed precision not."""
        if self.upcast:
            return self.kept_bytes
        if self.casts_base:
            return self.frozen_bytes
        return self.compute_bytes if self.is_sharded or self.lora_rank else self.stored_bytes

    @property
    def kept_bytes(self) -> int:
        """An element of a frozen base, where it is not in 4 bits."""
        return FP32_BYTES if self.upcast else self.compute_bytes
