"""How throughput scales: fits of measured step times over nodes, the knee, and a projection that says it is one.

Strong scaling keeps the global batch (each node gets less work), weak scaling keeps the batch of a node.

* Amdahl, strong: ``t(n) = t(1) (s + (1 - s) / n)``, serial share s.
* alpha-beta: ``t(n) = w(n) + a log2(n) + b 2(n-1)/n``, with the work ``w(n) = w / n`` (strong) or ``w`` (weak), latency
  a of a tree level, b the time of a message once around a ring. Linear in (w, a, b); fitted by least squares of the
  relative error with no coefficient below zero. Gathers of FSDP pass every node: their latency is ``a (n-1)``, which
  belongs to the interval of a projection where it explains the measurements as well.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raybench.errors import UsageError
from raybench.performance_model.least_squares import nonnegative_fit
from raybench.performance_model.search import largest_fitting

Scaling = Literal["strong", "weak"]
GOOD_EFFICIENCY, POOR_EFFICIENCY = 0.9, 0.7
KNEE_EFFICIENCY = 0.5
LEAST_POINTS = 3  # different numbers of nodes
_RESAMPLES = 300
_AS_GOOD = 0.02  # a fit whose worst error is within 2 % of the best one's explains the measurements as well
_ALL, _WITHOUT_LATENCY, _WITHOUT_TRANSFER = (True, True, True), (True, False, True), (True, True, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Step time on a number of nodes; ``samples_seconds`` are single steps, or means of launches.

    ``hidden_seconds``: communication of a step that computation hides, where that was measured.
    """

    nodes: int
    samples_seconds: tuple[float, ...]
    hidden_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.nodes < 1 or not self.samples_seconds or min(self.samples_seconds) <= 0:
            raise UsageError(f"a scaling point needs at least one node and step times above 0, not {self}")

    @property
    def step_seconds(self) -> float:
        """The median."""
        ordered = sorted(self.samples_seconds)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """alpha-beta fit: ``work`` of one node, ``latency`` a tree level, ``transfer`` of one message, seconds."""

    scaling: Scaling
    work: float
    latency: float
    transfer: float
    worst_relative_error: float
    around: bool = False  # latency of a node on a ring, instead of a tree level

    def step_seconds(self, nodes: int) -> float:
        """Step time on so many nodes."""
        terms = _terms(self.scaling, nodes, around=self.around)
        return sum(
            coefficient * term
            for coefficient, term in zip((self.work, self.latency, self.transfer), terms, strict=True)
        )

    def throughput(self, nodes: int) -> float:
        """In units of one node's share of work a second: only ratios mean anything."""
        return (1 if self.scaling == "strong" else nodes) / self.step_seconds(nodes)

    def speedup(self, nodes: int, base: int = 1) -> float:
        """Throughput over that of ``base`` nodes."""
        return self.throughput(nodes) / self.throughput(base)

    def efficiency(self, nodes: int, base: int = 1) -> float:
        """Share of the ideal throughput, that of ``base`` nodes scaled up: 1 with no loss."""
        return self.speedup(nodes, base) * base / nodes

    def knee(self, *, limit: int = 100_000) -> int | None:
        """The first number of nodes with less than half the ideal throughput of one; None up to ``limit``.

        None as well where the fit found no work, only communication: nothing is known of one node then. Efficiency
        falls monotonically in this model, so the number is found by doubling and bisection.
        """
        if not self.work:
            return None
        last = largest_fitting(lambda nodes: self.efficiency(nodes) >= KNEE_EFFICIENCY, most=limit)
        return None if last == limit else last + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Beyond what was measured: a model's answer, never a measurement. ``low``, ``high``: 90 % of plausible fits.

    Plausible are the fits of resampled measurements, with both terms of communication and with either alone where that
    explains them as well: few nodes cannot tell latency from transfer. Where computation hides communication, it may
    hide no more of it than it did, so that all which comes on top is waited for. What happens to a larger system and
    not to the measured ones (another switch level, congestion, failures) is not in it; ``caveat`` says so.
    ``efficiency`` is against the fewest nodes measured.
    """

    nodes: int
    step_seconds: float
    low_seconds: float
    high_seconds: float
    efficiency: float
    measured_up_to: int
    caveat: str

    @property
    def is_projection(self) -> bool:
        """Whether no measurement reaches that far."""
        return self.nodes > self.measured_up_to


def _terms(scaling: Scaling, nodes: int, *, around: bool) -> tuple[float, float, float]:
    latency = nodes - 1.0 if around else math.log2(nodes)
    return (1 / nodes if scaling == "strong" else 1.0), latency, 2 * (nodes - 1) / nodes


def fit_scaling(points: Sequence[ScalingPoint], scaling: Scaling) -> ScalingFit:
    """The alpha-beta fit. Raises UsageError with fewer than three different numbers of nodes.

    It has three coefficients: two numbers of nodes are met exactly by whatever, and say nothing of a fourth.
    """
    if len({point.nodes for point in points}) < LEAST_POINTS:
        raise UsageError(f"a scaling fit needs step times on at least {LEAST_POINTS} different numbers of nodes")
    return _fit(points, scaling, _ALL)


def _fit(
    points: Sequence[ScalingPoint], scaling: Scaling, used: tuple[bool, ...], *, around: bool = False
) -> ScalingFit:
    times = [point.step_seconds for point in points]
    terms = [_terms(scaling, point.nodes, around=around) for point in points]
    rows = [tuple(term * use for term, use in zip(row, used, strict=True)) for row in terms]
    work, latency, transfer = nonnegative_fit(rows, times)
    fit = ScalingFit(
        scaling=scaling, work=work, latency=latency, transfer=transfer, worst_relative_error=0.0, around=around
    )
    worst = max(abs(fit.step_seconds(point.nodes) / time - 1) for point, time in zip(points, times, strict=True))
    return replace(fit, worst_relative_error=worst)


def _plausible_fits(points: Sequence[ScalingPoint], scaling: Scaling) -> list[ScalingFit]:
    best = _fit(points, scaling, _ALL)
    others = [_fit(points, scaling, used) for used in (_WITHOUT_LATENCY, _WITHOUT_TRANSFER)]
    others += [_fit(points, scaling, used, around=True) for used in (_ALL, _WITHOUT_TRANSFER)]
    return [best, *(fit for fit in others if fit.worst_relative_error <= best.worst_relative_error + _AS_GOOD)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exposed:
    """A fit of steps as if nothing were hidden. Computation hides ``hidden`` of it on ``nodes``, and never more."""

    fit: ScalingFit
    hidden: float
    nodes: int

    def step_seconds(self, nodes: int) -> float:
        """Step time on so many nodes: a smaller share of the work hides as much less."""
        share = self.nodes / nodes if self.fit.scaling == "strong" else 1.0
        return self.fit.step_seconds(nodes) - self.hidden * share


def _plausible(points: Sequence[ScalingPoint], scaling: Scaling) -> Sequence[ScalingFit | _Exposed]:
    most = max(points, key=lambda point: point.hidden_seconds)
    fits = _plausible_fits(points, scaling)
    if not most.hidden_seconds:
        return fits
    bare = [
        replace(
            point,
            samples_seconds=tuple(seconds + point.hidden_seconds for seconds in point.samples_seconds),
            hidden_seconds=0.0,
        )
        for point in points
    ]
    exposed = [
        _Exposed(fit=fit, hidden=most.hidden_seconds, nodes=most.nodes) for fit in _plausible_fits(bare, scaling)
    ]
    return [*fits, *exposed]


def amdahl_serial_share(points: Sequence[ScalingPoint]) -> float | None:
    """Serial share s of strong scaling, by least squares of the relative error; None where 1 node was not measured.

    ``t(n) / t(1) - 1/n = s (1 - 1/n)`` is linear in s; below 0 (super-linear) it is 0.
    """
    single = next((point.step_seconds for point in points if point.nodes == 1), None)
    others = [point for point in points if point.nodes > 1]
    if single is None or not others:
        return None
    upper = lower = 0.0
    for point in others:
        ratio = point.step_seconds / single
        slope = (1 - 1 / point.nodes) / ratio
        upper += slope * (1 - 1 / point.nodes / ratio)
        lower += slope * slope
    return min(1.0, max(0.0, upper / lower))


def verdict_of(efficiency: float) -> str:
    """``good``, ``fair`` or ``poor``."""
    return "good" if efficiency >= GOOD_EFFICIENCY else "poor" if efficiency < POOR_EFFICIENCY else "fair"


def project(points: Sequence[ScalingPoint], scaling: Scaling, nodes: Sequence[int]) -> tuple[Projection, ...]:
    """Step times at other numbers of nodes, with the interval of the fit over resampled measurements (fixed seed)."""
    fit = fit_scaling(points, scaling)
    source = random.Random(20260101)
    fits = [
        one for _ in range(_RESAMPLES) for one in _plausible([_resampled(point, source) for point in points], scaling)
    ]
    measured = sorted(point.nodes for point in points)
    return tuple(_projection(fit, fits, count, measured) for count in nodes)


def _projection(
    fit: ScalingFit, fits: Sequence[ScalingFit | _Exposed], nodes: int, measured: Sequence[int]
) -> Projection:
    base, farthest = measured[0], measured[-1]
    times = sorted(one.step_seconds(nodes) for one in fits)
    caveat = (
        f"a projection from at most {farthest} nodes: the interval covers the measurements' noise and that "
        "computation may hide no more communication; another switch level, congestion, stragglers and failures of a "
        "larger system are not in it"
    )
    return Projection(
        nodes=nodes,
        step_seconds=fit.step_seconds(nodes),
        low_seconds=times[len(times) // 20],
        high_seconds=times[-1 - len(times) // 20],
        efficiency=fit.efficiency(nodes, base),
        measured_up_to=farthest,
        caveat=caveat if nodes > farthest else "",
    )


def _resampled(point: ScalingPoint, source: random.Random) -> ScalingPoint:
    drawn = tuple(source.choice(point.samples_seconds) for _ in point.samples_seconds)
    return replace(point, samples_seconds=drawn)
