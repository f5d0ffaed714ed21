"""How far step times are from the fit, and the factors of each class that hold nine in ten of them.

Each source has one vote in a class, which its rows share; of sources that nothing was fitted to.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.step.efficiency import Calibration, expected_efficiency, slow_sides
from raybench.performance_model.step.links import networks_of
from raybench.performance_model.step.offload import slowest_seconds
from raybench.performance_model.step.spreads import (
    PROGRAMS_TIMED,
    SPREADS,
    TUNED,
    Spread,
    classes_of,
    exposed_share,
)
from raybench.performance_model.step.work import work_of
from tests.performance_model.published_run import PublishedRun

# Of the votes of a class, on either side: more than nine in ten, since rows are known better here than those that come
# new (docs/methods.md). Fewer where the bound costs most width: what is slow among programs that nobody says are tuned
# lies far behind the others.
# Of what is compiled more on either side, since the votes of other classes beside its own are nearer the fit.
_SLOW_SHARES = {TUNED: 0.98, "compiled": 0.94}
# Of the tuned one source of 37 is further ahead than all others (1.55 and more: Nemotron-4, typed from memory, of one
# sample a micro-batch), and single rows of two: to hold them costs a tenth of the width.
_FAST_SHARES = {TUNED: 0.96, "compiled": 0.99}
_SLOW_SHARE, _FAST_SHARE = 0.92, 0.97
_POOLED = 10.0  # votes of all classes but the tuned that each has beside its own: few sources know little
_NOT_FITTED = ("experts",)  # of tables of their own
_LEAST_SOURCES = 2  # of a program: three, of which one may be left out
_MOST, _HALVINGS = 3.0, 40  # of the logarithm of a factor
_HALVED = 2 * _MOST / 2**_HALVINGS
_NONE = Spread(slow=1.0, fast=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The least factors of its class with which one published step time is inside; 1 where it is without.

    ``program``: the class of its program, where that of its GPU is another.
    """

    source: str
    name: str
    slow: float
    fast: float
    program: str = ""


def need(run: PublishedRun, calibration: Calibration) -> Need | None:
    """Of one row; None where no step time is published, or the links may be of several kinds."""
    ask, seconds, networks = run.request, run.step_seconds, networks_of(run.request)
    if seconds is None or ask.gpu is None or networks is None or networks[0] != networks[1]:
        return None
    part, setup = part_of(ask.model, ask.layout), local_setup(ask.setup, ask.layout)
    timing = ask.program.timing if ask.program else ""
    names = classes_of(ask.gpu, part, setup, timing)
    given = expected_efficiency(
        ask.gpu, part, setup, power_watts=ask.power_watts, dtype=ask.dtype, calibration=calibration,
        spreads={**SPREADS, **dict.fromkeys(names, _NONE)}, timing=timing,
    )  # fmt: skip
    answer = estimate(replace(ask, efficiency=given.middle), alone=False)
    bounds = answer.step_seconds
    if bounds is None:
        return None
    work = work_of(ask.gpu, part, setup, ask.power_watts, ask.dtype)
    moved = 1 + slowest_seconds(part, setup, ask.gpu) / calibration.seconds(work)
    sides = slow_sides(work, calibration, setup, moved, of_experts=part.experts > 0)
    pressed = math.log(answer.step.pressed_times)
    hidden = (math.log(bounds[1] / bounds[0]) - pressed) / 2
    error = math.log(seconds / bounds[0]) - 2 * hidden * exposed_share(ask.setup, ask.model)
    slower, faster = _beyond(error - pressed, hidden), _beyond(-error, hidden)
    slowest = answer.step.fitted[0][1]
    computed = min(1.0, (slowest.compute + slowest.bubble) * answer.step.pressed_times / bounds[1])
    return Need(
        source=run.source,
        name=names[0],
        slow=min(_least(slower, computed, known, longer) for known, longer in sides),
        fast=_least(faster, computed, math.log(given.fast), power=-1),
        program=names[-1],
    )


def _least(beyond: float, computed: float, known: float, longer: float = 0.0, power: int = 1) -> float:
    """The least factor with which a bound is so far from the middle, as a logarithm, as ``Estimate`` has its bounds.

    ``computed``: the share of the slowest step that is computation, of which alone what is ``known`` makes a step
    longer, or shorter, than steps of a class differ; so what is ``longer`` for sure. ``power``: -1 of the fast side.
    """
    least, most = 0.0, _MOST
    for _ in range(_HALVINGS):
        factor = (least + most) / 2
        whole = power * (math.hypot(factor, known) + longer)
        side = computed * math.exp(whole) + (1 - computed) * math.exp(power * factor)
        least, most = (least, factor) if abs(math.log(side)) >= beyond else (factor, most)
    return math.exp(most) if most > _HALVED else 1.0


def _beyond(error: float, known: float) -> float:
    """What must be added to what is known, as an independent error, for all of the error to be within."""
    return math.sqrt(error**2 - known**2) if error > known else 0.0


def calibrated(needs: Iterable[Need]) -> dict[str, Spread]:
    """The factors of each class; those that it has of one without rows."""
    rows = list(needs)
    classes: dict[str, list[Need]] = defaultdict(list)
    for one in rows:
        classes[one.name].append(one)
    beside = {name: [one for one in rows if (one.name == TUNED) == (name == TUNED)] for name in classes}
    return dict(SPREADS) | {
        name: Spread(
            slow=_covering(own, beside[name], "slow", _SLOW_SHARES.get(name, _SLOW_SHARE)),
            fast=_covering(own, beside[name], "fast", _FAST_SHARES.get(name, _FAST_SHARE)),
        )
        for name, own in classes.items()
        if name not in _NOT_FITTED
    }


def calibrated_programs(named: Iterable[Need], needs: Iterable[Need]) -> dict[str, Spread]:
    """The factors of each program that is judged by its own published step times (``PROGRAMS_TIMED``).

    ``named``: of rows whose program is named; ``needs``: of all rows as they are, of which those that are not tuned
    have some votes beside a program's own, as beside a class's. None of a program of which there is one source.
    """
    rows = list(named)
    beside = [one for one in needs if one.name != TUNED]
    found = {}
    for name in PROGRAMS_TIMED:
        own = [row for row in rows if row.program == name]
        if len({row.source for row in own}) >= _LEAST_SOURCES:
            slow = _covering(own, beside, "slow", _SLOW_SHARE)
            found[name] = Spread(slow=slow, fast=_covering(own, beside, "fast", _FAST_SHARE))
    return found


def covering(rows: Sequence[Need], side: Literal["slow", "fast"]) -> float:
    """The least factor of a class of few sources, a long one of which has more votes: the root of its rows."""
    counts = Counter(one.source for one in rows)
    votes = sorted((float(getattr(one, side)), counts[one.source] ** -0.5) for one in rows)
    return _reached(votes, _SLOW_SHARE if side == "slow" else _FAST_SHARE)


def _covering(own: Sequence[Need], rows: Sequence[Need], side: str, share: float) -> float:
    """The least factor that covers as many of a class's votes, with some of others' beside them."""
    votes = sorted([*_votes(own, side, 1.0), *_votes(rows, side, _POOLED / len({one.source for one in rows}))])
    return _reached(votes, share)


def _reached(votes: Sequence[tuple[float, float]], share: float) -> float:
    """The value, of ascending ones with their weights, up to which the share of them is."""
    covered, every = 0.0, sum(weight for _, weight in votes)
    for value, weight in votes:
        covered += weight
        if covered >= (share - 1e-9) * every:
            return value
    return votes[-1][0]


def _votes(rows: Sequence[Need], side: str, each: float) -> list[tuple[float, float]]:
    counts: Mapping[str, int] = Counter(one.source for one in rows)
    return [(float(getattr(one, side)), each / counts[one.source]) for one in rows]
