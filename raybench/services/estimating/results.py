"""Earlier runs that an estimate is given: read once, each for what it measured."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.run.result import RunResult
    from raybench.performance_model.measured import MeasuredLinks
    from raybench.services.estimating.measured_setting import Setting
    from raybench.services.estimating.options import EstimateOptions

_MOST_BYTES = 1 << 29  # of a result: those of thousands of ranks have a tenth
_KEPT_RESULTS = 8


def measured_settings(options: "EstimateOptions") -> "tuple[Setting, ...]":
    """Every training and memory of the results given. Raises UsageError as ``measured_runs`` does."""
    runs = measured_runs(options)
    if not runs:
        return ()

    from raybench.services.estimating.measured_setting import settings_of

    return tuple(setting for _, run in runs for setting in settings_of(run))


def links_in_results(options: "EstimateOptions") -> "MeasuredLinks | None":
    """Of the one result with an all_reduce; None without one."""
    found = [(path, run) for path, run in measured_runs(options) if _has_links(run)]
    if not found:
        return None

    from raybench.performance_model.measured import measured_links

    if len(found) > 1:
        raise UsageError(f"--result {found[1][0]}: {found[0][0]} has an all_reduce as well; give one of them")
    path, run = found[0]
    try:
        return measured_links(run)
    except UsageError as error:
        raise UsageError(f"--result {path}: {error}") from error


def measured_runs(options: "EstimateOptions") -> tuple[tuple[str, "RunResult"], ...]:
    """Every ``--result`` with its path. Raises UsageError for one that cannot be read, or measured nothing of use."""
    given = options.result_file
    paths = (given,) if isinstance(given, str) else given or ()
    runs = tuple((path, _read(Path(path))) for path in paths)
    for path, run in runs:
        if not _has_links(run) and not any(one.kind in ("training", "memory") for one in run.benchmarks):
            raise UsageError(
                f"--result {path}: this result has no measured all_reduce, train or memory; take one of "
                "'raybench run --suite all_reduce', 'raybench train' or 'raybench memory'"
            )
    return runs


def _read(path: Path) -> "RunResult":
    """The result; a plan asks for it with each number of nodes that it tries. Raises UsageError."""
    from raybench.documents.run.result import RunResult, result_file

    file = result_file(path)
    try:
        found = file.stat()
    except (OSError, ValueError):  # said where it is read
        return RunResult.read(file, "--result")
    if found.st_size > _MOST_BYTES:
        raise UsageError(
            f"--result {file}: it has {found.st_size / 2**20:,.0f} MiB, and at most {_MOST_BYTES >> 20} are read; "
            "take the result of a run with fewer points or samples"
        )
    return _read_once(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=_KEPT_RESULTS)
def _read_once(file: Path, _: int, __: int) -> "RunResult":
    from raybench.documents.run.result import RunResult

    return RunResult.read(file, "--result")


def _has_links(run: "RunResult") -> bool:
    return any(one.name == "all_reduce" and one.points for one in run.benchmarks)
