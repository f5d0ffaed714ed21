"""Ways to train a model on a machine: each strategy with the largest micro-batch that fits, the fastest first. Pure."""

from collections.abc import Callable

from raybench.errors import UsageError
from raybench.performance_model.request.cuts import cut_requests
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.ways.cut import cut_ways, has_replicas, is_held
from raybench.performance_model.ways.micro_batch import largest_way
from raybench.performance_model.ways.ranking import preference, ranked
from raybench.performance_model.ways.uncut import preference_by_torchtitan, uncut_requests, with_torchtitan
from raybench.performance_model.ways.way import Way

AsRun = Callable[[EstimateRequest], EstimateRequest]


def ways_to_train(
    request: EstimateRequest,
    samples_per_step: int,
    *,
    cut: bool = True,
    as_run: AsRun = lambda request: request,
    fitting_only: bool = False,
    on_sagemaker: bool = False,
    is_measured: bool = False,
) -> tuple[Way, ...]:
    """All ways, those that fit first, the fastest of them first; then those that may fit; then by the memory needed.

    ``request``: model, machine, and what does not change. Each way has the largest micro-batch that fits and divides
    the samples of a rank and step, or one that leaves a tenth of the memory. Of ways that are as fast within 5 %, the
    simpler one comes first. What leaves less room, cuts the model, or shards as DeepSpeed does, has to be faster by a
    tenth. Of those that cut it, which are looked for where ``cut`` says so, the best few are kept: torchtitan's where
    they are faster than its own without a cut. Of fewer samples than ranks these alone are possible. Selective
    checkpointing is tried where torchtitan has the model, as are its full shards where PyTorch's are not sure to fit;
    of Megatron-LM's, half of the blocks recomputed, and modules that are asked for in place of nothing.
    ``as_run``: a way that cuts nothing with what is known of how it is run.
    ``fitting_only``: no other ways than those that are sure to fit, which is much faster. ``on_sagemaker``: the machine
    is one of AWS, so that SageMaker's library is an answer. ``is_measured``: runs by raybench train are given, which
    may be of PyTorch's own full shards: these stay.
    Raises UsageError for samples that no way can spread over its replicas.
    """
    samples, rest = divmod(samples_per_step, request.layout.world_size)
    plain_ways = () if rest else (largest_way(as_run(one), samples, fitting_only) for one in uncut_requests(request))
    ways = [way for way in plain_ways if way is not None]
    ways = ways if rest or is_measured else with_torchtitan(request, samples, ways)
    if cut and request.memory_bytes is not None:
        plain = max((preference(way) for way in ways if way.fits), default=0.0)
        spread = cut_requests(request, on_sagemaker=on_sagemaker)
        own = 0.0 if rest else preference_by_torchtitan(request, samples, ways)
        ways += cut_ways(
            spread, samples_per_step, plain, alone=bool(rest), fitting_only=fitting_only, plain_of_torchtitan=own
        )
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
    is_measured: bool = False,
) -> bool:
    """Whether one of ``ways_to_train`` is sure to fit; none is estimated behind the first that does."""
    samples, rest = divmod(samples_per_step, request.layout.world_size)
    plain_ways = () if rest else (largest_way(as_run(one), samples, True) for one in uncut_requests(request))
    if any(way is not None for way in plain_ways):
        return True
    if not (rest or is_measured) and with_torchtitan(request, samples, ()):
        return True
    if not cut or request.memory_bytes is None:
        return False
    spread = (one for one in cut_requests(request, on_sagemaker=on_sagemaker) if has_replicas(one, samples_per_step))
    return any(is_held(one, samples_per_step // one.layout.data, alone=bool(rest)) for one in spread)


def _not_spread(samples: int, ranks: int) -> UsageError:
    """With the nearest numbers that can be spread."""
    below = samples // ranks * ranks
    nearest = " or ".join(str(number) for number in (below, below + ranks) if number)
    return UsageError(
        f"--samples-per-step is {samples}; it must be a multiple of the {ranks} ranks (nearest: {nearest}), or of the "
        "replicas of a model that is cut"
    )
