"""What a rank holds at the moments of a step at which it may hold most, beside parameters and optimizer state.

Each moment is a sum of what is there at once; the peak of a step is the largest of them (docs/methods.md). Bytes.
"""

from dataclasses import dataclass, field

from raybench.performance_model.activations import (
    block_activation_bytes_per_token,
    checkpoint_bytes_per_token,
    outer_bytes_per_token,
    passing_bytes_per_token,
    selective_bytes_per_token,
)
from raybench.performance_model.parallel.recomputed_modules import kept_bytes_per_token
from raybench.performance_model.step.loss_memory import LossMemory
from raybench.performance_model.training_setup import PACKED_BYTES, TrainingSetup
from raybench.performance_model.transformer import Transformer

# Of a 4-bit weight while its layer computes: as an index and in fp32 (adapters.QuantisedWeight.dense).
_UNPACKED_BYTES = 6
# Elements of weights that DeepSpeed's ZeRO-3 keeps gathered at once (stage3_max_live_parameters, _max_reuse_distance).
ZERO_LIVE = 10**9
# Blocks whose activations are on the GPU where they are offloaded: of those a few tensors wait for the copy (five in
# torchtune's OffloadActivations), and the next come back while one block is in its backward pass.
_BLOCKS_WHILE_OFFLOADED = 2
_FP32_BYTES = 4
# The moments of shards at which those gradients are there that a backward pass has made.
WITH_GRADIENTS = frozenset({"first block, backward", "embedding, backward", "embedding, reduce", "update"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The sizes that the moments are made of. ``temporaries``: of the update; ``shards``: 1 for replicas.

    ``in_flight``: micro-batches whose activations are there at once. ``block_activations``: all that the forward pass
    of one block keeps, of the last where they are of several kinds. ``kept_of_block``: what is kept of a block until
    its backward pass begins, the mean where they are not all alike. Both are counted once: every moment asks for them.
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
        """Gradients that are not there before the backward pass makes them."""
        return 0.0 if self.setup.keeps_gradients else self.gradients

    @property
    def whole_gradients(self) -> float:
        """Unsharded gradients of the micro-batches before."""
        has_any = self.shards > 1 and self.setup.adds_up_whole
        return float(self.setup.trainable(self.model) * self.setup.reduced_bytes) if has_any else 0.0

    @property
    def live(self) -> float:
        """Weights that DeepSpeed's ZeRO-3 keeps gathered: up to a limit, or the largest module of its own."""
        model = self.model
        largest = max(model.token_table_parameters, _largest_linear(model))
        return float(max(min(model.parameters, ZERO_LIVE), largest) * self.setup.compute_bytes)

    @property
    def held_weights(self) -> float:
        """The same until the first block's backward pass; or all that linear layers keep, not the embedding."""
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
        """Kept on the GPU of so many blocks that wait for their backward pass."""
        here = min(blocks, _BLOCKS_WHILE_OFFLOADED) if self.setup.offloads_activations else blocks
        return here * self.kept_of_block

    @property
    def waiting(self) -> float:
        """Activations of the micro-batches of a pipeline that are on their way, beside the one that is computed."""
        return 0.0 if self.setup.offloads_activations else (self.in_flight - 1) * self.kept(self.model.layers)

    def activations(self, blocks: int) -> float:
        """Kept of the first so many blocks, the last of which is in its backward pass."""
        return self.kept(blocks - 1) + max(self.block_activations, self.kept_of_block)

    def outputs(self, moment: str) -> float:
        """What a loop holds of the model's outputs: keys and values, and with the last ones the logits, in fp32.

        Those of the last step are let go with the next ones, so that both are there before the backward pass.
        """
        if not self.setup.keeps_outputs:
            return 0.0
        width = 2 * self.model.key_value_heads * self.model.head_size * self.setup.compute_bytes
        caches = float(self.setup.tokens * self.model.layers * width)
        last = caches + self.setup.tokens * self.model.vocabulary * _FP32_BYTES
        if moment == "update":
            return last
        new = caches if self.setup.checkpointing else 0.0  # else autograd keeps them
        return new + (last if moment == "loss" else 0.0)

    @property
    def held(self) -> float:
        """Inputs of all blocks but the first and their gradients, where hooks hold them, when that one comes last."""
        return 2.0 * (self.model.layers - 1) * self.kept_of_block if self.setup.holds_inputs else 0.0

    @property
    def at_loss(self) -> float:
        """Kept of all blocks and of what follows them."""
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
        """Weights of a block as shards are gathered: those of a 4-bit base as they are packed."""
        weights = self.model.parameters_per_layer * self.setup.compute_bytes
        packed = self.model.linear_parameters_per_layer
        if not self.setup.quantized:
            return float(weights - (packed * (self.setup.compute_bytes - 1) if self.setup.gathers_8bit else 0))
        return weights - packed * (self.setup.compute_bytes - PACKED_BYTES[self.setup.packing])

    @property
    def passing(self) -> float:
        """What a block's backward pass has beside what was kept, with the gradient of its largest weight."""
        states = self.setup.tokens * passing_bytes_per_token(self.model, self.setup)
        if self.setup.lora_rank:
            return states + self.unpacked
        weight = self.model.hidden * self.model.feedforward * self.setup.compute_bytes
        return states + weight + self._gathered

    @property
    def _gathered(self) -> float:
        """What sequence parallelism gathers for a block's matrix products: their input and its gradient, whole."""
        spread = self.setup.sequence_shards > 1
        return 2.0 * self.setup.tokens * self.model.hidden * self.setup.compute_bytes if spread else 0.0


def has_buckets(setup: TrainingSetup, moment: str) -> bool:
    """Whether buckets of gradients are there: DeepSpeed's ZeRO-1 and 2 have them for a backward pass only.

    ``backward`` makes them and the end of the reduction lets them go (deepspeed/runtime/zero/stage_1_and_2.py 0.16.4).
    """
    return not setup.is_deepspeeds or moment.endswith("backward")


def _largest_linear(model: Transformer) -> int:
    sizes = [size for kind in model.kinds() for size in kind.linears().values()]
    return max((inputs * outputs for inputs, outputs in sizes), default=0)


def replica_moments(step: Step) -> dict[str, float]:
    """Of a whole model on each rank: DDP, or one rank alone."""
    model, setup = step.model, step.setup
    loose = step.loose_gradients
    block_casts = float(model.parameters_per_layer * setup.compute_bytes) if setup.casts_weights else 0.0
    table_cast = step.loss.table_cast_bytes if setup.casts_weights else 0.0
    all_casts = float(model.block_parameters * setup.compute_bytes) if setup.casts_weights else 0.0
    casts = all_casts + table_cast  # the graph keeps them; of what is computed anew the context does
    anew = setup.checkpointing or setup.selective
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
    """Of FSDP2.

    The root (embeddings, last norm, output layer) stays gathered; of the blocks one is computed with and the next is
    being gathered. A block's gradients are there whole in the compute type, then copied for reduce_scatter, and that
    copy is let go when the next block's is made. The root's gradients are reduced last of all.
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
    added = step.whole_gradients
    before = step.activations(model.layers - 1) if model.layers > 1 else 0.0
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
        "first block, backward": root + block + head + copy + loose + step.activations(1) + step.passing + step.held,
        "embedding, backward": root + table + copy + loose,
        "embedding, reduce": outer * (setup.compute_bytes + setup.reduced_bytes * (1 - 1 / step.shards)) + loose,
        "update": loose + step.temporaries,
    }
