"""The micro-batch of a way: the largest that fits, divides the samples of a rank, and leaves room. Pure."""

from dataclasses import replace

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import estimate_memory, largest_batch
from raybench.performance_model.parallel.part import BATCHES_PER_STAGE
from raybench.performance_model.request.request import EstimateRequest, least_model, least_setup, most_setup
from raybench.performance_model.ways.ranking import is_roomy, preference
from raybench.performance_model.ways.way import Way


def largest_way(request: EstimateRequest, samples_per_rank: int, fitting_only: bool = False) -> Way | None:
    """With the largest micro-batch that fits in any case, else with one sample, which needs least.

    Of one sample that an estimate is too near to tell of it is not known whether it fits, nor of any where the memory
    is not known.

    ``samples_per_rank``: of all ranks that compute a sample together. None where it is not sure to fit, and is to.
    """
    found = _largest_of_several(request, samples_per_rank, fitting_only)
    if request.adds_up_whole and samples_per_rank > 1 and (found is None or not found.fits):
        return _in_one_micro_batch(request, samples_per_rank) or found
    return found


def _in_one_micro_batch(request: EstimateRequest, samples_per_rank: int) -> Way | None:
    """All samples of a rank in one micro-batch, which needs no whole gradients; None where that does not fit."""
    found = _estimate(request, samples_per_rank, samples_per_rank)
    return Way(estimate=found, fits=True) if found.fits else None


def _largest_of_several(request: EstimateRequest, samples_per_rank: int, fitting_only: bool) -> Way | None:
    """The same, with as many micro-batches as there are samples where gradients are added up whole."""
    several = samples_per_rank > 1
    whole = request.adds_up_whole and several
    kept = several or not request.setup.is_sharded
    asked = replace(request, setup=replace(request.setup, gradients_kept=kept, whole_gradients=whole))
    most = request.sure_bytes
    forms = ((True, request.model, most_setup(asked)), (None, least_model(asked), least_setup(asked)))
    for fits, model, fitting in forms:
        times = max(1, samples_per_rank)
        alone = replace(fitting, batch_size=1)
        if estimate_memory(model, alone, request.layout, accumulation=times).peak > most:
            if fitting_only:
                return None
            continue
        is_sure = bool(fits) and request.memory_bytes is not None
        upper = largest_micro_batch(request, samples_per_rank) if is_sure else 1
        largest = largest_batch(model, fitting, request.layout, most, most=upper, accumulation=times)
        batch = next(size for size in range(largest, 0, -1) if _divides(size, samples_per_rank, request.layout))
        found = Way(estimate=_estimate(asked, batch, samples_per_rank), fits=True if is_sure else None)
        if not is_sure:
            return found
        held = _held(found)
        if held is not None or fitting_only:
            return held and _with_room(held)
    single = _estimate(asked, 1, samples_per_rank)
    return Way(estimate=single, fits=None if single.fits is None else False)


def with_fewer_samples(way: Way) -> Way | None:
    """The way with the next smaller micro-batch that divides the samples of a rank and step; None with one sample."""
    one = way.estimate.request
    samples = one.setup.batch_size * one.accumulation
    smaller = range(one.setup.batch_size - 1, 0, -1)
    batch = next((size for size in smaller if _divides(size, samples, one.layout)), None)
    if batch is None:
        return None
    found = _estimate(one, batch, samples)
    return Way(estimate=found, fits=found.fits)


def _held(way: Way) -> Way | None:
    """The way with the largest micro-batch that fits whatever is meant, of which one form alone was searched for.

    The other form of FSDP, say, takes memory on streams of its own. None where no micro-batch does.
    """
    smaller: Way | None = way
    while smaller is not None and not smaller.estimate.fits:
        smaller = with_fewer_samples(smaller)
    return smaller


def _with_room(way: Way) -> Way:
    """The way with the largest micro-batch that leaves room, if that is as fast; else as it is."""
    smaller = None if is_roomy(way) else with_fewer_samples(way)
    while smaller is not None and not is_roomy(smaller):
        smaller = with_fewer_samples(smaller)
    as_good = smaller is not None and preference(smaller) >= preference(way)
    return smaller if smaller is not None and as_good else way


def _divides(batch: int, samples: int, layout: Layout) -> bool:
    """Whether samples can be computed so many at a time; of an interleaved pipeline in rounds of all its stages."""
    times, rest = divmod(samples, batch)
    return not rest and (layout.virtual_stages == 1 or times % layout.pipeline == 0)


def largest_micro_batch(request: EstimateRequest, samples: int) -> int:
    """Of a pipeline no micro-batch is so large that there are fewer than four for each stage, if that can be."""
    stages = request.layout.pipeline
    return samples if stages == 1 else max(1, samples // (BATCHES_PER_STAGE * stages))


def _estimate(request: EstimateRequest, batch: int, samples_per_rank: int) -> Estimate:
    times = samples_per_rank // batch
    kept = request.setup.gradients_kept and (times > 1 or not request.setup.is_sharded)
    whole = request.adds_up_whole and times > 1
    setup = replace(request.setup, batch_size=batch, gradients_kept=kept, whole_gradients=whole)
    return estimate(replace(request, setup=setup, accumulation=times), alone=False)
