"""Fitting the coefficients of `raybench.expectations.expected` to tables of healthy systems."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from raybench.expectations.expected import (
    SMALL,
    SMALL_BYTES,
    Coefficients,
    Healthy,
    Timing,
    deciding,
    is_tuned_p5,
    least_deciding,
    predicted_seconds,
)
from raybench.expectations.regimes import NoExpectation, System, kinds_of, regime_of
from raybench.performance_model.layout import wire_factor
from raybench.performance_model.least_squares import nonnegative_fit

_FEWEST_FITTED_POINTS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HealthyTable:
    """A published sweep: (message bytes, busbw GB/s), ascending. Systems of one ``cluster`` are one witness.

    Each is equal to itself alone, so that what is fitted to it is fitted once.
    """

    name: str
    operation: str
    system: System
    points: tuple[tuple[int, float], ...]
    cluster: str = ""

    @property
    def witness(self) -> str:
        """The cluster; without one, the system."""
        return self.cluster or self.name


def fit_coefficients(tables: Sequence[HealthyTable]) -> Coefficients:
    """Times first (medians of each class), then shares: with these times, what ceiling explains large messages best.

    A system or cluster with several tables in a regime counts once, with their median.
    """
    timings = _timings(tables)
    shares: dict[str, dict[str, list[float]]] = {}
    for table in tables:
        regime = regime_of(table.operation, table.system)
        if isinstance(regime, NoExpectation) or regime.is_floor:
            continue
        timing = next((timings[kind] for kind in kinds_of(regime.timing) if kind in timings), None)
        if timing is None:
            continue
        share = _ceiling(table, timing) / regime.link_gb_per_s
        for key in kinds_of(regime.key)[:-1]:
            shares.setdefault(key, {}).setdefault(table.witness, []).append(share)
    return Coefficients(shares={key: _healthy(found) for key, found in shares.items()}, timings=timings)


def _healthy(found: Mapping[str, Sequence[float]]) -> Healthy:
    shares = sorted(median(shares) for shares in found.values())
    return Healthy(share=median(shares), systems=len(shares), least=shares[0], most=shares[-1])


def _timings(tables: Sequence[HealthyTable]) -> dict[str, Timing]:
    """Of messages from 32 MiB; under keys that end in :small of those from 1 MiB, where other algorithms are chosen."""
    return {
        f"{key}{suffix}": timing
        for suffix, least in (("", SMALL_BYTES), (SMALL, 2**20))
        for key, timing in _median_timings(tables, least).items()
    }


def _median_timings(tables: Iterable[HealthyTable], least_bytes: int) -> dict[str, Timing]:
    """Of each class; a system or cluster with several tables counts once, with their median."""
    fitted: dict[str, dict[str, list[Timing]]] = {}
    for table in tables:
        regime = regime_of(table.operation, table.system)
        timing = None if isinstance(regime, NoExpectation) else _timing(table, least_bytes)
        if timing is not None and not isinstance(regime, NoExpectation):
            for key in kinds_of(regime.timing):
                fitted.setdefault(key, {}).setdefault(table.witness, []).append(timing)
    return {key: _median([_median(found) for found in witnesses.values()]) for key, witnesses in fitted.items()}


def _median(timings: Sequence[Timing]) -> Timing:
    return Timing(
        start_seconds=median(one.start_seconds for one in timings),
        stage_seconds=median(one.stage_seconds for one in timings),
    )


@cache
def _timing(table: HealthyTable, least_bytes: int) -> Timing | None:
    """a and p of one sweep: least squares of ``t = a + b S' + c sqrt(S')``, p = c^2 / (4 b).

    Of P5 only messages that have the algorithm of the largest ones: below, AWS's tuner takes a slower one.
    """
    if least_bytes >= SMALL_BYTES and is_tuned_p5(table.operation, table.system):
        least_bytes = least_deciding(table.operation, table.system)
    points = [point for point in table.points if point[0] >= least_bytes]
    if len(points) < _FEWEST_FITTED_POINTS:
        return None
    factor = wire_factor(table.operation, table.system.ranks)
    rows = [(1.0, size * factor, math.sqrt(size * factor)) for size, _ in points]
    start, per_byte, per_root = nonnegative_fit(rows, [size * factor / busbw / 1e9 for size, busbw in points])
    return Timing(start_seconds=start, stage_seconds=per_root**2 / (4 * per_byte)) if per_byte else None


def _ceiling(table: HealthyTable, timing: Timing) -> float:
    """B in GB/s: the median over the deciding messages (else the largest) of what explains each, given a and p."""
    factor = wire_factor(table.operation, table.system.ranks)
    sizes = deciding([size for size, _ in table.points], table.operation, table.system)
    chosen = [point for point in table.points if point[0] in sizes] or list(table.points[-1:])
    return median(_ceiling_of(size * factor, busbw, timing) for size, busbw in chosen)


def _ceiling_of(sent_bytes: float, bus_gb_per_s: float, timing: Timing) -> float:
    """B that makes the predicted time the measured one: with x = sqrt(S'/B), x^2 + 2 sqrt(p) x = t - a."""
    seconds = sent_bytes / bus_gb_per_s / 1e9
    rest = max(seconds - timing.start_seconds, seconds / 2)
    root = -math.sqrt(timing.stage_seconds) + math.sqrt(timing.stage_seconds + rest)
    ceiling = sent_bytes / root**2
    assert abs(predicted_seconds(sent_bytes, ceiling, timing) / (timing.start_seconds + rest) - 1) < 1e-6
    return ceiling / 1e9
