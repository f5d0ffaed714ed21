"""Memory of one rank in training, part by part, from the model's shape and how it is run.

Formulas follow what PyTorch really keeps (docs/methods.md lists each tensor); a whole step is compared with all the
tensors that are made in one (tests/performance_model/test_memory_counted.py). Bytes everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory_moments import Step, has_buckets, replica_moments, shard_moments
from raybench.performance_model.parallel.megatron import (
    MEGATRON_FRAGMENTATION_SHARE,
    MEGATRON_NCCL_BYTES,
    as_cut,
    as_megatrons,
    is_megatrons,
)
from raybench.performance_model.parallel.part import (
    batches_in_flight,
    held_parameters,
    layers_of,
    local_setup,
    part_of,
)
from raybench.performance_model.parallel.pools import sharded_fragmentation, waiting_bytes
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.training_setup import PACKED_BYTES, TrainingSetup, shard_count, state_shard_count
from raybench.performance_model.transformer import Transformer

# Of one element of state, per element trained: Adam keeps two moments; bitsandbytes' 8-bit ones add a 4-byte scale for
# each 256 (blockwise quantisation, Dettmers et al. 2022).
_STATE_ELEMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adamw-8bit": 2}
_STATE_8BIT_BYTES = 1 + 4 / 256
# Outside PyTorch's allocator: the CUDA context with its libraries (assumed), and NCCL's buffers where there are other
# ranks: 544 MB for a group of two and 688 MB of more on four A100 (NVIDIA/nccl issue 964); 0.65 GiB for each group more
# on MI250X (Lumi-supercomputer/LUMI-AI-Guide issue 111), which are counted of Megatron-LM's.
CONTEXT_BYTES = int(0.6 * 2**30)
NCCL_BYTES = 688 * 10**6
# Of what comes and goes every step, what the allocator holds beside it: as much as makes the estimates of the sources
# that had it read (reserved, or by the driver) neither too low nor too high: of those whose blocks are kept, and of
# twelve whose blocks are computed again, with much that comes and goes between their inputs. Of 13 trainings of its own
# on one H200 raybench's allocator held 0.10 and 0.52 in the median (tests/gpu/trainings/h200.jsonl). And the least,
# which nothing runs without.
FRAGMENTATION_SHARES, LEAST_FRAGMENTATION_SHARE = {"kept": 0.12, "computed again": 0.2}, 0.05
# How near a peak may be to what a GPU has for nobody to say which is more: an estimate may be short by the first, or
# too long by the second. Of the published rows that ran out of memory 14 in 225 are told that they fit; with a margin
# that is chosen from the other sources (tests/performance_model/leave_one_out.py) 7 are.
SHORT_SHARE, LONG_SHARE = 0.04, 0.03
# The same where lengths vary from step to step: PyTorch's allocator keeps blocks of sizes that do not come again, until
# the device is full. Of 46 published trainings that did not fill it (ms-swift) quarters are 0.9 and 1.9.
VARYING_SHARE = 1.3
_MOST_BATCH = 1 << 20
_MANY = 1 << 20  # micro-batches: a pipeline is full
_KEPT = 4096  # estimates: a plan asks for the same one when it searches a micro-batch and when it estimates it
ZERO_BUCKET = 500_000_000  # elements: DeepSpeed's reduce_bucket_size, and as much of what is being made
ZERO_GROUP = 10**9  # elements of shards that DeepSpeed's ZeRO-3 updates at once (sub_group_size)


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
    waiting: int = 0

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

    @property
    def needed(self) -> int:
        """The same with the least fragmentation: where there is not as much, it does not run."""
        return self.allocated + int(LEAST_FRAGMENTATION_SHARE * self.dynamic) + self.context

    def reserved_varying(self, limit: float) -> float:
        """What the allocator comes to hold where lengths vary, and the driver shows, of ``limit`` bytes of a device.

        It is not needed: the allocator lets it go before it fails.
        """
        held = self.allocated + VARYING_SHARE * self.dynamic
        return max(float(self.allocated), min(held, limit - self.context))

    def reserved_on_streams(self, limit: float) -> float:
        """What the allocator comes to hold where weights are gathered on other streams, of ``limit`` bytes.

        With FSDP's first form and ZeRO-3; what is ``waiting`` for a stream is let go before an allocation fails.
        """
        held = self.allocated + self.waiting
        return max(float(self.allocated), min(held, limit - self.context))

    def parts(self) -> dict[str, int]:
        """Every part by name, and the sums."""
        names = ("parameters", "gradients", "optimizer_state", "buffers", "activations", "logits")
        rest = ("optimizer_temporaries", "context", "fragmentation", "allocated", "peak")
        return {name: int(getattr(self, name)) for name in (*names, *rest)}


@lru_cache(maxsize=_KEPT)
def estimate_memory(
    model: Transformer, setup: TrainingSetup, layout: Layout, *, accumulation: int = _MANY
) -> MemoryEstimate:
    """Memory of one rank in a training step; of a pipeline, of the stage that holds most.

    ``accumulation``: micro-batches of a step, of which a pipeline holds several at once.
    """
    if setup.is_deepspeeds and accumulation == 1 and not layout.is_cut:
        # ZeRO-1 lets go what is reduced as well, and both what is averaged after each update (stage_1_and_2.py)
        setup = replace(setup, strategy="zero2", gradients_kept=False)
    if is_megatrons(model, setup, layout):
        return _of_megatron(_whole_or_part(model, as_megatrons(setup), layout, accumulation), layout)
    return _whole_or_part(model, setup, layout, accumulation)


def _whole_or_part(model: Transformer, setup: TrainingSetup, layout: Layout, accumulation: int) -> MemoryEstimate:
    if not layout.is_cut:
        return _stage_memory(model, setup, layout)
    stages = {0, min(1, layout.pipeline - 1), layout.pipeline - 1}
    local = as_cut(local_setup(setup, layout))
    parts = ((stage, _stage_part(model, layout, stage)) for stage in sorted(stages))
    return max(
        (_stage_memory(part, local, layout, batches_in_flight(layout, stage, accumulation)) for stage, part in parts),
        key=lambda memory: memory.peak,
    )


def _of_megatron(memory: MemoryEstimate, layout: Layout) -> MemoryEstimate:
    """With its communicators, and what the allocator holds besides."""
    if layout.world_size == 1:
        return memory
    fragmentation = int(MEGATRON_FRAGMENTATION_SHARE * memory.dynamic)
    return replace(memory, context=CONTEXT_BYTES + MEGATRON_NCCL_BYTES, fragmentation=fragmentation)


def _stage_part(model: Transformer, layout: Layout, stage: int) -> Transformer:
    """What a rank of the stage holds, with as many layers as that has."""
    part, layers = part_of(model, layout, stage=stage), layers_of(model, layout, stage)
    return part if part.layers == layers else replace(part, layers=layers, dense_layers=min(part.dense_layers, layers))


def _stage_memory(model: Transformer, setup: TrainingSetup, layout: Layout, in_flight: float = 1.0) -> MemoryEstimate:
    """Of a rank that holds the model, or the part that ``model`` is."""
    shards = shard_count(setup, layout)
    held = Held.of(model, setup, layout)
    temporaries = _temporaries(setup, held.trained)
    step = Step(
        model=model, setup=setup, shards=shards, gradients=held.gradients, temporaries=temporaries, in_flight=in_flight
    )
    copies = _bucket_copies(model, setup, layout)
    moments = shard_moments(step) if shards > 1 else replica_moments(step)
    whole = MemoryEstimate(
        parameters=int(held.parameters),
        gradients=int(held.gradients),
        optimizer_state=int(held.state),
        buffers=int(copies + _buffers(step)),
        activations=int(step.at_loss - step.kept_of_block + step.activations(1) + step.waiting),
        logits=int(max(step.loss.forward, step.loss.backward)),
        optimizer_temporaries=int(temporaries),
        context=CONTEXT_BYTES + (NCCL_BYTES if layout.world_size > 1 else 0),
        fragmentation=0,
        moments={
            name: int(
                size
                + (copies if has_buckets(setup, name) else 0)
                + (0 if name == "update" else step.waiting)
                + step.outputs(name)
            )
            for name, size in moments.items()
        },
        gradients_kept=setup.keeps_gradients,
    )
    if shards == 1:
        return replace(whole, fragmentation=int(fragmentation_share(setup) * whole.dynamic))
    return replace(
        whole,
        fragmentation=int(sharded_fragmentation(step, whole.moments, copies=copies)),
        waiting=waiting_bytes(model, setup, whole.dynamic),
    )


def fragmentation_share(setup: TrainingSetup) -> float:
    """Of what comes and goes on a rank that holds the whole model."""
    again = setup.recomputed_share if setup.checkpointing else 0.0
    return again * FRAGMENTATION_SHARES["computed again"] + (1 - again) * FRAGMENTATION_SHARES["kept"]


def _temporaries(setup: TrainingSetup, trained: float) -> float:
    """Of the update: what Adam over lists of tensors computes the step from, and fp32 copies of 16-bit gradients.

    DeepSpeed first lays gradients side by side and copies them to fp32; of ZeRO-3's shards a group after another. Its
    own Adam is fused; one of PyTorch's that the program makes (transformers' adamw_torch, where the ds_config.json
    names no optimizer) has its list with ZeRO-1 and 2 too: hiyouga/LLaMA-Factory issue 1221 ran out of memory at it.
    """
    if setup.offload != "none":
        return 0.0
    has_adam = setup.optimizer.removeprefix("paged-") in ("adam", "adamw")
    step = trained * setup.parameter_bytes if has_adam and not setup.fused_optimizer else 0.0
    if setup.whole_state:  # one fused kernel for all tensors, and fp32 copies of gradients that are in 16 bits
        return trained * setup.parameter_bytes if setup.gradient_bytes < setup.parameter_bytes else 0.0
    if setup.strategy == "zero3":
        return min(trained, ZERO_GROUP) * (setup.compute_bytes + setup.parameter_bytes)
    if setup.is_deepspeeds:
        return trained * (setup.compute_bytes + setup.parameter_bytes) + step
    return step + (trained * setup.parameter_bytes if setup.has_optimizer_weights else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Bytes that a rank keeps on its GPU between steps; ``trained`` elements that it updates.

    ``offloaded``: bytes that it keeps in the memory of the CPU instead.
    """

    trained: float
    parameters: float
    gradients: float
    state: float
    offloaded: float = 0.0

    @classmethod
    def of(cls, model: Transformer, setup: TrainingSetup, layout: Layout) -> "Held":
        """Of a rank that holds ``model``, a whole one or its part, before sharding."""
        shards, state_shards = shard_count(setup, layout), state_shard_count(setup, layout)
        share = held_parameters(model, layout, shards) / model.parameters
        state_share = held_parameters(model, layout, state_shards) / model.parameters
        trained = setup.trainable(model) * state_share
        gradients = setup.trainable(model) * share * setup.parameter_bytes
        state = trained * state_bytes(setup)
        if setup.has_optimizer_weights:
            gradients = setup.trainable(model) * share * setup.compute_bytes
            state += trained * setup.parameter_bytes
        if setup.is_zero:
            spread = state_share if setup.strategy == "zero2" else share
            gradients = setup.trainable(model) * spread * setup.gradient_bytes
            state += trained * setup.parameter_bytes if setup.parameter_bytes > setup.compute_bytes else 0.0
        parameters = _parameters(model, setup) * share
        if setup.optimizer.startswith("paged-"):  # what is paged makes room where there is none
            return cls(trained=trained, parameters=parameters, gradients=gradients, state=0.0, offloaded=state)
        if setup.offload == "none":
            return cls(trained=trained, parameters=parameters, gradients=gradients, state=state)
        if setup.offload == "optimizer":
            return cls(trained=trained, parameters=parameters, gradients=gradients, state=0.0, offloaded=state)
        return cls(trained=trained, parameters=0.0, gradients=0.0, state=0.0, offloaded=parameters + gradients + state)


def state_bytes(setup: TrainingSetup) -> float:
    """Bytes of optimizer state for each element trained."""
    name = setup.optimizer.removeprefix("paged-")
    element = _STATE_8BIT_BYTES if name == "adamw-8bit" else setup.moment_bytes or setup.parameter_bytes
    return _STATE_ELEMENTS[name] * element


def _parameters(model: Transformer, setup: TrainingSetup) -> float:
    """Bytes of all parameters before sharding."""
    if not setup.lora_rank:
        return float(model.parameters * setup.stored_bytes)
    adapters = model.lora_parameters(setup.lora_rank, setup.lora_targets) * setup.stored_bytes
    if not setup.quantized:
        return float(model.parameters * setup.compute_bytes + adapters)
    packed = model.linear_parameters
    return packed * PACKED_BYTES[setup.packing] + (model.parameters - packed) * setup.kept_bytes + adapters


def _bucket_copies(model: Transformer, setup: TrainingSetup, layout: Layout) -> float:
    """DDP's buckets where the gradients are no views of them; with ZeRO-2 and 3 those on their way to their shard.

    ZeRO-3's are one, as large as DeepSpeed has it, or where the loss is not a plain one as transformers sets them
    (``"reduce_bucket_size": "auto"``): the hidden size squared.
    """
    if setup.strategy == "zero3":
        of_transformers = 2.0 * min(setup.trainable(model), model.hidden**2)
        return (ZERO_BUCKET if setup.loss == "plain" else of_transformers) * setup.compute_bytes
    if setup.is_deepspeeds:  # as large, however few there are; two where it overlaps
        return (2.0 if setup.strategy == "zero2" else 1.0) * ZERO_BUCKET * setup.gradient_bytes
    if setup.is_sharded or setup.is_zero or setup.bucket_view or layout.world_size == 1:
        return 0.0
    return float(setup.trainable(model) * setup.parameter_bytes)


def _buffers(step: Step) -> float:
    """Copies of weights: gathered ones of shards, cast ones of replicas, a layer's unpacked one of a 4-bit base."""
    model, setup = step.model, step.setup
    if step.shards > 1:
        every = setup.strategy == "fsdp-grad-op"
        blocks = model.block_parameters if every else min(2, model.layers) * model.parameters_per_layer
        gathered = model.outer_parameters + blocks
        if setup.strategy == "zero3":
            return step.live + step.whole_gradients
        return gathered * setup.compute_bytes + step.whole_gradients
    casts = model.parameters - model.lookup_parameters if setup.casts_weights else 0
    return casts * setup.compute_bytes + step.unpacked


def largest_batch(
    model: Transformer,
    setup: TrainingSetup,
    layout: Layout,
    memory_bytes: float,
    *,
    most: int = _MOST_BATCH,
    accumulation: int = _MANY,
) -> int:
    """The largest micro-batch of a rank whose peak is within ``memory_bytes``; 0 where not even one sample fits."""

    def fits(batch_size: int) -> bool:
        asked = replace(setup, batch_size=batch_size)
        return estimate_memory(model, asked, layout, accumulation=accumulation).peak <= memory_bytes

    return largest_fitting(fits, most=most)
