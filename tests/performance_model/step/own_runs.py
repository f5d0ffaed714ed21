"""How far one's own runs bring an estimate: published trainings, estimated with others of the same source as such runs.

    python -m tests.performance_model.step.own_runs [--fit]

Each row is estimated with constants and factors that were fitted to other sources, alone and with one, two or three
other rows of its own source, drawn at random; each source has one vote. A minute. With ``--fit`` the weights of
``raybench/performance_model/request/own_runs.py`` are fitted again, by the likelihood of each source's errors, and
shown.
"""

import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import mean, median

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.request.own_runs import SHARED, WEIGHTS, OwnRun, Told, distances
from raybench.performance_model.step.efficiency import expected_efficiency
from tests.performance_model.leave_one_out import families, fits_without, needs_of
from tests.performance_model.published_run import PublishedRun
from tests.performance_model.published_runs import all_runs
from tests.performance_model.spread_fit import calibrated

_DRAWS, _MOST_ROWS, _SEED = 8, 30, 3
_FITTED_ROWS, _STEPS, _RATE, _PENALTY = 12, 250, 0.08, 0.05
_FITS = 9  # draws of those rows
_AS_FAST = 0.02  # a logarithm
_MOST_ERROR = 2.5  # half widths, of those that are fitted
NEAR = 0.65  # of the deviation without runs: what the nearest leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A published step time, and what it is told with constants that its source had no part in."""

    run: PublishedRun
    alone: Estimate
    own: OwnRun

    @property
    def seconds(self) -> float:
        """As published."""
        return self.own.seconds

    @property
    def error(self) -> float:
        """From the likely step, in half widths."""
        return math.log(self.own.times) / self.own.told[0].half_width

    def beside(self, others: Sequence["Row"]) -> Estimate:
        """Of it where the others are one's own runs."""
        return estimate(replace(self.alone.request, own_runs=tuple(one.own for one in others)), alone=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Sources whose rows were estimated so, and their means: of what is inside, and of how wide bounds are."""

    sources: int
    inside: float
    inside_alone: float
    width: float
    width_alone: float


def rows_of(runs: Iterable[PublishedRun]) -> dict[str, list[Row]]:
    """Rows by source; of those whose step time is told."""
    timed, groups = [run for run in runs if run.tokens_per_second], families()
    fits = fits_without(timed, groups)
    needs = needs_of(timed, fits)
    found: dict[str, list[Row]] = defaultdict(list)
    for source, calibration in fits.items():
        family = groups.get(source, source)
        spreads = calibrated(one for one in needs if groups.get(one.source, one.source) != family)
        for run in timed:
            if run.source != source:
                continue
            ask = run.request
            given = expected_efficiency(
                ask.gpu, part_of(ask.model, ask.layout), local_setup(ask.setup, ask.layout), dtype=ask.dtype,
                power_watts=ask.power_watts, calibration=calibration, spreads=spreads,
                timing=ask.program.timing if ask.program else "",
            )  # fmt: skip
            row = _row(run, estimate(replace(ask, efficiency=given), alone=False))
            found[source] += [row] if row is not None else []
    return found


def _row(run: PublishedRun, alone: Estimate) -> Row | None:
    traits, likely, bounds = alone.traits, alone.likely_step_seconds, alone.step_seconds
    if traits is None or likely is None or bounds is None or run.step_seconds is None:
        return None
    half = math.log(bounds[1] / bounds[0]) / 2
    told = Told(said=alone.said, traits=traits, seconds=likely, half_width=half)
    return Row(run=run, alone=alone, own=OwnRun(text=run.name, seconds=run.step_seconds, told=(told,)))


def judged(rows: dict[str, list[Row]], seen: int, *, near: bool = False) -> Judged:
    """Each row with so many others of its source; ``near``: where those leave least of the bounds."""
    draw, of_source = random.Random(_SEED), []
    for own in rows.values():
        if len(own) <= seen:
            continue
        told = []
        for row in own if len(own) <= _MOST_ROWS else draw.sample(own, _MOST_ROWS):
            others = [one for one in own if one is not row]
            for _ in range(_DRAWS):
                found = row.beside(draw.sample(others, seen))
                if not near or (found.step.correction.left or 1.0) < NEAR:
                    told.append((*_inside(found, row), *_inside(row.alone, row)))
        of_source += [told] if told else []
    return Judged(
        sources=len(of_source),
        inside=mean(mean(one[0] for one in told) for told in of_source),
        inside_alone=mean(mean(one[2] for one in told) for told in of_source),
        width=math.exp(mean(median(one[1] for one in told) for told in of_source)),
        width_alone=math.exp(mean(median(one[3] for one in told) for told in of_source)),
    )


def _inside(found: Estimate, row: Row) -> tuple[bool, float]:
    low, high = found.step_seconds or (0.0, math.inf)
    return low <= row.seconds <= high, math.log(high / low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Which of two ways to train is faster, where one of them is an own run: by what runs correct, and without.

    ``lost``: of the faster one's speed where the other is taken, as a mean of sources; ``right``: how often it is not.
    """

    sources: int
    pairs: int
    right: float
    right_alone: float
    lost: float
    lost_alone: float


def ordered(rows: dict[str, list[Row]], *, least_error: float = 0.0) -> Ordered:
    """Rows of one source, model, GPU, length and number of ranks that are trained in other ways.

    ``least_error``: of the run that is given, as a logarithm.
    """
    of_source = []
    for own in rows.values():
        told = [
            one
            for run, other in permutations(own, 2)
            if _asked(run) == _asked(other) and _way(run) != _way(other) and abs(math.log(run.own.times)) >= least_error
            if (one := _order(run, other)) is not None
        ]
        of_source += [told] if told else []
    return Ordered(
        sources=len(of_source),
        pairs=sum(map(len, of_source)),
        right=mean(mean(one[0] == 0 for one in told) for told in of_source),
        right_alone=mean(mean(one[1] == 0 for one in told) for told in of_source),
        lost=mean(mean(one[0] for one in told) for told in of_source),
        lost_alone=mean(mean(one[1] for one in told) for told in of_source),
    )


def _asked(row: Row) -> tuple[object, ...]:
    ask = row.run.request
    adapters = (bool(ask.setup.lora_rank), ask.setup.quantized)
    machine = (ask.gpu and ask.gpu.name, ask.layout.world_size, ask.dtype)
    return ask.model.parameters, ask.setup.sequence_length, *adapters, *machine


def _way(row: Row) -> tuple[object, ...]:
    setup, layout = row.run.request.setup, row.run.request.layout
    cuts = (layout.tensor, layout.context, layout.pipeline, layout.expert)
    return setup.strategy, setup.checkpointing, setup.selective, setup.kernels, row.run.request.program, *cuts


def _order(run: Row, other: Row) -> tuple[float, float] | None:
    """What is lost by whichever seems faster, beside the run and without it; None where they are as fast."""

    def gain(one: float, two: float) -> float:
        tokens = (row.alone.samples_per_step * row.run.request.setup.sequence_length for row in (run, other))
        first, second = tokens
        return math.log(second / two) - math.log(first / one)

    really = gain(run.seconds, other.seconds)
    if abs(really) < _AS_FAST:
        return None
    likely = [row.beside([run]).likely_step_seconds or math.nan for row in (run, other)]
    beside, alone = gain(*likely), gain(run.own.told[0].seconds, other.own.told[0].seconds)
    return tuple(1 - math.exp(-abs(really)) if (one > 0) != (really > 0) else 0.0 for one in (beside, alone))  # type: ignore[return-value]  # of two


def fitted(rows: dict[str, list[Row]]) -> tuple[float, dict[str, float]]:
    """``SHARED`` and ``WEIGHTS`` with which the errors of each source's rows are likeliest, a few of each.

    Small weights hang on which rows those are: the median of several draws.
    """
    found = [_fitted(rows, random.Random(seed)) for seed in range(_FITS)]
    return median(shared for shared, _ in found), {
        name: median(weights[name] for _, weights in found) for name in WEIGHTS
    }


def _fitted(rows: dict[str, list[Row]], draw: random.Random) -> tuple[float, dict[str, float]]:
    import torch

    most = _FITTED_ROWS
    chosen = [own if len(own) <= most else draw.sample(own, most) for own in rows.values() if own]
    far, errors = torch.zeros(len(chosen), most, most, len(WEIGHTS)), torch.zeros(len(chosen), most)
    has = torch.zeros(len(chosen), most)
    for index, own in enumerate(chosen):
        traits, count = [row.own.told[0].traits for row in own], len(own)
        has[index, :count] = 1
        errors[index, :count] = torch.tensor([row.error for row in own]).clamp(-_MOST_ERROR, _MOST_ERROR)
        far[index, :count, :count] = torch.tensor(
            [[[distances(one, other)[name] for name in WEIGHTS] for other in traits] for one in traits]
        )
    both, votes = has[:, :, None] * has[:, None, :], has.sum(1) ** -0.5
    values = torch.nn.Parameter(torch.cat([torch.tensor([-1.0, -3.0]), torch.full((len(WEIGHTS),), -1.5)]))
    optimizer = torch.optim.Adam([values], lr=_RATE)
    for _ in range(_STEPS):
        shared, noise = values[:2].exp()
        weights = values[2:].exp()
        covariance = shared * torch.exp(-(far * weights).sum(-1)) * both + torch.diag_embed(noise * has + (1 - has))
        root = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(errors[:, :, None], root)[:, :, 0]
        logarithms = root.diagonal(dim1=1, dim2=2).log().sum(1)
        loss = ((0.5 * (errors * solved).sum(1) + logarithms) * votes).sum() + _PENALTY * weights.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shared, noise, *weights = values.detach().exp().tolist()
    return shared / (shared + noise), dict(zip(WEIGHTS, weights, strict=True))


def main(arguments: list[str]) -> None:
    """Print the table."""
    rows = rows_of(all_runs())
    print("own runs            sources  inside  alone   width  alone")
    for name, seen, near in (("one", 1, False), ("one that is near", 1, True), ("two", 2, False), ("three", 3, False)):
        one = judged(rows, seen, near=near)
        shares = f"{one.inside:6.1%} {one.inside_alone:6.1%}"
        print(f"{name:20}{one.sources:6}  {shares}   {one.width:4.2f}   {one.width_alone:4.2f}")
    print("order of two ways     sources  pairs  right  alone   lost  alone")
    for name, least in (("one was run", 0.0), ("and is 1.2 times off", math.log(1.2))):
        two = ordered(rows, least_error=least)
        shares = f"{two.right:6.1%} {two.right_alone:6.1%}  {two.lost:5.1%}  {two.lost_alone:5.1%}"
        print(f"{name:20}{two.sources:8}  {two.pairs:5} {shares}")
    if "--fit" in arguments:
        shared, weights = fitted(rows)
        print(f"shared {shared:.3f} (here {SHARED})")
        for name, weight in weights.items():
            print(f"{name:15} {weight:.3f} (here {WEIGHTS[name]})")


if __name__ == "__main__":
    main(sys.argv[1:])
