"""Fits of scaling, and the projection against a simulation that moves chunk after chunk through each hop of a ring."""

import random

import pytest

from raybench.errors import UsageError
from raybench.performance_model.least_squares import nonnegative_fit
from raybench.performance_model.projection import (
    Scaling,
    ScalingFit,
    ScalingPoint,
    amdahl_serial_share,
    fit_scaling,
    project,
    verdict_of,
)


def simulated_step(nodes: int, source: random.Random, *, message: float, noise: float = 0.01) -> float:
    """Seconds of one weak-scaling step: each node computes, then a ring all-reduce, hop by hop.

    Every node sends to its neighbour as soon as it has received and its own link is free; 2(n-1) rounds of message/n
    each, 5 us a hop on a 1 GB/s link.
    """
    free = [0.1 * (1 + source.gauss(0, noise)) for _ in range(nodes)]
    for _ in range(2 * (nodes - 1)):
        sent = [start + 5e-6 + message / nodes / 1e9 for start in free]
        free = [max(sent[rank], sent[rank - 1]) for rank in range(nodes)]
    return max(free)


def simulated(nodes: int, *, message: float, steps: int = 30, noise: float = 0.01) -> ScalingPoint:
    source = random.Random(nodes)
    samples = tuple(simulated_step(nodes, source, message=message, noise=noise) for _ in range(steps))
    return ScalingPoint(nodes=nodes, samples_seconds=samples)


@pytest.mark.parametrize("message", [5e6, 50e6])
def test_the_projection_holds_the_simulated_truth(message: float) -> None:
    points = [simulated(nodes, message=message, noise=0.001) for nodes in (1, 2, 4, 8)]
    for projection in project(points, "weak", (32, 64, 128)):
        truth = simulated(projection.nodes, message=message, steps=3, noise=0.001).step_seconds
        assert projection.step_seconds == pytest.approx(truth, rel=0.05)
        assert projection.low_seconds * 0.98 <= truth <= projection.high_seconds * 1.02
        assert projection.is_projection
        assert "projection from at most 8 nodes" in projection.caveat


def test_strong_scaling_is_fitted_exactly_where_the_model_holds() -> None:
    truth = ScalingFit(scaling="strong", work=10.0, latency=0.02, transfer=0.3, worst_relative_error=0)
    points = [ScalingPoint(nodes=n, samples_seconds=(truth.step_seconds(n),)) for n in (1, 2, 4, 8)]
    fit = fit_scaling(points, "strong")
    assert (fit.work, fit.latency, fit.transfer) == pytest.approx((10.0, 0.02, 0.3))
    assert fit.speedup(1) == 1
    knee = fit.knee()
    assert knee is not None
    assert fit.efficiency(knee) < 0.5 <= fit.efficiency(knee - 1)


def test_ideal_scaling_has_no_knee() -> None:
    points = [ScalingPoint(nodes=n, samples_seconds=(8.0 / n,)) for n in (1, 2, 4)]
    fit = fit_scaling(points, "strong")
    assert fit.knee() is None
    assert fit.efficiency(1000) == pytest.approx(1)


def test_amdahl_finds_the_serial_share() -> None:
    points = [ScalingPoint(nodes=n, samples_seconds=(0.05 + 0.95 / n,)) for n in (1, 2, 4, 8)]
    assert amdahl_serial_share(points) == pytest.approx(0.05)
    assert amdahl_serial_share(points[1:]) is None
    faster = [ScalingPoint(nodes=n, samples_seconds=(0.9 / n**1.1,)) for n in (1, 2, 4)]
    assert amdahl_serial_share(faster) == 0


def test_a_share_of_the_ideal_throughput_has_a_verdict() -> None:
    assert [verdict_of(share) for share in (0.95, 0.8, 0.5)] == ["good", "fair", "poor"]


def test_few_nodes_leave_the_projection_wide() -> None:
    points = [ScalingPoint(nodes=n, samples_seconds=(1.0 + 0.1 * (n > 1) + 0.001 * n,)) for n in (1, 2, 3)]
    (projection,) = project(points, "weak", (1000,))
    assert projection.high_seconds > 1.5 * projection.low_seconds  # latency grows with log2, transfer does not


def test_what_cannot_be_fitted_is_refused() -> None:
    two = [ScalingPoint(nodes=nodes, samples_seconds=(1.0, 1.1)) for nodes in (1, 2, 2)]
    for refused in (fit_scaling, lambda points, scaling: project(points, scaling, (8,))):
        with pytest.raises(UsageError, match="3 different numbers"):
            refused(two, "weak")
    for nodes, samples in ((0, (1.0,)), (1, ()), (1, (0.0,))):
        with pytest.raises(UsageError):
            ScalingPoint(nodes=nodes, samples_seconds=samples)


def test_coefficients_are_never_below_zero() -> None:
    assert nonnegative_fit([(1, 1), (1, 2), (1, 4)], [4, 3, 1]) == pytest.approx(
        (sum((1 / 4, 1 / 3, 1)) / sum((1 / 16, 1 / 9, 1)), 0)
    )
    assert nonnegative_fit([(1, 0), (1, 1)], [2, 5]) == pytest.approx((2, 3))


def test_a_fit_without_work_says_nothing_of_one_node() -> None:
    """Steps that more than double with the nodes: least squares leaves no work, and one node would take no time."""
    points = [
        ScalingPoint(nodes=nodes, samples_seconds=(seconds,)) for nodes, seconds in ((2, 1.0), (4, 2.5), (8, 5.0))
    ]
    fit = fit_scaling(points, "weak")
    assert fit.work == 0
    assert fit.knee() is None
    assert fit.speedup(4, 2) == pytest.approx(2 * fit.step_seconds(2) / fit.step_seconds(4))
    (projection,) = project(points, "weak", (64,))
    assert 0 < projection.efficiency < 0.5


@pytest.mark.parametrize("nodes", [64, 256])
def test_latency_around_a_ring_is_within_the_interval(nodes: int) -> None:
    """Gathers go past every rank: their latency grows with the nodes, which a few nodes cannot tell from a tree's."""

    def seconds(count: int) -> float:
        return 0.1 + 2e-4 * (count - 1)

    points = [ScalingPoint(nodes=n, samples_seconds=tuple(seconds(n) * (1 + 0.002 * k) for k in (-1, 0, 1)))
              for n in (1, 2, 4, 8)]  # fmt: skip
    (projection,) = project(points, "weak", (nodes,))
    assert projection.low_seconds < seconds(nodes) < 1.05 * projection.high_seconds


@pytest.mark.parametrize(("scaling", "measured"), [("weak", True), ("strong", True), ("weak", False)])
def test_communication_that_hides_so_far_may_show(scaling: Scaling, measured: bool) -> None:
    """Sent around a ring beside the computation: four nodes wait for none of it, sixteen do."""

    def sent(nodes: int) -> float:
        return 0.1 * (nodes - 1)

    def work(nodes: int) -> float:
        return 4.0 / nodes if scaling == "strong" else 1.0

    def seconds(nodes: int) -> float:
        return work(nodes) + max(0.0, sent(nodes) - 0.6 * work(nodes))

    points = [
        ScalingPoint(nodes=n, samples_seconds=(seconds(n),), hidden_seconds=sent(n) if measured else 0.0)
        for n in (1, 2, 4)
    ]
    assert [point.step_seconds for point in points] == [work(point.nodes) for point in points]
    (projection,) = project(points, scaling, (16,))
    assert projection.low_seconds < seconds(16)
    assert (seconds(16) <= projection.high_seconds) is measured
