"""Fit how fast GPUs compute to published trainings: the constants of ``raybench/performance_model/step/efficiency.py``.

Pure and without a library: a search along each constant in turn, of the sum of how far each predicted step time is from
the published one (its logarithm, so that outliers count once and not squared). A source's rows count as the square root
of their number: a long table does not outvote the others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from raybench.performance_model.communication import SAVED
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.parallel.part import bubble_share, local_setup, part_of
from raybench.performance_model.step.bounds import beside_share, forward_share, peak_seconds, peak_tflops
from raybench.performance_model.step.efficiency import Calibration, experts_times
from raybench.performance_model.step.links import has_open_fabric, linked_network
from raybench.performance_model.step.offload import offload_seconds
from raybench.performance_model.step.spreads import exposed_share
from raybench.performance_model.step.work import Work, work_of
from tests.performance_model.published_run import PublishedRun

# Where nothing in the rows says otherwise: known of kernels before any of these tables was read.
PRIOR = Calibration(
    products=0.75,
    half_hidden=150.0,
    held=0.9,
    halved=1.15,
    attention=0.5,
    elements=1.5,
    separate=1.0,
    logits=1.2,
    adapters=12.0,  # peft: cast, dropout, scaled and added, four passes of each of three
    packed=15.0,
    gptq=20.0,
    block_seconds=1.8e-3,
    adapter_seconds=3e-4,
)
_PRIOR_WEIGHT = 0.05
_WORTH_IT = 0.01  # of the sum of errors, some twenty
_SMALL = 0.1  # below, an error counts squared: no constant is moved for what no figure is exact to
_SHARES = {"products": 0.98, "attention": 0.98, "held": 1.0, "halved": 1.25}
_NAMES = tuple(field.name for field in fields(Calibration))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One published step time with all that the prediction needs, which is the estimate's own: seconds.

    ``times``: how often the work is done in a step; ``operations``: the fewest and the most, of those of the work.
    ``forward``, ``backward``: what is sent beside each, at least alone and all of it; ``waited``: what blocks, so too.
    ``moved``: activations that go to the CPU and come back, beside the work or before and after it. ``beside``: the
    share of each pass that hides what is sent even at most.
    """

    source: str
    seconds: float
    work: Work
    times: float
    operations: tuple[float, float]
    forward_share: float
    forward: tuple[float, float]
    backward: tuple[float, float]
    waited: tuple[float, float]
    bubble: float
    update: tuple[float, float]
    exposed: float
    moved: float
    beside: float = 0.0

    def predicted(self, calibration: Calibration) -> float:
        """What is likely between all communication hidden that can be, and none."""
        compute = calibration.seconds(self.work) * self.times
        fewest, most = (compute * share for share in self.operations)
        fewest, most = max(fewest, self.moved), most + self.moved
        own = fewest * self.forward_share
        least = max(own + self.forward[0], self.forward[1]) + max(fewest - own + self.backward[0], self.backward[1])
        least += self.waited[0] + self.bubble * (fewest + self.waited[0]) + self.update[0]
        slowest = (most - self.moved) * self.forward_share, (most - self.moved) * (1 - self.forward_share)
        most += self.waited[1] + self.bubble * (most + self.waited[1])
        for (alone, every), pass_seconds in zip((self.forward, self.backward), slowest, strict=True):
            most += max(alone, every - SAVED * min(every, self.beside * pass_seconds))
        return float(least * ((most + self.update[1]) / least) ** self.exposed)

    def error(self, calibration: Calibration) -> float:
        """Logarithm of predicted over published."""
        return math.log(self.predicted(calibration) / self.seconds)


def observations(runs: Iterable[PublishedRun]) -> list[Observation]:
    """Of the runs whose step time is published, and what joins their nodes."""
    return [
        observation(run, run.step_seconds)
        for run in runs
        if run.step_seconds is not None and not has_open_fabric(run.request)
    ]


def observation(run: PublishedRun, seconds: float) -> Observation:
    """One row."""
    request = run.request
    network, peak = linked_network(request), peak_tflops(request)
    if request.gpu is None or network is None or peak is None:
        raise ValueError(f"{run.name}: its GPU, its peak and its network must be known")
    answer, setup = estimate(request, alone=False), local_setup(request.setup, request.layout)
    traffic, part = answer.traffic, part_of(request.model, request.layout)
    work = work_of(request.gpu, part, setup, request.power_watts, request.dtype)
    fewest, most = (one / work.at_peak for one in peak_seconds(request, peak))
    beside = traffic.beside
    return Observation(
        source=run.source,
        seconds=seconds,
        work=work,
        times=request.accumulation * experts_times(part),
        operations=(fewest, most),
        forward_share=forward_share(request.setup),
        forward=(beside.shortest_seconds(network, "forward"), beside.seconds(network, "forward")),
        backward=(beside.shortest_seconds(network, "backward"), beside.seconds(network, "backward")),
        waited=(traffic.least_waiting_seconds(network), traffic.most_waiting_seconds(network)),
        bubble=bubble_share(request.layout, request.accumulation),
        update=answer.step.optimizer_seconds,
        exposed=exposed_share(request.setup, request.model),
        moved=request.accumulation * offload_seconds(request),
        beside=beside_share(request),
    )


def fitted(rows: Sequence[Observation], start: Calibration = PRIOR, step: float = 1.3) -> Calibration:
    """The constants for which the predictions are nearest; deterministic. ``step``: the factor of the first tries.

    Searched again from where a search ended, until that is no better: started at what it gave, it gives that.
    """
    counts = Counter(row.source for row in rows)
    weights = [counts[row.source] ** -0.5 for row in rows]
    best = asdict(start)
    least = _loss(best, rows, weights)
    while True:
        found, loss = _search(best, least, rows, weights, step)
        if loss > least - _WORTH_IT:
            return Calibration(**best)
        best, least = found, loss


def _search(
    best: dict[str, float], least: float, rows: Sequence[Observation], weights: Sequence[float], step: float
) -> tuple[dict[str, float], float]:
    """Along each constant in turn, in steps that become smaller; the constants and their loss."""
    steps = dict.fromkeys(_NAMES, step)
    while max(steps.values()) > 1.005:
        for name in _NAMES:
            for factor in (steps[name], 1 / steps[name]):
                tried = {**best, name: min(best[name] * factor, _SHARES.get(name, math.inf))}
                loss = _loss(tried, rows, weights)
                if loss < least - 1e-9:
                    best, least = tried, loss
                    break
            else:
                steps[name] **= 0.6
    return best, least


def _loss(values: dict[str, float], rows: Sequence[Observation], weights: Sequence[float]) -> float:
    calibration = Calibration(**values)
    errors = (abs(row.error(calibration)) for row in rows)
    missed = sum(
        weight * (error if error > _SMALL else error**2 / _SMALL) for weight, error in zip(weights, errors, strict=True)
    )
    return missed + _PRIOR_WEIGHT * sum(math.log(values[name] / getattr(PRIOR, name)) ** 2 for name in _NAMES)
