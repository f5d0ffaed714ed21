"""Ways that cut the model over ranks: the best few of many, found with few estimates. Pure."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace

from raybench.performance_model.memory.rank import Held, estimate_memory
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.ways.fastest import fastest_tokens_per_second
from raybench.performance_model.ways.micro_batch import largest_micro_batch, largest_way
from raybench.performance_model.ways.ranking import AS_FAST, WORTH_IT, cuts, is_roomy, preference
from raybench.performance_model.ways.recomputed import all_again, half_recomputed, nothing_again, selectively_recomputed
from raybench.performance_model.ways.way import Way

_CUT_WAYS = 4
_BOUND_MARGIN = 1.02  # what nobody says of kernels is more of a larger micro-batch's time, or less
_CLOSE = 1.06  # cut ways that are as fast as far as can be told


def cut_ways(
    requests: Iterable[EstimateRequest],
    samples_per_step: int,
    plain: float,
    *,
    alone: bool,
    fitting_only: bool,
    plain_of_torchtitan: float = 0.0,
) -> list[Way]:
    """Of those that cut the model a few that fit with some room, and are faster than ``plain``, the best of the others.

    Those by torchtitan are faster than the same program without a cut (``plain_of_torchtitan``) too: of a model of 8 B
    on two nodes, cut over two ranks, what is faster than PyTorch's own is its compiler.
    Room, since stages and experts are never as even as an estimate has them. Of those that are about as fast, the ones
    that keep within a node what waits for its messages, then those that cut least. ``alone``: there are no others, so
    that those that need least memory are named where none fits.
    """
    spread = [one for one in requests if has_replicas(one, samples_per_step)]
    each = [(one, samples_per_step // one.layout.data) for one in spread]
    slowest = [max(plain / WORTH_IT, plain_of_torchtitan if one.timing else 0.0) * AS_FAST for one, _ in each]
    close = _close_ways(each, slowest)
    if alone and not close:
        found = [way for one, samples in each for way in [_cut_way(one, samples, fitting_only)] if way is not None]
        return sorted(found, key=lambda way: way.estimate.peak)[:_CUT_WAYS]
    return sorted(close, key=lambda way: cuts(way.estimate.request.layout))[:_CUT_WAYS]


def _close_ways(each: Sequence[tuple[EstimateRequest, int]], slowest: Sequence[float]) -> list[Way]:
    """Of those that fit with room and are preferred to their ``slowest`` the ones about as fast as the best, in order.

    Those that can be fastest are estimated first, and none of the others that cannot be as fast as what was found: with
    activations kept, and where these do not fit as fast as they can be where a part is computed again.
    """
    waiting = [_first(place, *one) for place, one in enumerate(each) if _has_room(*one)]
    heapq.heapify(waiting)
    found: dict[int, Way] = {}
    best = min(slowest, default=0.0)
    while waiting and (not waiting[0][0] or -waiting[0][0] * _CLOSE * _BOUND_MARGIN >= best):
        _, place, again = heapq.heappop(waiting)
        request, samples = each[place]
        way = _again(request, samples, True) if again else _kept(request, samples)
        if way is None and not again:
            heapq.heappush(waiting, (-_fastest_again(request, samples), place, True))
        elif way is not None and way.fits and is_roomy(way) and preference(way) > slowest[place]:
            found[place] = way
            best = max(best, preference(way))
    return [found[place] for place in sorted(found) if preference(found[place]) * _CLOSE >= best]


def _first(place: int, request: EstimateRequest, samples: int) -> tuple[float, int, bool]:
    """How fast one of many can be, to be sorted by, and whether it is sure that activations do not fit."""
    setup = replace(nothing_again(request), batch_size=1, gradients_kept=True)
    layout = replace(request.layout, virtual_stages=1)
    if estimate_memory(request.model, setup, layout, accumulation=samples).peak <= request.sure_bytes:
        return -_fastest(replace(request, setup=setup), samples), place, False
    return -_fastest_again(request, samples), place, True


def _fastest_again(request: EstimateRequest, samples: int) -> float:
    """The same with activations computed again, in part where that can be."""
    part = selectively_recomputed(request) or half_recomputed(request)
    return _fastest(part or replace(request, setup=all_again(request.setup)), samples)


def _fastest(request: EstimateRequest, samples: int) -> float:
    """The most that it can be preferred by."""
    return fastest_tokens_per_second(request, samples, largest_micro_batch(request, samples)) / WORTH_IT


def _has_room(request: EstimateRequest, samples: int) -> bool:
    """Whether a single sample fits with what takes least: all computed again, in one chunk a stage."""
    setup = replace(all_again(request.setup), selective=False, batch_size=1, gradients_kept=True)
    layout = replace(request.layout, virtual_stages=1)
    inner = part_of(request.model, layout, stage=min(1, layout.pipeline - 1))
    stays = Held.of(inner, setup, layout)  # of which a stage has no less, and which is counted at once
    if stays.parameters + stays.gradients + stays.state > request.sure_bytes:
        return False
    return estimate_memory(request.model, setup, layout, accumulation=samples).peak <= request.sure_bytes


def _cut_way(request: EstimateRequest, samples: int, fitting_only: bool) -> Way | None:
    """With activations kept; where that does not fit, computed again or in part."""
    kept = _kept(request, samples) if _has_room(request, samples) else None
    return kept or _again(request, samples, fitting_only)


def _kept(request: EstimateRequest, samples: int) -> Way | None:
    """With activations kept, of a pipeline in one chunk a stage where more do not fit; None where that does not."""
    request = _interleaved(request, samples)
    for chunks in dict.fromkeys((request.layout.virtual_stages, 1)):
        layout = replace(request.layout, virtual_stages=chunks)
        kept = replace(request, layout=layout, setup=nothing_again(request))
        way = largest_way(kept, samples, True)
        if way is not None:
            return way
    return None


def _again(request: EstimateRequest, samples: int, fitting_only: bool) -> Way | None:
    """With activations computed again; in part where that fits: each block by torchtitan, half of them by Megatron."""
    request = _interleaved(request, samples)
    again = largest_way(replace(request, setup=all_again(request.setup)), samples, fitting_only)
    request_in_part = selectively_recomputed(request) or (half_recomputed(request) if again and again.fits else None)
    in_part = None if request_in_part is None else largest_way(request_in_part, samples, True)
    if again is None or in_part is None or not again.fits:
        return in_part or again
    return max(in_part, again, key=preference)


def _interleaved(request: EstimateRequest, samples: int) -> EstimateRequest:
    """In one chunk where the micro-batches do not go round the stages: Megatron-LM interleaves multiples of them."""
    if samples % request.layout.pipeline:
        return replace(request, layout=replace(request.layout, virtual_stages=1))
    return request


def is_held(request: EstimateRequest, samples: int, *, alone: bool) -> bool:
    """Whether a way that cuts the model fits, as ``cut_ways`` has it: with room, and a speed, unless it is alone."""
    way = _cut_way(request, samples, True) if _has_room(request, samples) else None
    return way is not None and bool(way.fits) and (alone or (is_roomy(way) and preference(way) > 0))


def has_replicas(request: EstimateRequest, samples_per_step: int) -> bool:
    """Whether the samples of a step can be spread over its replicas."""
    return samples_per_step % request.layout.data == 0
