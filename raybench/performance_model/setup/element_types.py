"""In which types a training has its numbers: bytes of one element, and what is cast."""

from dataclasses import dataclass

FP32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTypes:
    """Bytes are those of one element; what a field does to memory is in docs/methods.md."""

    parameter_bytes: int = 4  # as stored and updated; 4: fp32 master weights under autocast or FSDP's mixed precision
    compute_bytes: int = 2  # of an activation: bf16 or fp16
    # Of gradients that ZeRO-1 and 2 add up. 0: as the programs with that strategy: zero2, which is DeepSpeed's, the
    # compute type, others fp32.
    gradient_bytes: int = 0
    reduce_bytes: int = 4  # of what FSDP sums over ranks, and over micro-batches with whole_gradients
    moment_bytes: int = 0  # of Adam's moments; 0: the parameters' (DeepSeek-V3: bf16). 8-bit optimizers have their own
    # False: nothing casts but adapters in fp32 over a base in 16 bits, each of which casts its input and keeps that.
    autocast: bool = True
    # Autocast computes RMSNorm in fp32, as in PyTorch from 2.12 on (pytorch/pytorch#188955); before in its input type.
    wide_norms: bool = True
    # Stored scores have a softmax in fp32, which is kept, as is its cast (transformers' ``eager``).
    wide_scores: bool = False
    # Stored scores are those of PyTorch's kernel of last resort, which computes all of attention in fp32.
    math_attention: bool = False
    has_8bit_inputs: bool = False  # fp8: linear layers keep their inputs in it (Transformer Engine)
    has_8bit_weights: bool = False  # fp8: and their weights, without a copy in 16 bits (--fp8-param-gather)
    # SwiGLU keeps its input in fp8 (Megatron-LM's --activation-func-fp8-input-store, MLPerf's FP8_ACT).
    has_8bit_inner: bool = False
    # Sharded fp32 weights are the 16 bits that those in bf16 lack: store_param_remainders of Megatron-Core's
    # --use-precision-aware-optimizer and of Apex's distributed Adam; of shards by Transformer Engine's FusedAdam over
    # them in the compute type, whose gradients it reads as they are.
    stores_remainders: bool = False

    @property
    def has_wide_scores(self) -> bool:
        """Whether the softmax of stored scores is in another type than they are."""
        return self.wide_scores and self.compute_bytes < FP32_BYTES

    @property
    def input_bytes(self) -> int:
        """An element of a linear layer's input, as it is kept for the gradient of its weights."""
        return 1 if self.has_8bit_inputs else self.compute_bytes
