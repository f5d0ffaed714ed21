"""How a model is trained, as far as memory and communication depend on it."""

from dataclasses import dataclass
from typing import Literal

from raybench.errors import unknown_name
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.strategies import STRATEGIES, Strategy
from raybench.performance_model.setup.checks import check_setup

Optimizer = Literal["sgd", "momentum", "adam", "adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit"]
Offload = Literal["none", "optimizer", "all"]
Kernels = Literal["plain", "fused"]
Dispatcher = Literal["alltoall", "deepep", "hybridep"]
RecomputedModule = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
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
Packing = Literal["nf4", "nf4-single", "gptq", "8bit"]
FrozenInputs = Literal["dropped", "kept", "held"]
SENDING_ONCE: tuple[Dispatcher, ...] = ("deepep", "hybridep")  # each token once to each node
OPTIMIZERS: tuple[Optimizer, ...] = (
    *("sgd", "momentum", "adam", "adamw", "adamw-8bit"),
    *("paged-adamw", "paged-adamw-8bit"),
)
RECOMPUTED_MODULES: tuple[RecomputedModule, ...] = (
    *("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"),
)
# Bytes of a weight in 4 bits, or in 8 (LLM.int8, fp8), whose scales a row are next to nothing. NF4 with double
# quantisation: a byte for each 64 and fp32 for 256 of those, 0.127 bits (Dettmers et al. 2023); without it an fp32
# scale for each 64. GPTQ's groups of 128 are counted as the first.
PACKED_BYTES: dict[Packing, float] = {
    "nf4": 0.5 + 1 / 64 + 4 / (64 * 256),
    "nf4-single": 0.5 + 4 / 64,
    "gptq": 0.5 + 1 / 64 + 4 / (64 * 256),
    "8bit": 1.0,
}
_FP32_BYTES = 4
_SELECTIVE_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """How a model is trained. Bytes are those of one element; what a field does to memory is in docs/methods.md."""

    batch_size: int  # samples of one rank and one micro-batch
    sequence_length: int

    # Strategy. zero1 shards the optimizer state with the fp32 weights (Megatron-LM's distributed optimizer), zero2 the
    # gradients as well; the model itself is in the compute type (ZeRO, Rajbhandari et al. 2020).
    strategy: Strategy = "ddp"
    bucket_view: bool = False  # DDP with gradient_as_bucket_view
    # Gradients are there when a forward pass begins: in DDP's buckets, or while they accumulate. False: they were freed
    # by zero_grad(set_to_none=True).
    gradients_kept: bool = True
    # FSDP that reduces in the last micro-batch only, and adds up the gradients of all parameters unsharded until then.
    whole_gradients: bool = False
    # FSDP reshards after each forward pass in a pipeline too, which programs have to be told (parallel/sharding.py).
    reshards_in_pipeline: bool = False
    # Shards are gathered on streams of their own, as by FSDP1 and ZeRO-3; the allocator has a pool for each stream.
    on_streams: bool = False
    # Shards in the compute type: the optimizer keeps fp32 copies of them and makes fp32 copies of their gradients in
    # the update (InternEvo over FSDP). zero3, which is DeepSpeed's, always does.
    optimizer_weights: bool = False
    # zero1 whose state is not sharded: replicas of a model that is cut (Megatron-LM's own DDP).
    whole_state: bool = False
    # zero1 whose gradients stay in Megatron-Core's buffers, whatever their type (NeMo's performance recipes: bf16);
    # without it zero1 with gradients in the compute type is DeepSpeed's.
    gradient_buffers: bool = False
    # ZeRO-3 of a model that was made before DeepSpeed was told of it: zero.Init alone replaces PyTorch's linear layers,
    # which keep a view of each gathered weight until the backward pass (deepspeed/runtime/zero/partition_parameters.py,
    # linear.py).
    graph_holds_weights: bool = False
    # Each rank gathers all shards on its GPU, as they are stored, to save the model (FSDP's full state dict unless told
    # otherwise).
    gathers_to_save: bool = False
    # ZeRO-3's bucket of gradients is as large as DeepSpeed has it, whatever the loss: transformers' "auto" is not said.
    default_bucket: bool = False
    bucket_times: float = 1.0  # as large as their size are ZeRO-2's buckets: 4.5 from DeepSpeed 0.3.0 to 0.3.17
    gathers_nothing: bool = False  # ZeRO-3 of one rank, as ``local_setup`` finds it: its hooks have nothing to gather
    gathers_8bit: bool = False  # fp8: FSDP gathers weights in it (torchao's enable_fsdp_float8_all_gather)
    dtensors: bool | None = None  # under DDP, whether tensor ranks are PyTorch's DTensor's; None: unknown
    # Tensor parallelism divides what is as wide as the model, too (Korthikanti et al. 2022). None: nobody says.
    sequence_parallel: bool | None = None
    sequence_shards: int = 1  # over how many ranks it does
    # ZeRO-1 that sends gradients beside the last backward pass and weights beside the first forward pass (Megatron-LM's
    # --overlap-grad-reduce and --overlap-param-gather). None: nobody says.
    overlaps: bool | None = None
    # Of experts on other ranks. A token is sent once to each node that has experts for it, by kernels of their own
    # (DeepEP, HybridEP), or each of its copies by NCCL's all_to_all; and tokens are spread evenly over experts,
    # whatever a router says, as benchmarks force them to be. None: nobody says.
    sends_once: bool | None = None
    is_balanced: bool | None = None
    offload: Offload = "none"  # to CPU memory: optimizer state, or all that is sharded

    # Types.
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

    # Adapters over a frozen base, which is in the compute type, in fp32 or packed.
    lora_rank: int = 0  # 0: everything is trained
    lora_targets: tuple[str, ...] = ()
    adapter_dropout: bool = False  # before each adapter
    quantized: bool = False
    base_bytes: int = (
        0  # of a base that is not packed, as it is loaded; 0: the compute type, to which DeepSpeed casts it
    )
    packs_experts: bool = True  # False: experts are no linear layers, and stay in 16 bits (bitsandbytes issue 1849)
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

    def __post_init__(self) -> None:
        own = self.compute_bytes if self.strategy == "zero2" else _FP32_BYTES
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
    def is_sharded(self) -> bool:
        """Whether FSDP cuts parameters, gradients and optimizer state into shards."""
        return self.strategy not in ("ddp", "zero1", "zero2")

    @property
    def is_zero(self) -> bool:
        """Whether the model is whole in the compute type, and its fp32 weights are sharded with the optimizer state."""
        return self.strategy in ("zero1", "zero2")

    @property
    def spreads_sequence(self) -> bool:
        """Whether tensor parallelism spreads what is as wide as the model; where nobody says, all do but with ZeRO-2.

        Programs that have both leave it out unless told: PaddleNLP (``sequence_parallel: 0`` in its llm/llama/*.json),
        Megatron-DeepSpeed.
        """
        return self.strategy != "zero2" if self.sequence_parallel is None else self.sequence_parallel

    @property
    def is_deepspeeds(self) -> bool:
        """Whether DeepSpeed shards replicas' state: Megatron-LM sums gradients in buffers, and has no ZeRO-2."""
        in_buffers = self.whole_state or self.gradient_buffers
        narrow = self.gradient_bytes == self.compute_bytes and not in_buffers
        return self.strategy == "zero2" or (self.strategy == "zero1" and narrow)

    @property
    def offloads_gradients(self) -> bool:
        """Whether an optimizer on the CPU has its gradients there as well: DeepSpeed's, of all stages.

        Stage 3's flat buffer of gradients is on the optimizer's device (deepspeed/runtime/zero/stage3.py 0.19.6,
        ``grad_partitions_flat_buffer``); 1 and 2 copy what is reduced to the CPU and keep none (stage_1_and_2.py).
        """
        return self.offload != "none" and (self.strategy == "zero3" or self.is_deepspeeds)

    @property
    def keeps_masters(self) -> bool:
        """Whether fp32 weights stay on the GPU when moments are on the CPU: Megatron-Core's distributed optimizer.

        It makes them on the GPU and gives them to its HybridDeviceOptimizer, which copies them to the CPU
        (core/optimizer/distrib_optimizer.py, ``shard_main_param``), unless --use-precision-aware-optimizer leaves them
        to that.
        """
        return self.offload == "optimizer" and self.is_zero and not self.is_deepspeeds and not self.stores_remainders

    @property
    def has_ligers_mlp(self) -> bool:
        """Whether SwiGLU is Liger's or Unsloth's, as lean kernels with a loss in chunks mostly are.

        They write the gradients of gate and up over these (liger_kernel/ops/swiglu.py, unsloth/kernels/swiglu.py).
        """
        return self.kernels == "fused" and self.loss == "chunked" and self.keeps_least and not self.compiled

    @property
    def is_usual(self) -> bool:
        """Whether weights and moments are in fp32, and activations stay on the GPU, as most programs have it."""
        return self.parameter_bytes == _FP32_BYTES and not self.moment_bytes and not self.offloads_activations

    @property
    def has_optimizer_weights(self) -> bool:
        """Whether shards in the compute type have fp32 copies in the optimizer."""
        wide = self.parameter_bytes > self.compute_bytes
        in_optimizer = self.optimizer_weights or self.stores_remainders or self.strategy == "zero3"
        return wide and self.is_sharded and in_optimizer

    @property
    def stored_bytes(self) -> int:
        """An element of the parameters that forward and backward passes are given."""
        return self.compute_bytes if self.is_zero or self.has_optimizer_weights else self.parameter_bytes

    @property
    def master_bytes(self) -> int:
        """An element of the fp32 weights that are with the optimizer state: of ZeRO-1 and 2, and of such shards."""
        if self.parameter_bytes <= self.compute_bytes:
            return 0
        return self.parameter_bytes - (self.compute_bytes if self.stores_remainders and not self.is_deepspeeds else 0)

    @property
    def adds_up_whole(self) -> bool:
        """Whether the gradients of shards are added up unsharded; DeepSpeed always reduces each micro-batch."""
        return self.whole_gradients and self.is_sharded and self.strategy != "zero3"

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients, of shards those of the shards, are there before the last backward pass makes them.

        Always in Megatron-LM (core/distributed/param_and_grad_buffer.py) and in DeepSpeed's ZeRO-3 (stage3.py,
        ``grad_partitions_flat_buffer``), whose buffers stay.
        """
        stays = self.strategy == "zero3" or (self.is_zero and not self.is_deepspeeds)
        return (self.gradients_kept or stays) and not self.adds_up_whole

    @property
    def reduced_bytes(self) -> int:
        """An element of a gradient of shards while it is summed over ranks, or over micro-batches unsharded."""
        is_narrow = self.has_optimizer_weights and not self.stores_remainders
        return self.compute_bytes if is_narrow else self.reduce_bytes

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

    def trainable(self, model: Transformer) -> int:
        """Parameters that have gradients."""
        return model.lora_parameters(self.lora_rank, self.lora_targets) if self.lora_rank else model.parameters

    def packed_parameters_per_layer(self, model: Transformer) -> int:
        """Weights of a block that a packed base has in few bits: of linear layers, experts among them or not."""
        experts = 0 if self.packs_experts else model.expert_weights_per_layer
        return model.linear_parameters_per_layer - experts

    def packed_parameters(self, model: Transformer) -> int:
        """The same of all blocks."""
        return sum(kind.layers * self.packed_parameters_per_layer(kind) for kind in model.kinds())

    @property
    def has_autocast(self) -> bool:
        """Whether layers compute in another type than that of what is trained."""
        return self.autocast and self.stored_bytes > self.compute_bytes

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
    def has_wide_scores(self) -> bool:
        """Whether the softmax of stored scores is in another type than they are."""
        return self.wide_scores and self.compute_bytes < _FP32_BYTES

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
    def input_bytes(self) -> int:
        """An element of a linear layer's input, as it is kept for the gradient of its weights."""
        return 1 if self.has_8bit_inputs else self.compute_bytes

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
        return _FP32_BYTES if self.upcast else self.compute_bytes

    @property
    def has_separate_kernels(self) -> bool | None:
        """Whether each element-wise operation of a norm or a rotation is a kernel of its own; None: unknown."""
        if self.compiled or self.kernels == "fused":
            return False
        return None if self.compiled is None else True

    @property
    def recomputed(self) -> float:
        """Share of the forward pass that is done twice; selective: every second product of each block."""
        if self.selective:
            return _SELECTIVE_SHARE
        return self.recomputed_share if self.checkpointing else 0.0
