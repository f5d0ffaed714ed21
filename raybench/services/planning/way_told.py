"""A way of a plan as its document has it, beside the best."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.services.planning.launch import command_of, launch_lines

if TYPE_CHECKING:
    from raybench.documents.estimate import MeasuredSetting
    from raybench.documents.training_plan import TrainingWay
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.ways.way import Way
    from raybench.services.estimating.options import EstimateOptions
    from raybench.services.planning.goal import Reckoned


def way_told(known: "Reckoned", best: "Way", request: "EstimateRequest", asked: "EstimateOptions") -> "TrainingWay":
    """The way with its figures and how it is started; why another is better."""
    from raybench.documents.training_plan import TrainingWay

    way, one = known.way, known.way.estimate
    return TrainingWay(
        strategy=one.request.setup.strategy,
        activation_checkpointing=one.request.setup.checkpointing,
        batch_size=one.request.setup.batch_size,
        accumulation=one.request.accumulation,
        peak=one.peak,
        least_peak=one.least_peak,
        least_needed=one.least_needed if way.fits is None else None,
        experts_left_by=one.request.experts_left_by if way.fits is None else "",
        fits=way.fits,
        tokens_per_second=one.tokens_per_second,
        mfu=one.mfu,
        hours=known.hours,
        cost=known.cost,
        limit=way.limit,
        why_not="" if way is best and way.fits is not False else _why_not(way, best),
        command=command_of(way, request, asked.model, gpus_per_node=asked.gpus_per_node, vocabulary=asked.vocabulary),
        tensor_parallel=one.request.layout.tensor,
        context_parallel=one.request.layout.context,
        pipeline_parallel=one.request.layout.pipeline,
        virtual_stages=one.request.layout.virtual_stages,
        expert_parallel=one.request.layout.expert,
        expert_tensor_parallel=one.request.layout.expert_cut,
        selective_checkpointing=one.request.setup.selective,
        recomputed_share=one.request.setup.recomputed_share,
        recompute_modules=one.request.setup.recompute_modules,
        launch=launch_lines(way) if way.fits is not False else (),
    )


def _why_not(way: "Way", best: "Way") -> str:
    """Why another way is better."""
    memory = way.estimate.request.memory_bytes
    if way.fits is False and memory is not None:
        return "too large"
    if way.fits is None and memory is not None:
        return "may fit"
    if not way.tokens_per_second or not best.tokens_per_second:
        return ""
    ratio = best.tokens_per_second / way.tokens_per_second
    if ratio < 0.97:  # by another framework than PyTorch's own, and not by so much that it is worth it
        return f"{1 / ratio:.2f}x speed"
    return "as fast" if ratio < 1.005 else f"{ratio:.2f}x time"


def marked(way: "TrainingWay", measured: "tuple[MeasuredSetting, ...]") -> "TrainingWay":
    """The way with the runs that were measured in its very setting."""
    runs = tuple(dict.fromkeys(one.run_id for one in measured if one.taken and one.way == way.name))
    return replace(way, measured_by=runs) if runs else way
