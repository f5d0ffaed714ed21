"""Memory of one rank in training, part by part, from the model's shape and how it is run.

Formulas follow what PyTorch's autograd really keeps (docs/methods.md lists each tensor); the saved activations of a
block are checked against autograd in tests/model/test_saved_activations.py. Bytes everywhere.
"""

from dataclasses import dataclass, replace
from typing import Literal

from raybench.errors import UsageError, unknown_name
from raybench.model.layout import Layout
from raybench.model.transformer import Transformer

Strategy = Literal["ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid"]
Optimizer = Literal["sgd", "momentum", "adam", "adamw", "adamw-8bit"]
STRATEGIES: tuple[Strategy, ...] = ("ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid")
OPTIMIZERS: tuple[Optimizer, ...] = ("sgd", "momentum", "adam", "adamw", "adamw-8bit")

# Of one element of state, per element trained: Adam keeps two moments; bitsandbytes' 8-bit ones add a 4-byte scale for
# each 256 (blockwise quantisation, Dettmers et al. 2022).
_STATE_ELEMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adamw-8bit": 2}
_STATE_8BIT_BYTES = 1 + 4 / 256
# NF4: 4 bits; with double quantisation the scales take 0.127 bits more (Dettmers et al. 2023).
NF4_BYTES = 0.5 + 0.127 / 8
# Outside PyTorch's allocator: the CUDA context with its libraries, and NCCL's buffers where there are other ranks.
CONTEXT_BYTES = int(0.6 * 2**30)
NCCL_BYTES = int(0.5 * 2**30)
FRAGMENTATION_SHARE = 0.05  # of what comes and goes every step
# Of one logit at the peak of the loss: two copies in 16 bits, one in fp32 and the log-softmax; in the backward pass
# log-softmax and two gradients in fp32.
_LOGIT_BYTES = 12
_MOST_BATCH = 1 << 20
_MOST_SIZE, _MOST_RANK = 10**9, 10**5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """How a model is trained. ``batch_size`` is that of one rank and one micro-batch.

    ``parameter_bytes``: an element as it is stored and updated (4: fp32 master weights, with autocast under DDP and
    mixed precision under FSDP); ``compute_bytes``: an element of an activation (2: bf16 or fp16). ``lora_rank`` 0: all
    is trained; else the base is frozen in the compute type, or in 4 bits with ``quantized``. ``bucket_view``: DDP with
    gradient_as_bucket_view. ``gradients_kept``: they are there when a forward pass begins, as in DDP's buckets or while
    they accumulate; False where ``zero_grad(set_to_none=True)`` has let them go. ``whole_gradients``: FSDP that reduces
    in the last micro-batch only, and until then adds up the gradients of all parameters unsharded.
    """

    batch_size: int
    sequence_length: int
    strategy: Strategy = "ddp"
    optimizer: Optimizer = "adamw"
    parameter_bytes: int = 4
    compute_bytes: int = 2
    checkpointing: bool = False
    flash_attention: bool = True
    fused_optimizer: bool = False
    bucket_view: bool = False
    gradients_kept: bool = True
    whole_gradients: bool = False
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()
    quantized: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("strategy", STRATEGIES), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in choices:
                raise unknown_name(name, getattr(self, name), choices)
        for name, value in (("batch size", self.batch_size), ("sequence length", self.sequence_length)):
            if not 1 <= value <= _MOST_SIZE:
                raise UsageError(f"the {name} is {value}; it must be from 1 to {_MOST_SIZE}")
        if not 0 <= self.lora_rank <= _MOST_RANK:
            raise UsageError(f"the rank of LoRA is {self.lora_rank}; it must be from 1 to {_MOST_RANK}, or 0 for none")
        if self.quantized and not self.lora_rank:
            raise UsageError("4-bit weights cannot be trained; give --lora-rank of at least 1 with them")
        if self.lora_targets and not self.lora_rank:
            raise UsageError("targets of LoRA need its rank; give --lora-rank, such as 16")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on one rank."""
        return self.batch_size * self.sequence_length

    @property
    def is_sharded(self) -> bool:
        """Whether FSDP cuts parameters, gradients and optimizer state into shards."""
        return self.strategy != "ddp"

    def trainable(self, model: Transformer) -> int:
        """Parameters that have gradients."""
        return model.lora_parameters(self.lora_rank, self.lora_targets) if self.lora_rank else model.parameters

    def casts_anew(self) -> bool:
        """Whether autocast turns fp32 activations into the compute type at each layer that reads them."""
        return self.residual_bytes() > self.compute_bytes

    def residual_bytes(self) -> int:
        """An element of the residual stream: autocast leaves it in the parameters' type, FSDP's mixed precision not."""
        return self.compute_bytes if self.is_sharded or self.lora_rank else self.parameter_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes of one rank. ``peak`` must be free on the device; ``allocated`` is what PyTorch's allocator hands out."""

    parameters: int
    gradients: int
    optimizer_state: int
    buffers: int
    activations: int
    logits: int
    optimizer_temporaries: int
    context: int
    fragmentation: int
    block_gradients: int = 0  # part of the buffers that the backward pass alone has
    gradients_kept: bool = True

    @property
    def static(self) -> int:
        """What stays between steps."""
        return self.parameters + self.gradients + self.optimizer_state

    @property
    def dynamic(self) -> int:
        """What comes and goes: the larger of forward and backward pass, and of the update that follows them.

        A block's whole gradient comes once the logits and theirs are gone.
        """
        gathered = self.buffers - self.block_gradients
        passes = gathered + self.activations + max(self.logits, self.block_gradients)
        return max(passes, self.optimizer_temporaries + (0 if self.gradients_kept else self.gradients))

    @property
    def allocated(self) -> int:
        """Peak of torch.cuda.max_memory_allocated."""
        return self.static + self.dynamic - (0 if self.gradients_kept else self.gradients)

    @property
    def peak(self) -> int:
        """Peak that the device must have: allocated, fragmentation, context and communication buffers."""
        return self.allocated + self.fragmentation + self.context

    def parts(self) -> dict[str, int]:
        """Every part by name, and the sums."""
        names = ("parameters", "gradients", "optimizer_state", "buffers", "activations", "logits")
        rest = ("optimizer_temporaries", "context", "fragmentation", "allocated", "peak")
        return {name: int(getattr(self, name)) for name in (*names, *rest)}


def shard_count(setup: TrainingSetup, layout: Layout) -> int:
    """Ranks over which FSDP spreads each parameter; 1 under DDP."""
    if setup.strategy == "fsdp-hybrid":
        return layout.node.ranks
    return layout.world_size if setup.is_sharded else 1


def estimate_memory(model: Transformer, setup: TrainingSetup, layout: Layout) -> MemoryEstimate:
    """Memory of one rank in a training step."""
    shards = shard_count(setup, layout)
    trained = setup.trainable(model) / shards
    gradient_bytes = setup.parameter_bytes
    gathered, block_gradients = _buffers(model, setup, layout)
    activations = _activations(model, setup)
    logits = setup.tokens * model.vocabulary * _LOGIT_BYTES
    has_temporaries = setup.optimizer in ("adam", "adamw") and not setup.fused_optimizer
    temporaries = trained * gradient_bytes if has_temporaries else 0
    whole = MemoryEstimate(
        parameters=int(_parameters(model, setup) / shards),
        gradients=int(trained * gradient_bytes),
        optimizer_state=int(trained * state_bytes(setup)),
        buffers=int(gathered + block_gradients),
        activations=int(activations),
        logits=int(logits),
        optimizer_temporaries=int(temporaries),
        context=CONTEXT_BYTES + (NCCL_BYTES if layout.world_size > 1 else 0),
        fragmentation=0,
        block_gradients=int(block_gradients),
        gradients_kept=setup.gradients_kept,
    )
    return replace(whole, fragmentation=int(FRAGMENTATION_SHARE * whole.dynamic))


def state_bytes(setup: TrainingSetup) -> float:
    """Bytes of optimizer state for each element trained."""
    element = _STATE_8BIT_BYTES if setup.optimizer == "adamw-8bit" else setup.parameter_bytes
    return _STATE_ELEMENTS[setup.optimizer] * element


def _parameters(model: Transformer, setup: TrainingSetup) -> float:
    """Bytes of all parameters before sharding."""
    if not setup.lora_rank:
        return float(model.parameters * setup.parameter_bytes)
    adapters = model.lora_parameters(setup.lora_rank, setup.lora_targets) * setup.parameter_bytes
    if not setup.quantized:
        return float(model.parameters * setup.compute_bytes + adapters)
    packed = model.layers * model.linear_parameters_per_layer
    return packed * NF4_BYTES + (model.parameters - packed) * setup.compute_bytes + adapters


def _buffers(model: Transformer, setup: TrainingSetup, layout: Layout) -> tuple[float, float]:
    """Copies of weights and gradients that the strategy keeps beside them: all along, and in the backward pass."""
    block = model.parameters_per_layer
    if setup.is_sharded and shard_count(setup, layout) > 1:
        # The root unit stays gathered; of the blocks one is computed with, the next is being gathered, and one has its
        # whole gradient, and the copy of it that is reduce-scattered.
        gathered = model.parameters if setup.strategy == "fsdp-grad-op" else model.outer_parameters + 2 * block
        whole = block if not setup.lora_rank else setup.trainable(model) / model.layers
        added_up = setup.trainable(model) * setup.parameter_bytes if setup.whole_gradients else 0
        return gathered * setup.compute_bytes + added_up, whole * (setup.compute_bytes + setup.parameter_bytes)
    casts = 0.0
    if setup.parameter_bytes > setup.compute_bytes and not setup.lora_rank:  # autocast keeps what it has cast
        casts = (model.parameters - model.lookup_parameters) * setup.compute_bytes
    if setup.quantized:  # one layer's weight at a time is unpacked
        casts = max(inputs * outputs for inputs, outputs in model.linears().values()) * setup.compute_bytes
    buckets = setup.trainable(model) * setup.parameter_bytes
    return casts + (buckets if layout.world_size > 1 and not setup.bucket_view and not setup.is_sharded else 0), 0.0


def block_activation_bytes_per_token(model: Transformer, setup: TrainingSetup) -> float:
    """What autograd keeps of one block of `raybench.benchmarks.training.transformer` for each token.

    Two norms keep their inputs (residual stream). Linear layers keep their inputs: the norms' outputs (autocast casts
    them anew for each layer that reads them), the attention's output, the MLP's inner product. Attention keeps q, the
    keys and values of every head, its output (twice with rotary positions, which leave q laid out by heads) and, with
    FlashAttention, a 4-byte sum a head, else the probabilities. SwiGLU keeps gate, its SiLU and up; GELU its input.
    """
    inner, width = model.heads * model.head_size, setup.compute_bytes
    readers = (3 + (2 if model.gated else 1)) if setup.casts_anew() else 2
    attention = (4 if model.positions else 5) * inner * width
    attention += 4 * model.heads if setup.flash_attention else model.heads * setup.sequence_length * width
    mlp = (4 if model.gated else 2) * model.feedforward * width
    return model.hidden * (2 * setup.residual_bytes() + readers * width) + attention + mlp


def _activations(model: Transformer, setup: TrainingSetup) -> float:
    """Everything kept for the backward pass, the logits left out."""
    block = block_activation_bytes_per_token(model, setup)
    kept = model.hidden * setup.residual_bytes()
    blocks = model.layers * kept + block if setup.checkpointing else model.layers * block
    outer = model.hidden * (setup.residual_bytes() + setup.compute_bytes)  # of the last norm and the output layer
    return setup.tokens * (blocks + outer)


def largest_batch(model: Transformer, setup: TrainingSetup, layout: Layout, memory_bytes: float) -> int:
    """The largest micro-batch of a rank whose peak is within ``memory_bytes``; 0 where not even one sample fits."""

    def fits(batch_size: int) -> bool:
        return estimate_memory(model, replace(setup, batch_size=batch_size), layout).peak <= memory_bytes

    if not fits(1):
        return 0
    most = 1
    while most < _MOST_BATCH and fits(2 * most):
        most *= 2
    low, high = most, 2 * most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
