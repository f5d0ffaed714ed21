"""Memory of one rank in training, part by part, from the model's shape and how it is run.

Formulas follow what PyTorch really keeps (docs/methods.md lists each tensor); a whole step is compared with all the
tensors that are made in one (tests/performance_model/test_memory_counted.py). Bytes everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory_moments import Step, replica_moments, shard_moments
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.training_setup import TrainingSetup, shard_count
from raybench.performance_model.transformer import Transformer

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
_MOST_BATCH = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes of one rank. ``peak`` must be free on the device; ``allocated`` is what PyTorch's allocator hands out.

    ``moments``: what comes and goes, at each moment of a step at which it may be most. ``buffers`` (copies of weights
    or gradients), ``activations``, ``logits`` and ``optimizer_temporaries`` are parts of it, each at its own largest.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    buffers: int
    activations: int
    logits: int
    optimizer_temporaries: int
    context: int
    fragmentation: int
    moments: Mapping[str, int] = field(default_factory=dict)
    gradients_kept: bool = True

    @property
    def static(self) -> int:
        """What stays between steps, gradients included."""
        return self.parameters + self.gradients + self.optimizer_state

    @property
    def fullest_moment(self) -> str:
        """When the peak is."""
        return max(self.moments, key=lambda name: self.moments[name])

    @property
    def dynamic(self) -> int:
        """What comes and goes at the fullest moment; gradients too, where they are not kept."""
        return self.moments[self.fullest_moment]

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


def estimate_memory(model: Transformer, setup: TrainingSetup, layout: Layout) -> MemoryEstimate:
    """Memory of one rank in a training step."""
    shards = shard_count(setup, layout)
    trained = setup.trainable(model) / shards
    gradients = trained * setup.parameter_bytes
    has_temporaries = setup.optimizer in ("adam", "adamw") and not setup.fused_optimizer
    temporaries = gradients if has_temporaries else 0.0
    step = Step(model=model, setup=setup, shards=shards, gradients=gradients, temporaries=temporaries)
    copies = _bucket_copies(model, setup, layout)
    moments = shard_moments(step) if shards > 1 else replica_moments(step)
    whole = MemoryEstimate(
        parameters=int(_parameters(model, setup) / shards),
        gradients=int(gradients),
        optimizer_state=int(trained * state_bytes(setup)),
        buffers=int(copies + _buffers(step)),
        activations=int(step.at_loss - step.kept_of_block + step.activations(1)),
        logits=int(max(step.loss, step.loss_backward)),
        optimizer_temporaries=int(temporaries),
        context=CONTEXT_BYTES + (NCCL_BYTES if layout.world_size > 1 else 0),
        fragmentation=0,
        moments={name: int(copies + held) for name, held in moments.items()},
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


def _bucket_copies(model: Transformer, setup: TrainingSetup, layout: Layout) -> float:
    """DDP's buckets, where the gradients are no views of them."""
    if setup.is_sharded or setup.bucket_view or layout.world_size == 1:
        return 0.0
    return float(setup.trainable(model) * setup.parameter_bytes)


def _buffers(step: Step) -> float:
    """Copies of weights: gathered ones of shards, cast ones of replicas, a layer's unpacked one of a 4-bit base."""
    model, setup = step.model, step.setup
    if step.shards > 1:
        blocks = model.layers if setup.strategy == "fsdp-grad-op" else min(2, model.layers)
        gathered = model.outer_parameters + blocks * model.parameters_per_layer
        return gathered * setup.compute_bytes + step.whole_gradients
    casts = model.parameters - model.lookup_parameters if setup.casts_weights else 0
    return casts * setup.compute_bytes + step.unpacked


def largest_batch(
    model: Transformer, setup: TrainingSetup, layout: Layout, memory_bytes: float, *, most: int = _MOST_BATCH
) -> int:
    """The largest micro-batch of a rank whose peak is within ``memory_bytes``; 0 where not even one sample fits."""

    def fits(batch_size: int) -> bool:
        return estimate_memory(model, replace(setup, batch_size=batch_size), layout).peak <= memory_bytes

    return largest_fitting(fits, most=most)
