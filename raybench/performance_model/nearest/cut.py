"""Cuts of a model, where a training does not fit as it is: those with the fewest ranks for each sample first. Pure.

As people cut them (``cut_layouts``): experts over ranks that have samples of their own, layers within a node, sequences
that are long, stages last.
"""

from collections.abc import Iterator
from dataclasses import replace

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import Held
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.programs.program import Program
from raybench.performance_model.request.cuts import cut_layouts
from raybench.performance_model.setup.training_setup import TrainingSetup

_CUTS = ("tensor", "context", "pipeline", "expert")
_WITH_STAGES = ("ddp", "zero1")  # DeepSpeed's pipelines have no ZeRO above 1, PyTorch's schedules hold whole shards


def further_cuts(
    model: Transformer, setup: TrainingSetup, layout: Layout, world_size: int, program: Program | None
) -> Iterator[Layout]:
    """Layouts of so many ranks that cut the model no less than ``layout``, and more in one way at least."""
    whole = Layout(world_size=world_size, ranks_per_node=layout.ranks_per_node)
    every = cut_layouts(model, whole, setup.sequence_length)
    further = {_as_said(one, layout) for one in every if _is_further(one, setup, layout, program)}
    yield from sorted(further, key=_order)


def may_hold(model: Transformer, setup: TrainingSetup, layout: Layout, memory_bytes: float) -> bool:
    """Whether weights and optimizer state alone leave any room, which is quick to tell."""
    inner = part_of(model, layout, stage=min(1, layout.pipeline - 1))
    stays = Held.of(inner, setup, layout)
    return stays.parameters + stays.state < memory_bytes


def accumulation_of(samples: int, layout: Layout) -> int | None:
    """Micro-batches with which the replicas have so many of a step; None where they cannot have as many."""
    if layout.data > samples:
        return 1
    times, rest = divmod(samples, layout.data)
    return None if rest else times


def cut_words(before: Layout, after: Layout) -> list[str]:
    """Options of ``raybench estimate`` by which the two differ."""
    names = (*_CUTS, "virtual_stages")
    changed = [name for name in names if getattr(before, name) != getattr(after, name)]
    options = {name: f"{name}-parallel" for name in _CUTS} | {"virtual_stages": "virtual-stages"}
    words = [f"--{options[name]} {getattr(after, name)}" for name in changed]
    if after.expert_cut is not None and after.expert_cut != before.expert_cut:
        words.append(f"--expert-tensor-parallel {after.expert_cut}")
    return words


def _is_whole(found: Layout) -> bool:
    """Whether experts are spread over tensor ranks, too, which might cut them."""
    return found.expert > 1 and found.tensor > 1 and found.expert_cut == 1


def _as_said(found: Layout, layout: Layout) -> Layout:
    """Not interleaved anew; experts whole on tensor ranks, or as it was said: cut as all else, or in either form."""
    chunks = layout.virtual_stages if found.pipeline == layout.pipeline else 1
    unsaid = None if layout.expert_cut is None else found.tensor
    return replace(found, virtual_stages=chunks, expert_cut=1 if _is_whole(found) else unsaid)


def _is_further(found: Layout, setup: TrainingSetup, layout: Layout, program: Program | None) -> bool:
    more = [name for name in _CUTS if getattr(found, name) > getattr(layout, name)]
    less = any(getattr(found, name) < getattr(layout, name) for name in _CUTS)
    has = program is None or all(name in program.cuts for name in more)
    stages = "pipeline" not in more or setup.strategy in _WITH_STAGES
    decides = layout.expert_cut is not None and found.expert > 1 and found.tensor > 1
    same_experts = not decides or _is_whole(found) == (layout.expert_cut == 1)
    can = not _uncut_by_anyone(setup, layout, program) or more == ["context"]
    return bool(more) and not less and has and stages and same_experts and can


def _uncut_by_anyone(setup: TrainingSetup, layout: Layout, program: Program | None) -> bool:
    """Whether nobody cuts more than sequences: a 4-bit base, or a model of transformers by DeepSpeed's ZeRO-2 and 3.

    bitsandbytes has no layers that are parts of others, and what accelerate cuts with is FSDP (its ParallelismConfig).
    """
    if setup.quantized:
        return True
    of_transformers = program is None or "transformers" in (program.starts, program.timing)
    return of_transformers and not layout.is_cut and setup.strategy in ("zero2", "zero3")


def _order(layout: Layout) -> tuple[int, ...]:
    return layout.cut_ranks, layout.pipeline, layout.context, layout.expert, layout.tensor, layout.expert_cut or 0
