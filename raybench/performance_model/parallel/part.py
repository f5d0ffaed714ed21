"""The part of a model that one rank holds under tensor, pipeline or expert parallelism: a transformer itself.

Tensor parallelism (Shoeybi et al. 2019, Megatron-LM) cuts heads, the MLP's inner width and the vocabulary; the
normalisations stay whole on each rank. A pipeline cuts the layers; its first stage has the token embedding, its last
one the output layer. Expert parallelism gives each rank some of a layer's experts.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.models.counted_model import CountedModel
from raybench.performance_model.models.transformer import NORMS_OF_PREDICTION, Transformer
from raybench.performance_model.parallel.sharding import as_pipelined, keeps_gathered
from raybench.performance_model.setup.training_setup import TrainingSetup

# Stages that may have the token embedding or the output layer in place of a layer (Megatron-LM's
# --account-for-embedding-in-pipeline-split and -loss-): so Qwen3-235B has 94 layers in 96 stages.
OUTER_STAGES = 2
BATCHES_PER_STAGE = 4  # micro-batches of a pipeline at the least, so that little of a step is its bubble
_MOST_SPARE = 3  # layers that the first and the last stage of a plan's pipelines may have less than the others
_KEPT_PARTS = 4096  # a plan asks for the same ones for each micro-batch that it tries


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPart(Transformer):
    """A rank's part. ``embeds``: with the token embedding; ``scores``: with the last normalisation and output layer.

    ``expert_ranks``: the ranks that a layer's experts are spread over; each token goes to as many experts as ever.
    ``sequence_ranks``: those that a sequence is cut over; each token attends to all parts of it. ``tensor_ranks``:
    those that a layer is cut over.
    """

    embeds: bool = True
    scores: bool = True
    expert_ranks: int = 1
    sequence_ranks: int = 1
    tensor_ranks: int = 1

    def attention_flops_per_token(self, sequence_length: int) -> float:
        """Of a token in a part of ``sequence_length`` tokens, which attends to all parts (Ring Attention, Liu 2023)."""
        return Transformer.attention_flops_per_token(self, sequence_length * self.sequence_ranks)

    def copies(self, linear: str) -> int:
        """How many of a linear layer one rank has."""
        return max(1, Transformer.copies(self, linear) // self.expert_ranks)

    def outer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parameters outside the blocks, as far as this stage has them."""
        tables = self.embeds + (self.scores and not (self.tied and self.embeds))
        tables += self.predicting > 0 and not self.embeds and not self.tied  # which joins embeddings of tokens
        positions = ((self.positions, self.hidden),) if self.positions and self.embeds else ()
        norms = self.scores + (self.embedding_norm and self.embeds) + NORMS_OF_PREDICTION * self.predicting
        norm = ((self.norm_parameters,),) * norms
        joins = ((math.ceil(self.hidden / self.tensor_ranks), 2 * self.hidden),) * self.predicting
        bias = ((self.vocabulary,),) if self.head_bias and self.scores else ()
        return ((self.vocabulary, self.hidden),) * tables + positions + bias + joins + norm

    @property
    def cuts_layers(self) -> bool:
        """Whether ranks share each layer, and start collectives in it; a pipeline's stage has whole ones."""
        return max(self.tensor_ranks, self.sequence_ranks, self.expert_ranks) > 1

    @property
    def outer_parameters(self) -> int:
        """Parameters outside the blocks."""
        return sum(math.prod(shape) for shape in self.outer_shapes())

    @property
    def idle_parameters(self) -> int:
        """Weights of the rank's experts that do not compute a given token; below 0 where other ranks' compute it."""
        more = max(1, self.experts // self.expert_ranks) - self.experts_per_token
        return int((self.layers - self.dense_layers) * more * self.each_expert) if self.experts else 0

    @property
    def expert_parameters(self) -> int:
        """Weights of the experts that this rank has; 0 where experts are not spread."""
        if self.expert_ranks == 1:
            return 0
        return (self.layers - self.dense_layers) * self.each_expert * max(1, self.experts // self.expert_ranks)


def held_parameters(part: Transformer, layout: Layout, shards: int) -> float:
    """Parameters that a rank holds of its part when that is sharded over ``shards`` ranks.

    Experts are spread already, so fewer ranks hold the same ones: a rank's share of all experts of a layer is the same,
    however they are spread.
    """
    experts = part.expert_parameters if isinstance(part, ModelPart) else 0
    whole = layout.tensor // layout.expert_tensor
    return (part.parameters - experts) / shards + experts / max(1, shards * whole // layout.expert)


@lru_cache(maxsize=_KEPT_PARTS)
def part_of(model: Transformer, layout: Layout, *, stage: int | None = None) -> Transformer:
    """What a rank of a pipeline's ``stage`` holds before sharding over replicas; the model itself where it is not cut.

    None: of the stage for which all others wait, the first one with the layers of those behind it, which all have
    experts.
    A tensor rank with whole experts computes its share of the tokens, counted as all tokens with fewer experts each.
    Raises UsageError where the model cannot be cut so.
    """
    if not layout.is_cut:
        return model
    _check(model, layout)
    ranks, layers = layout.tensor, math.ceil(model.layers / layout.pipeline)
    cut = ModelPart(
        **{one.name: getattr(model, one.name) for one in fields(model)},
        embeds=not stage,
        scores=(stage or 0) == layout.pipeline - 1,
        expert_ranks=layout.expert,
        sequence_ranks=layout.context,
        tensor_ranks=ranks,
    )
    return replace(
        cut,
        layers=layers,
        heads=model.heads // ranks,
        kv_heads=max(1, model.key_value_heads // ranks),
        head_width=model.head_size,
        feedforward=math.ceil(model.feedforward / (layout.expert_tensor if model.experts else ranks)),
        experts_per_token=model.experts_per_token * layout.expert_tensor / ranks,
        shared_feedforward=math.ceil(model.shared_feedforward / ranks),
        dense_layers=dense_layers_of(model, layout, stage, layers),
        dense_feedforward=math.ceil(model.dense_feedforward / ranks),
        vocabulary=math.ceil(model.vocabulary / ranks),
        predicting=model.predicting if cut.scores else 0,
    )


def dense_layers_of(model: Transformer, layout: Layout, stage: int | None, layers: int) -> int:
    """Layers without experts of so many of a stage's: as far as the first ones reach, or those between the others.

    The last stage has fewest of the first ones, for which all wait. Of those between the others a part has a layer more
    or less than its share, by where it starts: each is counted with the fewest, as the fullest stage has it. All parts
    of an interleaved stage may start alike.
    """
    if model.dense_between:
        parts = layout.virtual_stages
        sizes = (layers // parts + (one < layers % parts) for one in range(parts))
        return sum(size * model.dense_layers // model.layers for size in sizes)
    before = math.ceil(model.layers / layout.pipeline) * (layout.pipeline - 1 if stage is None else stage)
    return max(0, min(model.dense_layers - before, layers))


def spare_places(model: Transformer, pipeline: int) -> int:
    """How many layers short of equally full a pipeline of so many stages is."""
    return -model.layers % pipeline


def is_even(model: Transformer, pipeline: int) -> bool:
    """Whether all stages have equally many layers, except for up to three fewer in the first and last stage together.

    So models are cut whose layers no pipeline divides: Llama 3's 126 as 128, DeepSeek-V3's 61 as 64 (Megatron-Bridge's
    recipe).
    """
    spare = spare_places(model, pipeline)
    return spare <= _MOST_SPARE and (model.layers + spare) // pipeline > spare // 2


def layers_of(model: Transformer, layout: Layout, stage: int) -> int:
    """Layers of a pipeline's stage. Where two are missing, the first and the last stage have one less each.

    They have the token embedding and the output layer instead (Megatron-LM,
    ``--account-for-embedding-in-pipeline-split`` and ``-loss-``; Qi et al. 2023, table 3; Llama 3's 126 of 128).
    """
    most = math.ceil(model.layers / layout.pipeline)
    is_outer = stage in (0, layout.pipeline - 1)
    return most - (is_outer and spare_places(model, layout.pipeline) == OUTER_STAGES and most > 1)


def _check(model: Transformer, layout: Layout) -> None:
    if isinstance(model, CountedModel):
        raise UsageError(f"how {model.name} would be cut over ranks is not known; take ddp, zero1, zero2 or fsdp")
    if model.heads % layout.tensor:
        raise UsageError(
            f"--tensor-parallel is {layout.tensor}, and {model.name} has {model.heads} attention heads, which cannot "
            "be divided so; choose a divisor"
        )
    shared = model.key_value_heads
    if shared % layout.tensor and layout.tensor % shared:  # Megatron-LM copies each where there are more ranks
        raise UsageError(
            f"--tensor-parallel is {layout.tensor}, and {model.name} has {shared} heads of keys and values, which "
            "cannot be divided so; choose a divisor"
        )
    stages = layout.pipeline * layout.virtual_stages
    if stages > model.layers + OUTER_STAGES:
        raise UsageError(
            f"a pipeline of {stages} stages (--pipeline-parallel x --virtual-stages) is longer than the "
            f"{model.layers} layers of {model.name}"
        )
    if layout.expert > 1 and (not model.experts or model.experts % layout.expert):
        has = f"{model.experts} experts; choose a divisor" if model.experts else "no experts; leave it out"
        raise UsageError(f"--expert-parallel is {layout.expert}, and {model.name} has {has}")


def local_setup(setup: TrainingSetup, layout: Layout) -> TrainingSetup:
    """The setup as one rank sees it: its share of each sequence, and of what sequence parallelism divides.

    And whether ZeRO-3 has other ranks to gather from.
    """
    if setup.strategy == "zero3" and layout.world_size == 1:
        setup = replace(setup, gathers_nothing=True)
    if not layout.is_cut:
        return setup
    setup = as_pipelined(setup, layout)
    return replace(
        setup,
        sequence_length=math.ceil(setup.sequence_length / layout.context),
        # ring attention takes no mask of padded samples (accelerate/accelerator.py drops it)
        masked_attention=False if layout.context > 1 and setup.masked_attention is None else setup.masked_attention,
        sequence_shards=layout.tensor if setup.spreads_sequence else 1,
        whole_gradients=setup.whole_gradients or keeps_gathered(setup, layout),
    )


def batches_in_flight(layout: Layout, stage: int, accumulation: int) -> float:
    """Micro-batches whose activations a stage keeps at once, in units of all its layers.

    1F1B (Narayanan et al. 2021, section 2.2): one for each stage behind it, and its own. Interleaved (the same, and
    Korthikanti et al. 2022, section 4): ``2 (p - stage - 1) + (v - 1) p + 1`` chunks of ``1/v`` of its layers, so that
    the first stage keeps ``p + (p - 1) / v``.
    """
    behind, chunks = layout.pipeline - stage - 1, layout.virtual_stages
    if layout.pipeline == 1:
        return 1.0
    if chunks == 1:
        return float(min(accumulation, behind + 1))
    return min(accumulation * chunks, 2 * behind + (chunks - 1) * layout.pipeline + 1) / chunks


def bubble_share(layout: Layout, accumulation: int) -> float:
    """Idle time of a pipeline for each second of work: ``(p - 1) / (v m)`` with m micro-batches (Narayanan 2021)."""
    return (layout.pipeline - 1) / (layout.virtual_stages * accumulation)


def stage_imbalance(model: Transformer, layout: Layout) -> float:
    """How many times as long as the average the slowest stage takes, for which all others wait.

    The last one has the output layer beside its layers; where it has a layer less than they for it (``layers_of``),
    that counts. Where the layers do not fill all places, the others have more of them: DeepSeek-V3's 61 over eight
    stages of two parts are four a part, of most.
    """
    head = (1 + model.predicting) * model.token_table_parameters / model.computing_parameters
    own, average = layers_of(model, layout, layout.pipeline - 1), model.layers / layout.pipeline
    places = layout.virtual_stages * math.ceil(model.layers / (layout.pipeline * layout.virtual_stages))
    last = (1 - head) * min(1.0, own / average) + head * layout.pipeline
    return max(1.0, last, (1 - head) * places / average)
