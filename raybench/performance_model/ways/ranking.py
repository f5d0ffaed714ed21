"""Which way comes first: what fits, then what is faster by as much as it wants more. Pure."""

import math
from collections.abc import Iterable

from raybench.performance_model.layout import Layout
from raybench.performance_model.request.torchtitan import torchtitan_config
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.ways.way import Way

AS_FAST = 1.05
WORTH_IT = 1.1  # how much faster a way has to be that wants another framework than PyTorch's own DDP and FSDP
_ROOMY = 0.95  # of it: a longer sample has a place in what is left (fragments are in a peak already)


def ranked(ways: Iterable[Way]) -> tuple[Way, ...]:
    """The best first, as ``ways_to_train`` has them."""
    ways = tuple(ways)
    best = max((preference(way) for way in ways if way.fits), default=0.0)
    return tuple(sorted(ways, key=lambda way: _rank(way, best)))


def _rank(way: Way, best: float) -> tuple[int, float, tuple[bool, int, int], bool]:
    one = way.estimate.request
    if way.fits is False:
        return 2, float(way.estimate.peak), (False, 0, 0), False
    speed = preference(way)
    as_fast = best > 0 and speed > 0
    behind = float(round(math.log(best / speed) / math.log(AS_FAST))) if as_fast else 0.0
    return (0 if way.fits else 1), behind, cuts(one.layout), shards_as_deepspeed(one.setup)


def preference(way: Way) -> float:
    """Its speed with kernels as good as those of the others: of some it is known that they are fused.

    What wants other software, or leaves less than a tenth of the memory, counts a tenth less. A measured speed has what
    it was measured with.
    """
    one = way.estimate.request
    if way.estimate.measured is not None and way.estimate.measured.step_seconds is not None:
        return way.tokens_per_second
    is_other = one.layout.is_cut or shards_as_deepspeed(one.setup) or one.setup.selective or one.is_of_torchtitan
    other = WORTH_IT if is_other else 1.0
    other *= WORTH_IT if one.layout.expert > 1 and one.setup.is_sharded and not torchtitan_config(one.model) else 1.0
    tight = 1.0 if is_roomy(way) else WORTH_IT
    return way.fused / (other * tight)


def shards_as_deepspeed(setup: TrainingSetup) -> bool:
    """Whether it is one of ZeRO's stages by name."""
    return setup.is_zero or setup.strategy == "zero3"


def is_roomy(way: Way) -> bool:
    """Whether some of the memory is left; true where it is not known."""
    one = way.estimate.request
    return one.memory_bytes is None or way.estimate.peak <= _ROOMY * one.memory_bytes


def cuts(layout: Layout) -> tuple[bool, int, int]:
    """Whether tensors or experts are cut over nodes, how much is cut, and by pipelines where that is equal.

    Both wait for their messages in every layer: Megatron-Core's notes keep tensor x expert ranks within a node.
    """
    waiting = layout.tensor * max(layout.expert, layout.context)
    over_nodes = layout.is_cut and waiting > layout.ranks_per_node
    return over_nodes, layout.tensor * layout.pipeline * layout.context * layout.expert, layout.pipeline
