"""The collectives of one training step, by the shapes of what ranks share: replicas or shards, and of a cut model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from raybench.performance_model.communication import (
    Message,
    Shape,
    Sharding,
    ShardUnit,
    Traffic,
    ddp_traffic,
    fsdp_traffic,
)
from raybench.performance_model.layout import Layout
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.parallel.sharding import as_pipelined, keeps_gathered
from raybench.performance_model.parallel.traffic import cut_traffic
from raybench.performance_model.setup.adapters import PACKED_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

_SHARDING_STRATEGIES: Mapping[str, Literal["full", "grad-op", "hybrid", "state"]] = {
    "fsdp": "full",
    "fsdp-grad-op": "grad-op",
    "fsdp-hybrid": "hybrid",
    "zero1": "state",
    "zero2": "state",
    "zero3": "full",
}


def training_traffic(
    model: Transformer, setup: TrainingSetup, layout: Layout, *, accumulation: int = 1, reduce_bytes: int = 4
) -> Traffic:
    """The collectives of one step: of the replicas or shards, and of a model that is cut.

    DDP sends gradients in the parameters' type, FSDP in ``reduce_bytes`` an element, ZeRO in ``gradient_bytes``.
    """
    part = part_of(model, layout)
    sharing = _sharing_messages(part, setup, layout, accumulation, reduce_bytes)
    cut = cut_traffic(model, setup, layout, accumulation=accumulation)
    return Traffic(messages=(*sharing, *cut.messages))


def _sharing_messages(
    part: Transformer, setup: TrainingSetup, layout: Layout, accumulation: int, reduce_bytes: int
) -> tuple[Message, ...]:
    """What ranks that hold the same part send each other; of experts that are spread, those that hold the same."""
    outer = part.outer_shapes()
    table, rest = outer[:1], outer[1:]
    blocks = [block for kind in part.kinds() for block in [_Block.of(kind, setup, layout)] * kind.layers]
    experts, is_frozen = [block.experts for block in blocks if block.experts], setup.lora_rank > 0
    held = layout.sharing_experts
    if setup.strategy == "ddp":
        trained = tuple(shape for block in blocks for shape in (block.adapters if is_frozen else block.whole))
        whole = trained if is_frozen else table + trained + rest
        size = setup.parameter_bytes
        spread = ddp_traffic(sum(experts, ()), layout, gradient_bytes=size, group=held).messages
        return (*ddp_traffic(whole, layout, gradient_bytes=size, accumulation=accumulation).messages, *spread)
    root = ShardUnit(shapes=outer, trainable=() if is_frozen else None, stays_gathered=True)
    units = [
        ShardUnit(shapes=block.whole + block.adapters, trainable=block.adapters if is_frozen else None)
        for block in blocks
    ]
    sharding = Sharding(
        strategy=_SHARDING_STRATEGIES[as_pipelined(setup, layout).strategy],
        parameter_bytes=setup.compute_bytes if setup.is_zero else _sent_bytes(part, setup),
        gradient_bytes=_reduced_bytes(setup, reduce_bytes),
        accumulation=1 if keeps_gathered(setup, layout) else accumulation,
        no_sync=setup.whole_gradients or setup.strategy == "zero1",
    )
    own = [ShardUnit(shapes=shapes, trainable=() if is_frozen else None) for shapes in experts]
    spread = fsdp_traffic(own, layout, sharding, group=held).messages
    return (*fsdp_traffic([root, *units], layout, sharding).messages, *spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Shapes of a block's parameters: of experts that are spread, of adapters, and of all else."""

    whole: tuple[Shape, ...]
    adapters: tuple[Shape, ...]
    experts: tuple[Shape, ...]

    @classmethod
    def of(cls, kind: Transformer, setup: TrainingSetup, layout: Layout) -> "_Block":
        """Of a transformer whose layers are alike."""
        experts = kind.expert_shapes() if layout.expert > 1 else ()
        adapters = kind.adapter_shapes(setup.lora_rank, setup.lora_targets) if setup.lora_rank else ()
        return cls(whole=_without(kind.block_shapes(), experts), adapters=adapters, experts=experts)


def _without(shapes: tuple[Shape, ...], some: tuple[Shape, ...]) -> tuple[Shape, ...]:
    rest = list(shapes)
    for shape in some:
        rest.remove(shape)
    return tuple(rest)


def _reduced_bytes(setup: TrainingSetup, reduce_bytes: int) -> int:
    if setup.strategy == "zero3":
        return setup.compute_bytes
    return setup.gradient_bytes if setup.is_zero else reduce_bytes


def _sent_bytes(model: Transformer, setup: TrainingSetup) -> float:
    """Bytes of an element as FSDP gathers it: the compute type; of 4-bit weights the average over a block."""
    if not setup.quantized:
        return setup.compute_bytes
    packed = setup.packed_parameters(model) / model.block_parameters
    return packed * PACKED_BYTES[setup.packing] + (1 - packed) * setup.compute_bytes
