"""Ways that leave the model whole: each strategy, with activations kept and computed again. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from raybench.performance_model.programs.program import usual_strategy
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.request.torchtitan import by_torchtitan
from raybench.performance_model.setup.strategies import Strategy
from raybench.performance_model.ways.micro_batch import largest_way
from raybench.performance_model.ways.ranking import preference
from raybench.performance_model.ways.recomputed import all_again, nothing_again, selectively_recomputed
from raybench.performance_model.ways.way import Way


def uncut_requests(request: EstimateRequest) -> Iterator[EstimateRequest]:
    """All strategies that cut nothing, with activations kept and computed again; of full shards in part as well."""
    for strategy in _strategies(request):
        asked = replace(request, setup=replace(request.setup, strategy=strategy))
        asked = replace(asked, setup=nothing_again(asked))
        program = request.program
        if program is not None and (strategy not in program.strategies or refused(program, asked) is not None):
            continue
        for computed in (asked.setup, all_again(asked.setup)):
            if program is not None and refused(program, replace(asked, setup=computed)) is not None:
                continue
            setup = replace(computed, gradient_bytes=request.setup.compute_bytes)
            yield with_program(replace(request, setup=setup), planned=True)
        part = selectively_recomputed(asked)
        if part is not None:
            yield part


def with_torchtitan(request: EstimateRequest, samples: int, ways: Sequence[Way]) -> list[Way]:
    """The ways with torchtitan's own full shards in place of those that are not sure to fit by PyTorch alone.

    Its kernels and loss are known, and what is open of the others may take more than there is.
    """
    found = list(ways)
    is_tried = request.program is None and request.memory_bytes is not None and "fsdp" in _strategies(request)
    for again in (False, True) if is_tried else ():
        alike = [way for way in found if _is_full_shards(way, again=again)]
        own = _of_torchtitan(request, samples, again=again) if not any(way.fits for way in alike) else None
        found = [*(way for way in found if way not in alike), own] if own is not None else found
    return found


def _is_full_shards(way: Way, *, again: bool) -> bool:
    setup = way.estimate.request.setup
    return setup.strategy == "fsdp" and setup.checkpointing is again and not setup.selective


def _of_torchtitan(request: EstimateRequest, samples: int, *, again: bool) -> Way | None:
    """Its full shards with activations kept, or computed again; None where it has not the model, or they do not fit."""
    kept = replace(nothing_again(request), strategy="fsdp")
    own = by_torchtitan(request, all_again(kept) if again else kept)
    return None if own is None else largest_way(own, samples, True)


def preference_by_torchtitan(request: EstimateRequest, samples: int, ways: Sequence[Way]) -> float:
    """How torchtitan's own full shards are preferred, as other software, of those among ``ways`` that fit by any.

    0 where there are none, or torchtitan has not the model.
    """
    shards = [way for way in ways if way.fits and way.estimate.request.setup.strategy == "fsdp"]
    in_part = [preference(way) for way in shards if way.estimate.request.setup.selective]
    whole = {way.estimate.request.setup.checkpointing for way in shards if not way.estimate.request.setup.selective}
    found = []
    for computed in whole if request.program is None else ():
        way = _of_torchtitan(request, samples, again=computed)
        found += [] if way is None else [preference(way)]
    return max([*in_part, *found], default=0.0)


def _strategies(request: EstimateRequest) -> tuple[Strategy, ...]:
    layout, packing = request.layout, request.setup.packing
    if layout.world_size == 1:
        return (usual_strategy(request.program, 1),)
    if packing == "8bit":  # FSDP lays a block's weights side by side, which bitsandbytes' scales do not survive
        return ("ddp", "zero1", "zero2")
    # of no program, FSDP stands for full shards
    of_deepspeed: tuple[Strategy, ...] = ("zero1", "zero2", *(("zero3",) if request.program is not None else ()))
    hybrid: tuple[Strategy, ...] = ("fsdp-hybrid",) if layout.nodes > 1 else ()
    return ("ddp", *of_deepspeed, "fsdp-grad-op", "fsdp", *hybrid)
