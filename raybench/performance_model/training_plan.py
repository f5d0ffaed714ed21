"""Ways to train a model on a machine: each strategy with the largest micro-batch that fits, the fastest first. Pure."""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from raybench.errors import UsageError
from raybench.performance_model.estimate import Estimate, estimate
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory import Held, estimate_memory, largest_batch
from raybench.performance_model.parallel.choice import cut_requests
from raybench.performance_model.parallel.fastest import fastest_tokens_per_second
from raybench.performance_model.parallel.part import part_of, spare_places
from raybench.performance_model.programs.program import usual_strategy
from raybench.performance_model.programs.taken import refused, with_program
from raybench.performance_model.programs.torchtitan import by_torchtitan, torchtitan_config
from raybench.performance_model.step.request import EstimateRequest, least_model, least_setup, most_setup
from raybench.performance_model.training_setup import Strategy, TrainingSetup

_AS_FAST = 1.05
_WORTH_IT = 1.1  # how much faster a way has to be that wants another framework than PyTorch's own DDP and FSDP
_CUT_WAYS = 4
_BOUND_MARGIN = 1.02  # what nobody says of kernels is more of a larger micro-batch's time, or less
_CLOSE = 1.06  # cut ways that are as fast as far as can be told
_ROOMY = 0.95  # of it: a longer sample has a place in what is left (fragments are in a peak already)
_BATCHES_PER_STAGE = 4
_LEAST_BLOCKS = 2
Limit = Literal["network", "computation", "kernel starts"]
AsRun = Callable[[EstimateRequest], EstimateRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way: the estimate with its micro-batch, or with a single sample where not even that fits.

    ``tokens_per_second``: as the fit has it, 0 where the times are not known (bounds are the wider the less is known of
    a program); ``fused`` the same with kernels that are sure to be fused. Counted once: ways are compared many times.
    """

    estimate: Estimate
    fits: bool | None
    tokens_per_second: float = field(init=False)
    fused: float = field(init=False)

    def __post_init__(self) -> None:
        one = self.estimate
        seconds = one.likely_step_seconds
        likely = one.samples_per_step * one.request.setup.sequence_length / seconds if seconds else 0.0
        object.__setattr__(self, "tokens_per_second", likely)
        object.__setattr__(self, "fused", likely * (1 + one.efficiency.unsure) if seconds else 0.0)

    @property
    def limit(self) -> Limit | None:
        """What a step waits for most; None where the times are not known."""
        one = self.estimate
        if one.fastest is None or one.slowest is None:
            return None
        if one.fastest.communication > math.sqrt(one.fastest.compute * one.slowest.compute):
            return "network"
        starts = one.efficiency.least_seconds * one.efficiency.spread * one.request.accumulation
        return "kernel starts" if starts * math.sqrt(2) >= one.slowest.compute else "computation"  # more than the work


def ways_to_train(
    request: EstimateRequest,
    samples_per_step: int,
    *,
    cut: bool = True,
    as_run: AsRun = lambda request: request,
    fitting_only: bool = False,
    on_sagemaker: bool = False,
) -> tuple[Way, ...]:
    """All ways, those that fit first, the fastest of them first; then those that may fit; then by the memory needed.

    ``request``: model, machine, and what does not change. Each way has the largest micro-batch that fits and divides
    the samples of a rank and step, or one that leaves a tenth of the memory. Of ways that are as fast within 5 %, the
    simpler one comes first. What leaves less room, cuts the model, or shards as DeepSpeed does, has to be faster by a
    tenth. Of those that cut it, which are looked for where ``cut`` says so, the best few are kept. Of fewer samples
    than ranks these alone are possible. Selective checkpointing is tried where torchtitan has the model; of
    Megatron-LM's, half of the blocks recomputed, and modules that are asked for in place of nothing. ``as_run``: a way
    that cuts nothing with what is known of how it is run. ``fitting_only``: no other ways than those that are sure to
    fit, which is much faster. ``on_sagemaker``: the machine is one of AWS, so that SageMaker's library is an answer.
    Raises UsageError for samples that no way can spread over its replicas.
    """
    samples, rest = divmod(samples_per_step, request.layout.world_size)
    plain_ways = () if rest else (_way(as_run(one), samples, fitting_only) for one in _plain_requests(request))
    ways = [way for way in plain_ways if way is not None]
    if cut and request.memory_bytes is not None:
        plain = max((_preference(way) for way in ways if way.fits), default=0.0)
        spread = cut_requests(request, on_sagemaker=on_sagemaker)
        ways += _cut_ways(spread, samples_per_step, plain, alone=bool(rest), fitting_only=fitting_only)
    if not ways and not fitting_only:
        raise _not_spread(samples_per_step, request.layout.world_size)
    return ranked(ways)


def any_fits(
    request: EstimateRequest,
    samples_per_step: int,
    *,
    cut: bool = True,
    as_run: AsRun = lambda request: request,
    on_sagemaker: bool = False,
) -> bool:
    """Whether one of ``ways_to_train`` is sure to fit; none is estimated behind the first that does."""
    samples, rest = divmod(samples_per_step, request.layout.world_size)
    plain_ways = () if rest else (_way(as_run(one), samples, True) for one in _plain_requests(request))
    if any(way is not None for way in plain_ways):
        return True
    if not cut or request.memory_bytes is None:
        return False
    spread = (one for one in cut_requests(request, on_sagemaker=on_sagemaker) if _has_replicas(one, samples_per_step))
    return any(_is_held(one, samples_per_step // one.layout.data, alone=bool(rest)) for one in spread)


def _has_replicas(request: EstimateRequest, samples_per_step: int) -> bool:
    return samples_per_step % request.layout.data == 0


def _is_held(request: EstimateRequest, samples: int, *, alone: bool) -> bool:
    """Whether a way that cuts the model fits, as ``_cut_ways`` has it: with room, and a speed, unless it is alone."""
    way = _cut_way(request, samples, True) if _has_room(request, samples) else None
    return way is not None and bool(way.fits) and (alone or (_is_roomy(way) and _preference(way) > 0))


def _not_spread(samples: int, ranks: int) -> UsageError:
    """With the nearest numbers that can be spread."""
    below = samples // ranks * ranks
    nearest = " or ".join(str(number) for number in (below, below + ranks) if number)
    return UsageError(
        f"--samples-per-step is {samples}; it must be a multiple of the {ranks} ranks (nearest: {nearest}), or of the "
        "replicas of a model that is cut"
    )


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


def ranked(ways: Iterable[Way]) -> tuple[Way, ...]:
    """The best first, as ``ways_to_train`` has them."""
    ways = tuple(ways)
    best = max((_preference(way) for way in ways if way.fits), default=0.0)
    return tuple(sorted(ways, key=lambda way: _rank(way, best)))


def _cut_ways(
    requests: Iterable[EstimateRequest], samples_per_step: int, plain: float, *, alone: bool, fitting_only: bool
) -> list[Way]:
    """Of those that cut the model a few that fit with some room, and are faster than ``plain``, the best of the others.

    Room, since stages and experts are never as even as an estimate has them. Of those that are about as fast, the ones
    that keep within a node what waits for its messages, then those that cut least. ``alone``: there are no others, so
    that those that need least memory are named where none fits.
    """
    spread = [one for one in requests if _has_replicas(one, samples_per_step)]
    each = [(one, samples_per_step // one.layout.data) for one in spread]
    close = _close_ways(each, _AS_FAST * plain / _WORTH_IT)
    if alone and not close:
        found = [way for one, samples in each for way in [_cut_way(one, samples, fitting_only)] if way is not None]
        return sorted(found, key=lambda way: way.estimate.peak)[:_CUT_WAYS]
    return sorted(close, key=lambda way: _cuts(way.estimate.request.layout))[:_CUT_WAYS]


def _close_ways(each: Sequence[tuple[EstimateRequest, int]], slowest: float) -> list[Way]:
    """Of those that fit with some room and are preferred to ``slowest`` the ones about as fast as the best, in order.

    Those that can be fastest are estimated first, and none of the others that cannot be as fast as what was found: with
    activations kept, and where these do not fit as fast as they can be where a part is computed again.
    """
    waiting = [_first(place, *one) for place, one in enumerate(each) if _has_room(*one)]
    heapq.heapify(waiting)
    found: dict[int, Way] = {}
    best = slowest
    while waiting and (not waiting[0][0] or -waiting[0][0] * _CLOSE * _BOUND_MARGIN >= best):
        _, place, again = heapq.heappop(waiting)
        request, samples = each[place]
        way = _again(request, samples, True) if again else _kept(request, samples)
        if way is None and not again:
            heapq.heappush(waiting, (-_fastest_again(request, samples), place, True))
        elif way is not None and way.fits and _is_roomy(way) and _preference(way) > slowest:
            found[place] = way
            best = max(best, _preference(way))
    return [found[place] for place in sorted(found) if _preference(found[place]) * _CLOSE >= best]


def _first(place: int, request: EstimateRequest, samples: int) -> tuple[float, int, bool]:
    """How fast one of many can be, to be sorted by, and whether it is sure that activations do not fit."""
    setup = replace(_nothing_again(request), batch_size=1, gradients_kept=True)
    layout = replace(request.layout, virtual_stages=1)
    if estimate_memory(request.model, setup, layout, accumulation=samples).peak <= request.sure_bytes:
        return -_fastest(replace(request, setup=setup), samples), place, False
    return -_fastest_again(request, samples), place, True


def _fastest_again(request: EstimateRequest, samples: int) -> float:
    """The same with activations computed again, in part where that can be."""
    part = _selective(request) or _half_recomputed(request)
    return _fastest(part or replace(request, setup=_all_again(request.setup)), samples)


def _fastest(request: EstimateRequest, samples: int) -> float:
    """The most that it can be preferred by."""
    return fastest_tokens_per_second(request, samples, _largest(request, samples)) / _WORTH_IT


def _has_room(request: EstimateRequest, samples: int) -> bool:
    """Whether a single sample fits with what takes least: all computed again, in one chunk a stage."""
    setup = replace(_all_again(request.setup), selective=False, batch_size=1, gradients_kept=True)
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
        kept = replace(request, layout=layout, setup=_nothing_again(request))
        way = _way(kept, samples, True)
        if way is not None:
            return way
    return None


def _again(request: EstimateRequest, samples: int, fitting_only: bool) -> Way | None:
    """With activations computed again; in part where that fits: each block by torchtitan, half of them by Megatron."""
    request = _interleaved(request, samples)
    again = _way(replace(request, setup=_all_again(request.setup)), samples, fitting_only)
    request_in_part = _selective(request) or (_half_recomputed(request) if again and again.fits else None)
    in_part = None if request_in_part is None else _way(request_in_part, samples, True)
    if again is None or in_part is None or not again.fits:
        return in_part or again
    return max(in_part, again, key=_preference)


def _interleaved(request: EstimateRequest, samples: int) -> EstimateRequest:
    """In one chunk where the micro-batches do not go round the stages: Megatron-LM interleaves multiples of them."""
    if samples % request.layout.pipeline:
        return replace(request, layout=replace(request.layout, virtual_stages=1))
    return request


def _preference(way: Way) -> float:
    """Its speed with kernels as good as those of the others: of some it is known that they are fused.

    What wants other software, or leaves less than a tenth of the memory, counts a tenth less. A measured speed has what
    it was measured with.
    """
    one = way.estimate.request
    if way.estimate.measured is not None and way.estimate.measured.step_seconds is not None:
        return way.tokens_per_second
    other = _WORTH_IT if one.layout.is_cut or one.setup.is_zero or one.setup.selective else 1.0
    other *= _WORTH_IT if one.layout.expert > 1 and one.setup.is_sharded and not torchtitan_config(one.model) else 1.0
    tight = 1.0 if _is_roomy(way) else _WORTH_IT
    return way.fused / (other * tight)


def _rank(way: Way, best: float) -> tuple[int, float, tuple[bool, int, int], bool]:
    one = way.estimate.request
    if way.fits is False:
        return 2, float(way.estimate.peak), (False, 0, 0), False
    speed = _preference(way)
    as_fast = best > 0 and speed > 0
    behind = float(round(math.log(best / speed) / math.log(_AS_FAST))) if as_fast else 0.0
    return (0 if way.fits else 1), behind, _cuts(one.layout), one.setup.is_zero


def _is_roomy(way: Way) -> bool:
    """Whether some of the memory is left; true where it is not known."""
    one = way.estimate.request
    return one.memory_bytes is None or way.estimate.peak <= _ROOMY * one.memory_bytes


def _cuts(layout: Layout) -> tuple[bool, int, int]:
    """Whether tensors or experts are cut over nodes, how much is cut, and by pipelines where that is equal.

    Both wait for their messages in every layer: Megatron-Core's notes keep tensor x expert ranks within a node.
    """
    waiting = layout.tensor * max(layout.expert, layout.context)
    over_nodes = layout.is_cut and waiting > layout.ranks_per_node
    return over_nodes, layout.tensor * layout.pipeline * layout.context * layout.expert, layout.pipeline


def _plain_requests(request: EstimateRequest) -> Iterator[EstimateRequest]:
    """All strategies that cut nothing, with activations kept and computed again; of full shards in part as well."""
    for strategy in _strategies(request):
        asked = replace(request, setup=replace(request.setup, strategy=strategy))
        asked = replace(asked, setup=_nothing_again(asked))
        if request.program is not None and refused(request.program, asked) is not None:
            continue
        for computed in (asked.setup, _all_again(asked.setup)):
            setup = replace(computed, gradient_bytes=request.setup.compute_bytes)
            yield with_program(replace(request, setup=setup), planned=True)
        part = _selective(asked)
        if part is not None:
            yield part


def _all_again(setup: TrainingSetup) -> TrainingSetup:
    """With all activations computed again."""
    return replace(setup, checkpointing=True, recompute_modules=())


def _nothing_again(request: EstimateRequest) -> TrainingSetup:
    """With activations kept, but for the modules that are asked for where Megatron-LM is the program."""
    modules = request.setup.recompute_modules
    theirs = request.layout.is_cut and request.setup.strategy == "zero1"  # of any program
    has = theirs if request.program is None else request.program.recomputes_modules
    return replace(request.setup, checkpointing=False, recompute_modules=modules if has else ())


def _selective(request: EstimateRequest) -> EstimateRequest | None:
    """With activations computed again in part, as torchtitan does; None where that cannot run it."""
    if request.setup.strategy != "fsdp":
        return None
    setup = replace(request.setup, checkpointing=False, selective=True, recompute_modules=())
    if request.program is None:
        return by_torchtitan(request, setup)
    asked = replace(request, setup=setup)
    if refused(request.program, asked) is not None:
        return None
    return asked if request.taken else with_program(asked, planned=True)


def _half_recomputed(request: EstimateRequest) -> EstimateRequest | None:
    """With half of a stage's blocks computed again, as Megatron-LM does (``--recompute-method block``).

    None where another program runs it, or the stages have no two blocks each or not as many each. What Megatron-LM
    calls selective computes attention again, of which flash attention keeps next to nothing.
    """
    layout = request.layout
    places = request.model.layers + spare_places(request.model, layout.pipeline)
    chunk, rest = divmod(places, layout.pipeline * layout.virtual_stages)
    theirs = request.program is None or request.program.starts == "megatron-lm"
    if request.setup.strategy != "zero1" or not theirs or rest or chunk < _LEAST_BLOCKS:
        return None
    setup = replace(_all_again(request.setup), recomputed_share=chunk // 2 / chunk)
    return replace(request, setup=setup)


def _strategies(request: EstimateRequest) -> tuple[Strategy, ...]:
    layout, packing = request.layout, request.setup.packing
    if layout.world_size == 1:
        return (usual_strategy(request.program, 1),)
    if packing == "8bit":  # FSDP lays a block's weights side by side, which bitsandbytes' scales do not survive
        return ("ddp", "zero1", "zero2")
    return ("ddp", "zero1", "zero2", "fsdp-grad-op", "fsdp", *(("fsdp-hybrid",) if layout.nodes > 1 else ()))


def _way(request: EstimateRequest, samples_per_rank: int, fitting_only: bool = False) -> Way | None:
    """With the largest micro-batch that fits in any case, else with one sample, which needs least.

    Of one sample that an estimate is too near to tell of it is not known whether it fits, nor of any where the memory
    is not known.

    ``samples_per_rank``: of all ranks that compute a sample together. None where it is not sure to fit, and is to.
    """
    setup = replace(request.setup, gradients_kept=True, whole_gradients=request.adds_up_whole)
    asked = replace(request, setup=setup)
    most = request.sure_bytes
    forms = ((True, request.model, most_setup(setup)), (None, least_model(asked), least_setup(asked)))
    for fits, model, fitting in forms:
        times = max(1, samples_per_rank)
        alone = replace(fitting, batch_size=1)
        if estimate_memory(model, alone, request.layout, accumulation=times).peak > most:
            if fitting_only:
                return None
            continue
        is_sure = bool(fits) and request.memory_bytes is not None
        upper = _largest(request, samples_per_rank) if is_sure else 1
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


def _held(way: Way) -> Way | None:
    """The way with the largest micro-batch that fits whatever is meant, of which one form alone was searched for.

    The other form of FSDP, say, takes memory on streams of its own. None where no micro-batch does.
    """
    smaller: Way | None = way
    while smaller is not None and not smaller.estimate.fits:
        smaller = with_fewer_samples(smaller)
    return smaller


def _divides(batch: int, samples: int, layout: Layout) -> bool:
    """Whether samples can be computed so many at a time; of an interleaved pipeline in rounds of all its stages."""
    times, rest = divmod(samples, batch)
    return not rest and (layout.virtual_stages == 1 or times % layout.pipeline == 0)


def _with_room(way: Way) -> Way:
    """The way with the largest micro-batch that leaves room, if that is as fast; else as it is."""
    smaller = None if _is_roomy(way) else with_fewer_samples(way)
    while smaller is not None and not _is_roomy(smaller):
        smaller = with_fewer_samples(smaller)
    as_good = smaller is not None and _preference(smaller) >= _preference(way)
    return smaller if smaller is not None and as_good else way


def _largest(request: EstimateRequest, samples: int) -> int:
    """Of a pipeline no micro-batch is so large that there are fewer than four for each stage, if that can be."""
    stages = request.layout.pipeline
    return samples if stages == 1 else max(1, samples // (_BATCHES_PER_STAGE * stages))


def _estimate(request: EstimateRequest, batch: int, samples_per_rank: int) -> Estimate:
    times = samples_per_rank // batch
    kept = request.setup.gradients_kept and (times > 1 or not request.setup.is_sharded)
    whole = request.adds_up_whole and times > 1
    setup = replace(request.setup, batch_size=batch, gradients_kept=kept, whole_gradients=whole)
    return estimate(replace(request, setup=setup, accumulation=times), alone=False)
