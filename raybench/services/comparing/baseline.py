"""A baseline of many runs: made, and a later run checked against it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.comparison.comparison import Comparison
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.comparison.side import Side

# What a result says of itself: a run its verdict, a preflight its worst check, ranks of torchrun their status.
_HEALTHY = ("ok", "warning", "unknown", "pass", "warn", "complete")


def create_baseline(paths: Sequence[Path]) -> RunsBaseline:
    """The baseline of results of one kind, each named by its folder or file, or by a folder of several.

    Raises UsageError for too few, for results of unlike machines, of other configurations or of different kinds, for
    one that is named twice, and for one that is not whole or has a critical finding.
    """
    from raybench.comparison.baseline_side import baseline_of_runs
    from raybench.comparison.differing import other_settings, unlike
    from raybench.comparison.joined import copies_of, joined_side
    from raybench.comparison.side import OF_THE_WHOLE

    sides = list(_sides(paths))
    for side in sides:
        bad = [word for name, word in side.outcomes.items() if name in OF_THE_WHOLE and word not in _HEALTHY]
        if bad:
            raise UsageError(f"{side.name} is {bad[0]}: a baseline is made of healthy runs; leave it out")
    name = ", ".join(map(str, paths))
    if not sides:
        raise UsageError(f"{name} has no run; 'raybench run' makes one")
    if copies := copies_of(sides):
        raise UsageError(f"{next(iter(copies.values()))}; a baseline is made of different runs; leave it out")
    joined = joined_side(name, sides)
    if found := other_settings(sides):
        raise UsageError(
            f"these runs are of different configurations: {'; '.join(found)}; a baseline is of one, so make one of each"
        )
    found = unlike(sides)
    if found:
        raise UsageError(f"these runs are of unlike machines: {'; '.join(found)}; a baseline is of one")
    return baseline_of_runs(joined)


def _sides(paths: Sequence[Path]) -> "Iterator[Side]":
    from raybench.services.comparing.sides import (
        is_folder_of_results,
        omitted_from,
        one_side,
        results_below,
        unfinished_below,
    )

    for path in paths:
        if path.is_dir() and (begun := unfinished_below(path)):
            raise UsageError(f"{begun[0]} has no result: a baseline is made of healthy runs; leave it out")
        found = results_below(path) if is_folder_of_results(path) else (path,)
        if is_folder_of_results(path) and found and (lost := omitted_from(path, found).lost):
            raise UsageError(f"{path}: {lost[0]}: a baseline is made of healthy runs; leave it out")
        yield from map(one_side, found)


def check_baseline(baseline: Path, result: Path, *, gate: str, allow_unlike: bool = False) -> Comparison:
    """A result, or a folder of several runs, beside a baseline. Raises UsageError, also where it is no baseline."""
    from raybench.services.comparing.compare import compare_results

    RunsBaseline.read(baseline, "the baseline")
    return compare_results([baseline, result], gate=gate, allow_unlike=allow_unlike)
