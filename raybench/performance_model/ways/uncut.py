"""Ways that leave the model whole: each strategy, with activations kept and computed again. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from raybench.performance_model.parallel.strategies import Strategy
from raybench.performance_model.programs.program import usual_strategy
from raybench.performance_model.programs.taken import refused, with_program
from raybench.performance_model.step.request import EstimateRequest
from raybench.performance_model.ways.recomputed import all_again, nothing_again, selectively_recomputed


def uncut_requests(request: EstimateRequest) -> Iterator[EstimateRequest]:
    """All strategies that cut nothing, with activations kept and computed again; of full shards in part as well."""
    for strategy in _strategies(request):
        asked = replace(request, setup=replace(request.setup, strategy=strategy))
        asked = replace(asked, setup=nothing_again(asked))
        if request.program is not None and refused(request.program, asked) is not None:
            continue
        for computed in (asked.setup, all_again(asked.setup)):
            setup = replace(computed, gradient_bytes=request.setup.compute_bytes)
            yield with_program(replace(request, setup=setup), planned=True)
        part = selectively_recomputed(asked)
        if part is not None:
            yield part


def _strategies(request: EstimateRequest) -> tuple[Strategy, ...]:
    layout, packing = request.layout, request.setup.packing
    if layout.world_size == 1:
        return (usual_strategy(request.program, 1),)
    if packing == "8bit":  # FSDP lays a block's weights side by side, which bitsandbytes' scales do not survive
        return ("ddp", "zero1", "zero2")
    return ("ddp", "zero1", "zero2", "fsdp-grad-op", "fsdp", *(("fsdp-hybrid",) if layout.nodes > 1 else ()))
