"""What a rank holds beside parameters and optimizer state at each moment of a step that may be the fullest. Bytes.

A moment is the sum of what is there at once; the largest of them makes the peak of the step (docs/methods.md).
"""

from dataclasses import dataclass, field

from raybench.performance_model.memory.activations import (
    block_activation_bytes_per_token,
    checkpoint_bytes_per_token,
    outer_bytes_per_token,
    passing_bytes_per_token,
    selective_bytes_per_token,
)
from raybench.performance_model.memory.loss import LossMemory
from raybench.performance_model.memory.recomputed_modules import kept_bytes_per_token
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.adapters import PACKED_BYTES
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

# Per 4-bit weight while its layer computes, in raybench's own training: an index, and fp32
# (adapters.QuantisedWeight.dense).
_UNPACKED_BYTES = 6
# Elements of weights that DeepSpeed's ZeRO-3 keeps gathered at once (stage3_max_live_parameters, _max_reuse_distance).
ZERO_LIVE = 10**9
# With offloaded activations, so many blocks' are on the GPU: a few tensors wait for the copy (five in torchtune's
# OffloadActivations), and the next block's come back while one is in its backward pass.
_BLOCKS_WHILE_OFFLOADED = 2
AFTER_THE_STEP = frozenset({"update", "saving"})  # no activations are left then
# Moments of a sharded step that include the gradients the backward pass has made so far.
WITH_GRADIENTS = frozenset({"first block, backward", "embedding, backward", "embedding, reduce", "update"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The sizes that the moments are made of. ``temporaries``: of the update; ``shards``: 1 for replicas.

    ``in_flight``: micro-batches whose activations are there at once. ``block_activations``: all that one block's
    forward pass saves; of several kinds of blocks, the last kind's. ``kept_of_block``: what is kept of a block until
    its backward pass begins, in the mean of all blocks. Both are computed once, since every moment needs them.
    """

    model: Transformer
    setup: TrainingSetup
    shards: int
    gradients: float
    temporaries: float
    in_flight: float = 1.0
    block_activations: float = field(init=False)
    kept_of_block: float = field(init=False)
    loss: LossMemory = field(init=False)

    def __post_init__(self) -> None:
        kinds = self.model.kinds()
        kept = sum(kind.layers * self._kept_of(kind) for kind in kinds) / sum(kind.layers for kind in kinds)
        object.__setattr__(self, "loss", LossMemory(model=self.model, setup=self.setup))
        object.__setattr__(self, "block_activations", self._activations_of(kinds[-1]))
        object.__setattr__(self, "kept_of_block", kept)

    @property
    def loose_gradients(self) -> float:
        """Gradients that the backward pass makes anew."""
        return 0.0 if self.setup.keeps_gradients else self.gradients

    @property
    def whole_gradients(self) -> float:
        """Unsharded gradients added up over earlier micro-batches."""
        has_any = self.shards > 1 and self.setup.adds_up_whole
        return float(self.setup.trainable(self.model) * self.setup.reduced_bytes) if has_any else 0.0

    @property
    def live(self) -> float:
        """Weights that DeepSpeed's ZeRO-3 keeps gathered: up to its limit, or the largest module if that is larger."""
        model = self.model
        largest = max(model.token_table_parameters, _largest_linear(model))
        return float(max(min(model.parameters, ZERO_LIVE), largest) * self.setup.compute_bytes)

    @property
    def held_weights(self) -> float:
        """The same, or the weights of all linear layers where the graph keeps them until their backward pass."""
        if not self.setup.graph_holds_weights or self.setup.checkpointing:
            return self.live
        linear = self.model.block_parameters + self.model.token_table_parameters
        return float(max(self.live, linear * self.setup.compute_bytes))

    def _activations_of(self, kind: Transformer) -> float:
        return self.setup.tokens * block_activation_bytes_per_token(kind, self.setup)

    def _kept_of(self, kind: Transformer) -> float:
        if self.setup.selective:
            return self.setup.tokens * selective_bytes_per_token(kind, self.setup)
        if self.setup.recompute_modules:
            return self.setup.tokens * kept_bytes_per_token(kind, self.setup)
        again = self.setup.recomputed
        inputs = self.setup.tokens * checkpoint_bytes_per_token(kind, self.setup)
        return again * inputs + (1 - again) * self._activations_of(kind)

    def kept(self, blocks: int) -> float:
        """Kept on the GPU by so many blocks that wait for their backward pass."""
        here = min(blocks, _BLOCKS_WHILE_OFFLOADED) if self.setup.offloads_activations else blocks
        return here * self.kept_of_block

    @property
    def waiting(self) -> float:
        """Activations of a pipeline's other micro-batches in flight."""
        return 0.0 if self.setup.offloads_activations else (self.in_flight - 1) * self.kept(self.model.layers)

    def activations(self, blocks: int) -> float:
        """Activations of the first so many blocks while the last of them is in its backward pass."""
        return self.kept(blocks - 1) + max(self.block_activations, self.kept_of_block)

    def outputs(self, moment: str) -> float:
        """Model outputs that a training loop holds: keys and values, and the last step's logits in fp32.

        The last step's are freed when the next ones are assigned, so that both are there at the loss.
        """
        if not self.setup.keeps_outputs:
            return 0.0
        width = 2 * self.model.key_value_heads * self.model.head_size * self.setup.compute_bytes
        caches = float(self.setup.tokens * self.model.layers * width)
        last = caches + self.setup.tokens * self.model.vocabulary * FP32_BYTES
        if moment in AFTER_THE_STEP:
            return last
        new = caches if self.setup.checkpointing else 0.0  # else autograd keeps them
        return new + (last if moment == "loss" else 0.0)

    @property
    def held(self) -> float:
        """Inputs of all blocks but the first and their gradients, where hooks hold them until it ends."""
        return 2.0 * (self.model.layers - 1) * self.kept_of_block if self.setup.holds_inputs else 0.0

    @property
    def at_loss(self) -> float:
        """Activations of all blocks and of what follows them."""
        outer = self.setup.tokens * outer_bytes_per_token(self.model, self.setup)
        return self.kept(self.model.layers) + outer

    @property
    def unpacked(self) -> float:
        """The largest weight of a base in 4 or 8 bits, unpacked."""
        if not self.setup.quantized:
            return 0.0
        own = self.setup.loss == "plain" and self.setup.kernels == "plain" and self.setup.packing != "8bit"
        return float(_largest_linear(self.model) * (_UNPACKED_BYTES if own else self.setup.compute_bytes))

    @property
    def gathered_block(self) -> float:
        """A block's weights as they are gathered from shards: a 4-bit base stays packed."""
        weights = self.model.parameters_per_layer * self.setup.compute_bytes
        packed = self.setup.packed_parameters_per_layer(self.model)
        if not self.setup.quantized:
            return float(weights - (packed * (self.setup.compute_bytes - 1) if self.setup.gathers_8bit else 0))
        return weights - packed * (self.setup.compute_bytes - PACKED_BYTES[self.setup.packing])

    @property
    def passing(self) -> float:
        """What a block's backward pass has beside activations: passing gradients, and its largest weight's gradient."""
        states = self.setup.tokens * passing_bytes_per_token(self.model, self.setup)
        if self.setup.lora_rank:
            return states + self.unpacked
        weight = self.model.hidden * self.model.feedforward * self.setup.compute_bytes
        return states + weight + self._gathered

    @property
    def _gathered(self) -> float:
        """What sequence parallelism gathers for a block's matrix products: the whole input, and its gradient."""
        spread = self.setup.sequence_shards > 1
        return 2.0 * self.setup.tokens * self.model.hidden * self.setup.compute_bytes if spread else 0.0


def has_buckets(setup: TrainingSetup, moment: str) -> bool:
    """Whether buckets of gradients exist then: DeepSpeed's ZeRO-1 and 2 have them in the backward pass only.

    ``backward`` makes them, and the end of the reduction frees them (deepspeed/runtime/zero/stage_1_and_2.py 0.16.4).
    """
    return not setup.is_deepspeeds or moment.endswith("backward")


def _largest_linear(model: Transformer) -> int:
    sizes = [size for kind in model.kinds() for size in kind.linears().values()]
    return max((inputs * outputs for inputs, outputs in sizes), default=0)


def replica_moments(step: Step) -> dict[str, float]:
    """Where each rank has the whole model: DDP, or one rank alone."""
    model, setup = step.model, step.setup
    loose = step.loose_gradients
    has_casts = setup.casts_weights or setup.casts_base
    block_casts = float(model.parameters_per_layer * setup.compute_bytes) if has_casts else 0.0
    table_cast = step.loss.table_cast_bytes if has_casts else 0.0
    all_casts = float(model.block_parameters * setup.compute_bytes) if has_casts else 0.0
    anew = setup.checkpointing or setup.selective
    cached = not (anew and setup.casts_base)
    # the graph keeps them; of what is computed anew the context does, but not of what is frozen
    casts = (all_casts if cached else 0.0) + table_cast
    casts_left = table_cast if anew else casts
    kept_casts = block_casts if anew else all_casts
    tied = (
        step.loss.table_bytes if model.tied and not setup.lora_rank else 0.0
    )  # it waits for the gradient of the other end
    head = tied or min(step.loss.table_bytes, loose)
    others = loose * (1 - model.parameters_per_layer / model.parameters)
    return {
        "loss": casts + step.at_loss + step.loss.forward,
        "loss, backward": casts_left + step.at_loss + step.loss.backward,
        "output layer, backward": casts_left + step.at_loss + step.loss.output_layer_backward,
        "last block, backward": kept_casts + head + step.activations(model.layers) + step.passing,
        "first block, backward": block_casts + others + step.activations(1) + step.passing,
        "embedding, backward": loose
        + (0.0 if setup.lora_rank else step.loss.table_bytes)
        + (tied if loose else 2 * tied),
        "update": loose + step.temporaries,
    }


def shard_moments(step: Step) -> dict[str, float]:
    """Where ranks have shards, as FSDP2 handles them.

    The root (embeddings, last norm, output layer) stays gathered. One block computes while the next is gathered. A
    block's gradients are whole in the compute type, then copied for reduce_scatter; the copy is freed when the next
    block's is made. The root's gradients are reduced last. When the model is saved, each rank may have all of it.
    FSDP1 reshards a block when it reduces the gradients of its weights, of which frozen ones have none
    (_runtime_utils.py, _register_post_backward_hooks; from PyTorch 2.1 on when its input has a gradient, pull request
    101982): until then all blocks are left gathered.
    """
    model, setup = step.model, step.setup
    loose = step.loose_gradients
    root = float(model.outer_parameters * setup.compute_bytes)
    block = step.gathered_block
    trained = model.parameters_per_layer if not setup.lora_rank else setup.trainable(model) / model.layers
    gradient, copy = trained * setup.compute_bytes, trained * setup.reduced_bytes
    keeps = setup.strategy == "fsdp-grad-op"
    every = model.layers * block
    gathered = root + (every if keeps else 2 * block)
    ahead = root + (every if keeps else block)
    if setup.strategy == "zero3":
        root, gathered, ahead = 0.0, step.held_weights, step.held_weights
    rest = ahead - block if keeps else ahead  # once a block is released and the next is there
    head = 0.0 if setup.lora_rank else step.loss.table_cast_bytes
    table = (
        0.0 if setup.lora_rank else (3 if model.tied else 2) * step.loss.table_cast_bytes
    )  # tied: both ends, their sum
    outer = 0.0 if setup.lora_rank else float(model.outer_parameters)
    saving = {"saving": float(model.parameters * setup.stored_bytes)} if setup.gathers_to_save else {}
    added = step.whole_gradients
    before = step.activations(model.layers - 1) if model.layers > 1 else 0.0
    left = every if setup.frozen_blocks == "left gathered" else block
    return {
        "loss": ahead + (block if keeps else 0) + added + step.at_loss + step.loss.forward,
        "loss, backward": ahead + added + step.at_loss + step.loss.backward,
        "output layer, backward": ahead + added + step.at_loss + step.loss.output_layer_backward,
        "last block, backward": gathered + added + head + step.activations(model.layers) + step.passing,
        "last block, reduce": rest + added + head + gradient + copy + step.kept(model.layers - 1),
        "second last block, backward": gathered - (block if keeps else 0) + added + head + copy + before + step.passing,
        "second last block, gradients": gathered
        - (block if keeps else 0)
        + added
        + head
        + copy
        + gradient
        + step.kept(max(model.layers - 2, 0)),
        "first block, backward": root + left + head + copy + loose + step.activations(1) + step.passing + step.held,
        "embedding, backward": root + table + copy + loose,
        "embedding, reduce": outer * (setup.compute_bytes + setup.reduced_bytes * (1 - 1 / step.shards)) + loose,
        "update": loose + step.temporaries,
        **saving,
    }
