"""What a step should send by the formulas of performance_model/communication.py, for the profiler's count beside it."""

from torch import nn

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.training.hook import reduce_dtype, sent_bytes, sent_shapes
from raybench.benchmarks.training.models.precision import compute_dtype
from raybench.benchmarks.training.models.trainable import blocks_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.performance_model.communication import Shape, Sharding, ShardUnit, Traffic, ddp_traffic, fsdp_traffic
from raybench.performance_model.layout import Layout


def step_traffic(context: RankContext, model: nn.Module, name: str, options: TrainingOptions, dtype: str) -> Traffic:
    """All collectives of one step of this rank."""
    layout = Layout(world_size=context.world_size, ranks_per_node=ranks_on_node(context))
    if name != "fsdp":
        trained = [one for one in model.parameters() if one.requires_grad]
        return ddp_traffic(
            sent_shapes(_shapes(trained), options),
            layout,
            gradient_bytes=sent_bytes(options, trained[0].element_size() if trained else 4),
            bucket_bytes=options.bucket_mib * 2**20,
        )
    width = 4 if dtype == "float32" else compute_dtype(dtype).itemsize
    sharding = Sharding(
        strategy=options.sharding,  # type: ignore[arg-type]  # one of them: TrainingOptions
        parameter_bytes=width,
        gradient_bytes=reduce_dtype(options).itemsize,
        accumulation=options.accumulate,
        no_sync=not options.reduce_each,
    )
    return fsdp_traffic(shard_units(model), layout, sharding)


def ranks_on_node(context: RankContext) -> int:
    """Ranks a node, or all of them where they do not fill nodes evenly."""
    per_node = context.ranks_on_node
    return context.world_size if context.world_size % per_node else per_node


def shard_units(model: nn.Module) -> list[ShardUnit]:
    """The units that ``fully_shard`` makes: each block, then the rest, which stays gathered."""
    blocks = blocks_of(model)
    inside = {id(parameter) for block in blocks for parameter in block.parameters()}
    rest = [one for one in model.parameters() if id(one) not in inside]
    units = [ShardUnit(shapes=_shapes(list(block.parameters()))) for block in blocks]
    return [*units, ShardUnit(shapes=_shapes(rest), stays_gathered=True)] if rest else units


def _shapes(parameters: list[nn.Parameter]) -> tuple[Shape, ...]:
    return tuple(tuple(one.shape) for one in parameters)
