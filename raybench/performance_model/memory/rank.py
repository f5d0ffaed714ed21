"""Memory of one rank in training, part by part, from the model's shape and how it is run.

Formulas follow what PyTorch really keeps (docs/methods.md lists each tensor); a whole step is compared with all the
tensors that are made in one (tests/performance_model/memory/test_memory_counted.py). Bytes everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.moments import AFTER_THE_STEP, Step, has_buckets, replica_moments, shard_moments
from raybench.performance_model.memory.pools import sharded_fragmentation, waiting_bytes
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.megatron import (
    MEGATRON_FRAGMENTATION_SHARE,
    MEGATRON_NCCL_BYTES,
    as_cut,
    as_megatrons,
    is_megatrons,
)
from raybench.performance_model.parallel.part import (
    batches_in_flight,
    dense_layers_of,
    held_parameters,
    layers_of,
    local_setup,
    part_of,
)
from raybench.performance_model.parallel.sharding import shard_count, state_shard_count
from raybench.performance_model.search import largest_fitting
from raybench.performance_model.setup.adapters import PACKED_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

# Elements of state per trained element: Adam has two moments. bitsandbytes' 8-bit moments add a 4-byte scale per 256
# elements (blockwise quantisation, Dettmers et al. 2022).
_STATE_ELEMENTS = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "adamw-8bit": 2}
_STATE_8BIT_BYTES = 1 + 4 / 256
# Outside PyTorch's allocator: the CUDA context with its libraries (assumed), and, with more than one rank, NCCL's
# buffers: on four A100 544 MB for a group of two, 688 MB for a larger one (NVIDIA/nccl issue 964). Each further group
# takes 0.65 GiB on MI250X (Lumi-supercomputer/LUMI-AI-Guide issue 111), which is counted for Megatron-LM only.
CONTEXT_BYTES = int(0.6 * 2**30)
NCCL_BYTES = 688 * 10**6
# Fragmentation, as a share of what comes and goes in a step. Chosen so that the estimates of the sources that measured
# it (reserved memory, or the driver's figure) are neither too low nor too high: of those whose blocks are kept, and of
# twelve whose blocks are recomputed. In 13 trainings on one H200 it was 0.10 and 0.52 in the median
# (tests/gpu/trainings/h200.jsonl). The last one is the least: nothing runs without it.
FRAGMENTATION_SHARES, LEAST_FRAGMENTATION_SHARE = {"kept": 0.12, "computed again": 0.2}, 0.05
# The verdict is unknown where the peak is this near to what a GPU has: estimates may be too low by the first share, or
# too high by the second. Of 238 published rows that ran out of memory 9 are told that they fit; 8 with a margin chosen
# from the other sources (tests/performance_model/leave_one_out.py).
SHORT_SHARE, LONG_SHARE = 0.05, 0.03
MOST_BATCH = 1 << 20
_MANY = 1 << 20  # micro-batches: a pipeline is full
_KEPT = 4096  # estimates: a plan asks for the same one while it searches a micro-batch and when it estimates the way
ZERO_BUCKET = 500_000_000  # elements: DeepSpeed's reduce_bucket_size
ZERO_GROUP = 10**9  # elements of shards that DeepSpeed's ZeRO-3 updates at once (sub_group_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes of one rank. ``peak`` must be free on the device; ``allocated`` is what PyTorch's allocator hands out.

    ``moments``: what comes and goes, at each moment of a step that may be the fullest. ``buffers`` (copies of weights
    or gradients), ``activations``, ``logits`` and ``optimizer_temporaries`` are its parts, each at its own largest.
    ``waiting``: weights that were gathered on other streams and are not yet free (``reserved_on_streams``).
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
        """The same with the least fragmentation: with less memory it does not run."""
        return self.allocated + int(LEAST_FRAGMENTATION_SHARE * self.dynamic) + self.context

    def reserved_on_streams(self, limit: float) -> float:
        """What the allocator ends up holding, of ``limit`` bytes, where weights are gathered on other streams.

        With FSDP1 and ZeRO-3. More than is needed: what is ``waiting`` for a stream is freed before it fails.
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
        # with one micro-batch ZeRO-1 frees what is reduced, as ZeRO-2 does (stage_1_and_2.py)
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
    """With Megatron-LM's communicators and fragmentation."""
    if layout.world_size == 1:
        return memory
    fragmentation = int(MEGATRON_FRAGMENTATION_SHARE * memory.dynamic)
    return replace(memory, context=CONTEXT_BYTES + MEGATRON_NCCL_BYTES, fragmentation=fragmentation)


def _stage_part(model: Transformer, layout: Layout, stage: int) -> Transformer:
    """The part of the model that a rank of this pipeline stage holds, with the stage's own number of layers."""
    part, layers = part_of(model, layout, stage=stage), layers_of(model, layout, stage)
    if part.layers == layers:
        return part
    return replace(part, layers=layers, dense_layers=dense_layers_of(model, layout, stage, layers))


def _stage_memory(model: Transformer, setup: TrainingSetup, layout: Layout, in_flight: float = 1.0) -> MemoryEstimate:
    """Of a rank that holds the model, or the part that ``model`` is."""
    shards = shard_count(setup, layout)
    held = Held.of(model, setup, layout)
    temporaries = _temporaries(setup, held.trained)
    step = Step(
        model=model, setup=setup, shards=shards, gradients=held.gradients, temporaries=temporaries, in_flight=in_flight
    )
    copies = _bucket_copies(model, setup, layout)
    moments = _moments(step, copies)
    whole = MemoryEstimate(
        parameters=int(held.parameters + model.buffer_bytes),  # which no strategy shards
        gradients=int(held.gradients),
        optimizer_state=int(held.state),
        buffers=int(copies + _buffers(step)),
        activations=int(step.at_loss - step.kept_of_block + step.activations(1) + step.waiting),
        logits=int(max(step.loss.forward, step.loss.backward)),
        optimizer_temporaries=int(temporaries),
        context=CONTEXT_BYTES + (NCCL_BYTES if layout.world_size > 1 else 0),
        fragmentation=0,
        moments=moments,
        gradients_kept=setup.keeps_gradients,
    )
    if shards == 1:
        return replace(whole, fragmentation=int(fragmentation_share(setup) * whole.dynamic))
    return replace(
        whole,
        fragmentation=int(_fragmentation_of_shards(step, moments, copies)),
        waiting=waiting_bytes(model, setup, whole.dynamic),
    )


def _fragmentation_of_shards(step: Step, moments: Mapping[str, int], copies: float) -> float:
    """Of a step; blocks that wait after it are freed for a model that is gathered to be saved."""
    in_step = {name: size for name, size in moments.items() if name != "saving"}
    found = sharded_fragmentation(step, in_step, copies=copies)
    more = max(moments.values()) - max(in_step.values())
    return max(found - more, LEAST_FRAGMENTATION_SHARE * max(moments.values())) if more else found


def _moments(step: Step, copies: float) -> dict[str, int]:
    """What comes and goes at each moment. ``copies``: buckets of gradients."""
    found = shard_moments(step) if step.shards > 1 else replica_moments(step)
    return {
        name: int(
            size
            + (copies if has_buckets(step.setup, name) else 0)
            + (0 if name in AFTER_THE_STEP else step.waiting)
            + step.outputs(name)
        )
        for name, size in found.items()
    }


def fragmentation_share(setup: TrainingSetup) -> float:
    """Fragmentation of a rank that holds the whole model, as a share of what comes and goes."""
    again = setup.recomputed_share if setup.checkpointing else 0.0
    return again * FRAGMENTATION_SHARES["computed again"] + (1 - again) * FRAGMENTATION_SHARES["kept"]


def _temporaries(setup: TrainingSetup, trained: float) -> float:
    """What the update needs beside gradients and state: what Adam over lists of tensors keeps, fp32 gradients.

    Adam that is not fused has one element per parameter. Gradients in 16 bits are copied to fp32; DeepSpeed lays them
    side by side first, and does so group by group with ZeRO-3. DeepSpeed's own Adam is fused. One of PyTorch's that the
    program makes (transformers' adamw_torch, where the ds_config.json names no optimizer) is not, with ZeRO
    neither: hiyouga/LLaMA-Factory issue 1221 ran out of memory in it.
    ZeRO-3 gives it a group at a time (deepspeed/runtime/zero/stage3.py, _optimizer_step).
    """
    if setup.offload != "none":
        return 0.0
    has_adam = setup.optimizer.removeprefix("paged-") in ("adam", "adamw")
    step = trained * setup.parameter_bytes if has_adam and not setup.fused_optimizer else 0.0
    step *= 2 if setup.second_list else 1
    if setup.whole_state or setup.gradient_buffers:  # one fused kernel, and fp32 copies of gradients in 16 bits
        return trained * setup.parameter_bytes if setup.gradient_bytes < setup.parameter_bytes else 0.0
    if setup.strategy == "zero3":
        each = setup.compute_bytes + setup.parameter_bytes + (step / trained if trained else 0)
        return min(trained, ZERO_GROUP) * each
    if setup.is_deepspeeds:
        return trained * (setup.compute_bytes + setup.parameter_bytes) + step
    copied = setup.has_optimizer_weights and not setup.stores_remainders
    return step + (trained * setup.parameter_bytes if copied else 0.0)


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
            state += trained * setup.master_bytes
        if setup.is_zero:
            spread = state_share if setup.strategy == "zero2" else share
            gradients = setup.trainable(model) * spread * setup.gradient_bytes
            state += trained * setup.master_bytes
        parameters = _parameters(model, setup) * share
        is_paged = setup.optimizer.startswith("paged-")  # to the CPU wherever the GPU has no room for it
        if setup.offload == "optimizer" and setup.offloads_gradients:
            away = state + gradients
            return cls(trained=trained, parameters=parameters, gradients=0.0, state=0.0, offloaded=away)
        if is_paged or setup.offload == "optimizer":
            here = trained * setup.master_bytes if setup.keeps_masters else 0.0
            return cls(trained=trained, parameters=parameters, gradients=gradients, state=here, offloaded=state - here)
        if setup.offload == "none":
            return cls(trained=trained, parameters=parameters, gradients=gradients, state=state)
        return cls(trained=trained, parameters=0.0, gradients=0.0, state=0.0, offloaded=parameters + gradients + state)


def state_bytes(setup: TrainingSetup) -> float:
    """Bytes of optimizer state for each element trained."""
    name = setup.optimizer.removeprefix("paged-")
    element = _STATE_8BIT_BYTES if name == "adamw-8bit" else setup.moment_bytes or setup.parameter_bytes
    return _STATE_ELEMENTS[name] * element


def _parameters(model: Transformer, setup: TrainingSetup) -> float:
    """Bytes of all parameters before sharding."""
    if not setup.lora_rank:
        narrow = model.linear_parameters * (setup.stored_bytes - 1) if setup.has_8bit_weights else 0
        return float(model.parameters * setup.stored_bytes - narrow)
    adapters = model.lora_parameters(setup.lora_rank, setup.lora_targets) * setup.stored_bytes
    if not setup.quantized:
        return float(model.parameters * setup.frozen_bytes + adapters)
    packed = setup.packed_parameters(model)
    unpacked = setup.unpacked_parameters(model) * setup.compute_bytes
    return packed * PACKED_BYTES[setup.packing] + (model.parameters - packed) * setup.kept_bytes + unpacked + adapters


def _bucket_copies(model: Transformer, setup: TrainingSetup, layout: Layout) -> float:
    """Buckets of gradients: DDP's where the gradients are not views of them, DeepSpeed's while it reduces.

    ZeRO-3 has one of DeepSpeed's default size, or, where the loss is not a plain one, two of the hidden size squared,
    as transformers sets them (``"reduce_bucket_size": "auto"``). Who gives accelerate no file of DeepSpeed's has its
    default with any loss (accelerate/utils/dataclasses.py, DeepSpeedPlugin, names none).
    """
    if setup.strategy == "zero3":
        of_transformers = 2.0 * min(setup.trainable(model), model.hidden**2)
        is_default = setup.default_bucket or setup.loss == "plain"
        return (ZERO_BUCKET if is_default else of_transformers) * setup.compute_bytes
    if setup.is_deepspeeds:  # of that size however few gradients there are; two with overlap_comm
        count = 2.0 * setup.bucket_times if setup.strategy == "zero2" else 1.0
        return count * ZERO_BUCKET * setup.gradient_bytes
    # who has no replica is not wrapped (accelerate/accelerator.py, prepare_model: not with tensor ranks alone)
    if setup.is_sharded or setup.is_zero or setup.bucket_view or layout.sharing.ranks == 1:
        return 0.0
    return float(setup.trainable(model) * setup.parameter_bytes)


def _buffers(step: Step) -> float:
    """Copies of weights: gathered (shards), cast (replicas), and one unpacked layer of a 4-bit base."""
    model, setup = step.model, step.setup
    if step.shards > 1:
        every = setup.strategy == "fsdp-grad-op"
        blocks = model.block_parameters if every else min(2, model.layers) * model.parameters_per_layer
        gathered = model.outer_parameters + blocks
        if setup.strategy == "zero3":
            return step.live + step.whole_gradients
        return gathered * setup.compute_bytes + step.whole_gradients
    casts = model.parameters - model.lookup_parameters if setup.casts_weights or setup.casts_base else 0
    return casts * setup.compute_bytes + step.unpacked


def largest_batch(
    model: Transformer,
    setup: TrainingSetup,
    layout: Layout,
    memory_bytes: float,
    *,
    most: int = MOST_BATCH,
    accumulation: int = _MANY,
) -> int:
    """The largest micro-batch of a rank whose peak is within ``memory_bytes``; 0 where not even one sample fits."""

    def fits(batch_size: int) -> bool:
        asked = replace(setup, batch_size=batch_size)
        return estimate_memory(model, asked, layout, accumulation=accumulation).peak <= memory_bytes

    return largest_fitting(fits, most=most)
