"""Which kernels compute a model and its loss, and what follows from that for norms, SwiGLU and dispatch."""

from dataclasses import dataclass
from typing import Literal

from raybench.performance_model.setup.adapters import Adapters

Kernels = Literal["plain", "fused"]
Loss = Literal[
    "plain",
    "autocast",
    "compiled",
    "fused",
    "fused-fp32",
    "chunked",
    "chunked-fp32",
    "narrow",
    "transformers",
    "transformers-whole",
    "transformers-kept",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice(Adapters):
    """Where nobody says which, a field is None or is marked as open."""

    # Kernels. plain: PyTorch's own, one operation after another. fused (flash-attn, Liger, Apex, Transformer Engine):
    # normalisations stay in the compute type, and q, k and v, or gate and up, read one input.
    kernels: Kernels = "plain"
    # The leanest fused kernels: keys and values that groups of heads share are not copied (FlashAttention-2), and SiLU
    # is computed again (Liger, Megatron-LM).
    keeps_least: bool = False
    compiled: bool | None = None  # by torch.compile, which fuses element-wise kernels; None: unknown
    on_gpu: bool = True  # on a CPU RMSNorm is several kernels, and keeps what it has normalised as well
    flash_attention: bool = True
    whole_attention: bool = False  # its kernel computes dropped scores too, as those before FlashAttention-2 do
    masked_attention: bool | None = None  # it is given a mask, which PyTorch's flash kernel does not take
    # By instructions of the GPU's own generation (FlashAttention-3 and 4, cuDNN), not Ampere's as FlashAttention-2.
    native_attention: bool | None = None
    captured: bool | None = None  # kernel launches of layers are captured as CUDA graphs; None: nobody says so
    joined_projections: bool = False  # one product gives q, k and v, which share a tensor (LitGPT, GPT-NeoX)
    # A loop of its own over transformers' model, which gives keys and values of all layers beside the logits
    # (use_cache: only its own checkpointing and its Trainer switch that off), and holds them until the next ones.
    keeps_outputs: bool = False

    # Cross entropy. plain: in fp32. fused: over logits in the compute type that become their own gradient, fused-fp32
    # over logits in fp32. chunked: all logits are never there at once (Liger's fused linear cross entropy, torchtune's
    # chunked one); chunked-fp32: nor with TRL's, which multiplies each chunk with the output layer in fp32.
    # transformers: on a shifted copy in fp32 of logits that are kept as well; -whole: on the logits themselves, as from
    # its 4.49 on; -kept: a program holds them until the backward pass ends. narrow: on a shifted copy in the compute
    # type (fp16 by DeepSpeed). compiled: with the model. autocast: PyTorch's, whose log-softmax stays in the 16 bits of
    # its logits.
    loss: Loss = "plain"
    loss_open: bool = False  # nobody says which: memory has ``loss``, times lie between it and a fused one
    loss_at_most: bool = False  # of one that nobody says, memory has what takes most
    # A plain loss in a loop of one's own, of which nobody says whether it is compiled with the model (mostly so),
    # whether it is given logits in fp32, and whether a variable holds these until the backward pass is over.
    own_loop: bool = False
    keeps_logits: bool = False  # a variable of the loop does

    @property
    def has_ligers_mlp(self) -> bool:
        """Whether SwiGLU is Liger's or Unsloth's, as lean kernels with a loss in chunks mostly are.

        They write the gradients of gate and up over these (liger_kernel/ops/swiglu.py, unsloth/kernels/swiglu.py).
        """
        return self.kernels == "fused" and self.loss == "chunked" and self.keeps_least and not self.compiled

    @property
    def has_dtensors(self) -> bool | None:
        """Whether tensor ranks dispatch DTensor's operations one by one, each in Python; None: unknown.

        FSDP's shards need DTensor's tensor ranks; DeepSpeed and Megatron-LM have modules of their own, and a compiler
        leaves no dispatch.
        """
        if self.compiled or self.kernels == "fused" or self.strategy.startswith("zero") or self.dtensors is False:
            return False
        is_theirs = bool(self.dtensors) or self.strategy.startswith("fsdp")
        return True if is_theirs and self.compiled is False else None

    @property
    def compiles_loss(self) -> bool:
        """Whether the loss is compiled with the model: of who compiles and says no loss, or plain, nearly always."""
        return bool(self.compiled) and self.loss == "plain" and (self.loss_open or self.own_loop)

    @property
    def takes_fused_loss(self) -> bool:
        """Whether the loss that nobody says is told as a fused one: that of fused kernels mostly is.

        Liger, flash-attn, Apex and Transformer Engine have one beside their other kernels. Not with ZeRO-1, which is
        mostly Megatron-LM's, with a loss in fp32.
        """
        own = self.compiled or self.strategy == "zero1" or self.loss not in ("plain", "transformers")
        return self.loss_open and self.kernels == "fused" and not own and not self.loss_at_most

    @property
    def norm_bytes(self) -> int:
        """An element of what a normalisation reads and gives: autocast computes it in fp32, a fused kernel does not."""
        wide = self.upcast or (self.has_autocast and self.kernels == "plain" and not self.norms_as_read)
        return self.parameter_bytes if wide else self.compute_bytes

    @property
    def norms_as_read(self) -> bool:
        """Whether a normalisation is in the compute type because what it reads is."""
        return not self.wide_norms and self.residual_bytes == self.compute_bytes

    @property
    def has_separate_kernels(self) -> bool | None:
        """Whether each element-wise operation of a norm or a rotation is a kernel of its own; None: unknown."""
        if self.compiled or self.kernels == "fused":
            return False
        return None if self.compiled is None else True
