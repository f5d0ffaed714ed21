"""Layouts that are worth trying for a model on a machine. Pure.

As people lay models out: tensor parallelism within a node, pipelines across nodes, context parallelism for long
sequences, over nodes for those that a node does not hold, experts over as many ranks as there are.
"""

from collections.abc import Iterator
from dataclasses import replace

from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import OUTER_STAGES, is_even, part_of, spare_places
from raybench.performance_model.programs.program import Program
from raybench.performance_model.programs.table import MEGATRON_LM
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.request.torchtitan import by_torchtitan
from raybench.performance_model.setup.strategies import Strategy

# Tokens from which on sequences are cut, as in NVIDIA's recipes of Llama 3 8B and 70B (Megatron-Bridge,
# recipes/llama/h100/llama3.py: CP 2 at 8,192); below, tensor parallelism is enough.
_LONG_SEQUENCE = 8192
_OVER_NODES = 131_072  # tokens from which on the ranks of a sequence may be of several nodes
_MOST_STAGES = 16
# Of models whose layers a pipeline divides, as in NVIDIA's recipes of Llama 3 70B (VPP 5); of those with places for
# the embedding and the output layer, as in that of Llama 3.1 405B (Megatron-Bridge: PP 8, VPP 8).
_MOST_CHUNKS, _MOST_CHUNKS_WITH_PLACES = 5, 8
_OF_MEGATRON = frozenset({"kernels", "loss", "compiled"})  # what Megatron-LM decides of itself
# megatron/core/optimizer/distrib_optimizer.py takes Adam alone (August 2026); in 8 bits by Transformer Engine's.
_SHARDED_OPTIMIZERS = ("adam", "adamw", "adamw-8bit")


def cut_requests(request: EstimateRequest, *, on_sagemaker: bool = False) -> Iterator[EstimateRequest]:
    """Ways that cut the model: Megatron-LM's with ZeRO-1, and without a pipeline FSDP2 (torchtitan).

    As Megatron-LM and torchtitan train, by their facts; a dense model that torchtitan has not is one of transformers
    (accelerate), with what is known of its kernels; its experts are spread by SageMaker's library alone, with kernels
    and loss fused, where ``on_sagemaker`` says so. Of a program that is named those that it has. None for adapters,
    which small groups of GPUs train, nor for 16-bit weights or moments and offloaded activations.
    """
    if request.setup.lora_rank or request.layout.world_size == 1 or not request.setup.is_usual:
        return
    megatron = _by_megatron(request) if request.program is None else None
    for layout in cut_layouts(request.model, request.layout, request.setup.sequence_length):
        asked = replace(request, layout=layout)
        if request.program is not None:
            yield from (
                found
                for one in _cut_strategies(request.program, layout)
                if (found := _asked_of(asked, request.program, one)) is not None
            )
            continue
        if megatron is not None:
            yield replace(megatron, layout=layout)
        sharded = _sharded(asked, on_sagemaker) if layout.pipeline == 1 else None
        if sharded is not None:
            yield sharded


def _cut_strategies(program: Program, layout: Layout) -> tuple[Strategy, ...]:
    """accelerate cuts a model of transformers with FSDP alone (its ParallelismConfig); pipelines go with ZeRO-1."""
    sharded: tuple[Strategy, ...] = ("fsdp",) if layout.pipeline == 1 else ()
    tried: tuple[Strategy, ...] = sharded if program.starts == "transformers" else ("zero1", *sharded)
    return tuple(one for one in tried if one in program.strategies)


def _asked_of(request: EstimateRequest, program: Program, strategy: Strategy) -> EstimateRequest | None:
    """As the program runs it that is named; None where it cannot, or has a cut that no plan tries."""
    if any(getattr(request.layout, cut) > 1 for cut in program.unplanned_cuts):
        return None
    asked = replace(request, setup=replace(request.setup, strategy=strategy, gradient_bytes=4))
    return with_program(asked, planned=True) if refused(program, asked) is None else None


def _by_megatron(request: EstimateRequest) -> EstimateRequest | None:
    """With ZeRO-1 as Megatron-LM runs it, by its facts; None where it shards no such optimizer.

    With the loss and the kernels that it has, whatever was said of another program's: it is the one that is printed.
    With the vocabulary of the other ways: a padded one is no reason to shard.
    """
    if request.setup.optimizer not in _SHARDED_OPTIMIZERS:
        return None
    setup = replace(request.setup, strategy="zero1", gradient_bytes=4)
    free = replace(
        request, setup=setup, program=MEGATRON_LM, said=request.said - _OF_MEGATRON | {"vocabulary_multiple"}
    )
    own = with_program(replace(free, kernels_known=False, loss_known=False), planned=True)
    taken = replace(own, program=None, taken=(), asked=None, kernels_known=True, loss_known=True)
    return replace(taken, setup=replace(own.setup, loss_open=False))


def _sharded(request: EstimateRequest, on_sagemaker: bool) -> EstimateRequest | None:
    """With FSDP2 as the framework runs it that has the model; None where none has.

    Nor where it has experts of tensor ranks in the other form: torchtitan whole where they are spread at all (its ranks
    of experts are those of shards and tensors, models/common/MOE_SHARDING.md), SageMaker's library cut.
    """
    setup = replace(request.setup, strategy="fsdp", gradient_bytes=4)
    own = by_torchtitan(request, setup)
    spread, whole = request.layout.expert > 1, request.layout.has_whole_experts
    if spread and request.layout.tensor > 1 and whole != (own is not None):
        return None
    if own is not None or not request.model.experts:
        return own or replace(request, setup=setup)
    if not on_sagemaker:
        return None
    fused = replace(setup, kernels="fused", loss="fused", loss_open=False)
    return replace(request, setup=fused, kernels_known=True, loss_known=True)


def cut_layouts(model: Transformer, whole: Layout, sequence_length: int) -> Iterator[Layout]:
    """Every layout that cuts the model and can be.

    Ranks of a sequence have equal parts of it, of context parallelism two each (torchtitan, Megatron-LM).
    """
    per_node = whole.node.ranks
    most = whole.world_size if sequence_length >= _OVER_NODES else per_node
    contexts = [ranks for ranks in _powers(most) if ranks == 1 or sequence_length >= _LONG_SEQUENCE * ranks // 2]
    for tensor in _powers(per_node):
        for context in contexts:
            halves = 2 * context if context > 1 else 1
            if tensor * context > most or sequence_length % (tensor * halves):
                continue
            for pipeline in _stages(min(_MOST_STAGES, model.layers), whole.world_size):
                for expert in _powers(max(1, model.experts)):
                    cuts = (tensor, context, pipeline, expert, _chunks(model, pipeline))
                    for expert_cut in _expert_cuts(model, tensor, expert):
                        found = _layout(model, whole, cuts, expert_cut)
                        if found is not None:
                            yield found


def _expert_cuts(model: Transformer, tensor: int, expert: int) -> tuple[int | None, ...]:
    """Ranks that each expert is cut over: as all else, or none where experts are spread over tensor ranks too."""
    if not model.experts:
        return (None,)
    return (tensor, 1) if tensor > 1 and expert > 1 else (tensor,)


def _layout(
    model: Transformer, whole: Layout, cuts: tuple[int, int, int, int, int], expert_cut: int | None
) -> Layout | None:
    """The layout; None where it cuts nothing, or cannot be."""
    tensor, context, pipeline, expert, chunks = cuts
    widths = (model.key_value_heads, model.shared_feedforward, model.dense_feedforward)
    if not is_even(model, pipeline) or any(width % tensor for width in widths):
        return None
    try:
        layout = replace(
            whole,
            tensor=tensor,
            context=context,
            pipeline=pipeline,
            expert=expert,
            virtual_stages=chunks,
            expert_cut=expert_cut,
        )
        part_of(model, layout)
    except UsageError:
        return None
    inner = layout.expert_tensor if model.experts else tensor
    return layout if layout.is_cut and model.feedforward % inner == 0 else None


def _chunks(model: Transformer, pipeline: int) -> int:
    """Parts that a pipeline rank can have of equally many layers, or places for them in the first and the last."""
    spare = spare_places(model, pipeline)
    if pipeline == 1 or spare not in (0, OUTER_STAGES):
        return 1
    each = (model.layers + spare) // pipeline
    most = _MOST_CHUNKS_WITH_PLACES if spare else _MOST_CHUNKS
    return max((chunks for chunks in range(1, most + 1) if each % chunks == 0), default=1)


def _stages(most: int, ranks: int) -> list[int]:
    """Powers of two, and of ranks in threes thrice these: 384 GPUs have no replicas that 2048 samples go round else."""
    return _powers(most) + ([3 * power for power in _powers(most // 3)] if ranks % 3 == 0 and most >= 3 else [])


def _powers(most: int) -> list[int]:
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found
