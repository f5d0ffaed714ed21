"""The pairs of a matrix that a list has room for: all, or the slowest against the median of their kind. Pure."""

from dataclasses import dataclass

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.point import Point
from raybench.reports.pairs import pair_matrices
from raybench.reports.rows import is_matrix, is_measured

WHERE = "result.json"
MOST_CSV_PAIRS = 10_000  # of one matrix: all pairs of 100 ranks
MOST_SUMMARY_PAIRS = 1000  # of one matrix; of more the slowest, and the number of the others


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPairs:
    """Points in the order of measuring; of the ``omitted`` ones none is below ``least_ratio`` of its median."""

    points: tuple[Point, ...]
    omitted: int
    least_ratio: float | None

    @property
    def remark(self) -> str | None:
        """The sentence on what is left out; None where nothing is."""
        if self.least_ratio is None:
            return None
        kept = f"{self.omitted:,} further pairs, each at {self.least_ratio:.2f} x the median of its kind or more"
        return f"{kept}, are in {WHERE}"


def listed_pairs(benchmark: BenchmarkResult, cluster: ClusterInfo, most: int) -> ListedPairs:
    """The measured points of a benchmark, of a matrix of more than ``most`` pairs the slowest."""
    points = tuple(point for point in benchmark.points if is_measured(point))
    if len(points) <= most or not is_matrix(benchmark):
        return ListedPairs(points=points, omitted=0, least_ratio=None)
    ranked = sorted(
        (pair for matrix in pair_matrices(benchmark, cluster) for pair in matrix.ranked), key=lambda pair: pair.ratio
    )
    kept = {id(pair.point) for pair in ranked[:most]}
    return ListedPairs(
        points=tuple(point for point in points if id(point) in kept),
        omitted=len(points) - most,
        least_ratio=ranked[most].ratio,
    )
