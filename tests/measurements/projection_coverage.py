"""How often a projection's interval holds the truth: clusters drawn at random, their steps simulated bucket by bucket.

``python -m tests.measurements.projection_coverage --clusters 40``

A step is DDP's: a third of the computation forward, then backward, in which gradients become ready bucket by bucket;
each bucket goes around a ring, 2 (n-1) times a part of it, one bucket after another, beside the computation. The
projection sees a few numbers of nodes, five noisy steps each, and is asked for larger ones.
"""

import argparse
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from raybench.performance_model.projection import Scaling, ScalingPoint, project
from raybench.stats import median

ASKED = (8, 16, 64, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Seconds of computation a step and of a hop, bytes a second of a link, bytes of gradients and their buckets."""

    compute: float
    latency: float
    bandwidth: float
    gradients: float
    buckets: int

    def step_seconds(self, nodes: int) -> float:
        """The end of the computation or of the last bucket."""
        end, piece = 0.0, self.gradients / self.buckets / nodes / self.bandwidth
        for bucket in range(self.buckets):
            ready = self.compute * (1 + 2 * (bucket + 1) / self.buckets) / 3
            end = max(end, ready) + 2 * (nodes - 1) * (self.latency + piece if nodes > 1 else 0.0)
        return max(self.compute, end)

    def hidden_seconds(self, nodes: int) -> float:
        """Of the time that buckets are on their way, what computation goes on beside."""
        hops = 2 * (nodes - 1) * self.buckets
        sent = hops * (self.latency + self.gradients / self.buckets / nodes / self.bandwidth)
        return max(0.0, sent - (self.step_seconds(nodes) - self.compute))


def drawn(source: random.Random) -> Cluster:
    """Each size anywhere between what is usual at the least and at the most, even in its logarithm."""

    def between(low: float, high: float) -> float:
        return math.exp(source.uniform(math.log(low), math.log(high)))

    return Cluster(
        compute=between(0.05, 2.0),
        latency=between(5e-6, 1e-4),
        bandwidth=between(1e9, 5e10),
        gradients=between(1e8, 2e10),
        buckets=source.choice((1, 4, 16, 64)),
    )


def sharing(cluster: Cluster, nodes: int, scaling: Scaling) -> Cluster:
    """The cluster with each of so many nodes' computation: that of one, or its share."""
    return replace(cluster, compute=cluster.compute / nodes if scaling == "strong" else cluster.compute)


def judged(
    cluster: Cluster, scaling: Scaling, measured: Sequence[int], noise: float, source: random.Random
) -> dict[int, tuple[bool, float]]:
    """Whether the interval holds the truth, and the projection over the truth, by nodes."""
    points = [
        ScalingPoint(
            nodes=count,
            samples_seconds=tuple(
                sharing(cluster, count, scaling).step_seconds(count) * max(0.5, source.gauss(1.0, noise))
                for _ in range(5)
            ),
            hidden_seconds=sharing(cluster, count, scaling).hidden_seconds(count),
        )
        for count in measured
    ]
    found = {}
    for one in project(points, scaling, ASKED):
        truth = sharing(cluster, one.nodes, scaling).step_seconds(one.nodes)
        found[one.nodes] = (one.low_seconds <= truth <= one.high_seconds, one.step_seconds / truth)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of intervals that hold the truth, and how far off the projection is."""
    parser = argparse.ArgumentParser(description="Projections of scaling against simulated clusters.")
    parser.add_argument("--clusters", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    scalings: tuple[Scaling, ...] = ("weak", "strong")
    for noise in (0.01, 0.05):
        for measured in ((1, 2, 4), (1, 2, 4, 8)):
            for scaling in scalings:
                source = random.Random(options.seed)
                trials = [judged(drawn(source), scaling, measured, noise, source) for _ in range(options.clusters)]
                print(f"{scaling}, measured on {measured}, noise {noise:.0%}")
                for nodes in ASKED:
                    held = sum(trial[nodes][0] for trial in trials) / len(trials)
                    off = median([abs(math.log(trial[nodes][1])) for trial in trials])
                    print(f"  {nodes:5} nodes: held by {held:.0%} of the intervals, off by x{math.exp(off):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
