"""A baseline of many runs: made, and a later run checked against it."""

from collections.abc import Sequence
from pathlib import Path

from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.comparison.comparison import Comparison
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError

_HEALTHY = ("ok", "warning", "unknown")


def create_baseline(paths: Sequence[Path]) -> RunsBaseline:
    """The baseline of runs, each named by its folder or file, or by a folder of several.

    Raises UsageError for too few, for runs of unlike machines, and for one that is not whole or has a critical finding.
    """
    from raybench.comparison.baseline_side import baseline_of_runs
    from raybench.comparison.differing import unlike
    from raybench.comparison.run_side import run_side

    results = list(_results(paths))
    for name, result in results:
        if result.conclusion.verdict not in _HEALTHY:
            raise UsageError(f"{name} is {result.conclusion.verdict}: a baseline is made of healthy runs; leave it out")
    found = unlike([run_side(name, [result]) for name, result in results])
    if found:
        raise UsageError(f"these runs are of unlike machines: {'; '.join(found)}; a baseline is of one")
    name = ", ".join(map(str, paths))
    if not results:
        raise UsageError(f"{name} has no run; 'raybench run' makes one")
    return baseline_of_runs(run_side(name, [result for _, result in results]))


def _results(paths: Sequence[Path]) -> "Sequence[tuple[str, RunResult]]":
    from raybench.services.comparing.sides import kept, runs_below

    return [(str(run), kept(run)) for path in paths for run in runs_below(path) or (path,)]


def check_baseline(baseline: Path, result: Path, *, gate: str, allow_unlike: bool = False) -> Comparison:
    """A result, or a folder of several runs, beside a baseline. Raises UsageError, also where it is no baseline."""
    from raybench.services.comparing.compare import compare_results

    RunsBaseline.read(baseline, "the baseline")
    return compare_results([baseline, result], gate=gate, allow_unlike=allow_unlike)
