"""What went wrong in a run: findings, benchmarks that are not complete or have wrong data, and what it lacks. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from raybench.comparison.words import worst_word
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.result import RunResult
from raybench.documents.run.standalone import StandaloneResult
from raybench.stability import point_label


def troubles_of(result: RunResult | StandaloneResult) -> Mapping[str, str]:
    """By what they are of, a word each; of several of a name the worst."""
    return worst_by_name([*_of_the_whole(result), *_of_benchmarks(result.benchmarks)])


def _of_the_whole(result: RunResult | StandaloneResult) -> Iterator[tuple[str, str]]:
    if isinstance(result, StandaloneResult):
        yield from ((f"rank {rank}", "failed") for rank in result.errors)
        if len(result.ranks) < (result.world_size or 0):
            yield f"{len(result.ranks)} of {result.world_size} ranks", "incomplete"
    else:
        found = (*result.findings, *result.log_findings)
        yield from ((f"finding {one.rule}", one.severity) for one in found if one.severity != "info")


def worst_by_name(pairs: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """Of each name the worst of its words."""
    names = dict.fromkeys(name for name, _ in pairs)
    return {name: worst_word([word for other, word in pairs if other == name]) for name in names}


def _of_benchmarks(benchmarks: Sequence[BenchmarkResult]) -> Iterator[tuple[str, str]]:
    """Those that are not complete, have wrong data, or had a figure before that is now none, as no batch that fits."""
    for benchmark in benchmarks:
        name = benchmark.label
        if benchmark.status != "complete":
            yield f"benchmark {name}", benchmark.status
        if benchmark.wrong:
            yield f"data of {name}", "fail"
        for one in benchmark.workload:
            if one.failed is not None:
                yield f"{name}, {one.label}", "failed"
            elif isinstance(one, MemoryPoint) and one.complete and not one.largest_batch:
                yield f"{name}, {one.label}, fits no batch", "fail"


def gaps_of(benchmarks: Sequence[BenchmarkResult]) -> Iterator[str]:
    """Points that some of a run's launches did not measure."""
    for benchmark in benchmarks:
        for point in benchmark.points:
            lack = sum(not any(launch) for launch in point.launches)
            if lack:
                label = f"{benchmark.label}, {point_label(point)}"
                yield f"{lack} of {len(point.launches)} launches have no {label}"
