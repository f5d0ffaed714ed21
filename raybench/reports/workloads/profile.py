"""What the kept traces of a training say, rank beside rank, and where its time goes. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.profile import Profile, ProfiledOperation, RankProfile
from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.model import Cell, Grid, Section
from raybench.reports.text import fixed, percent, printable
from raybench.reports.workloads.cells import milliseconds

_MOST_RANKS = 64  # in a table; beyond it those that wait most and least
_NAME = 60


def profile_sections(points: Sequence[TrainingPoint]) -> Iterator[Section]:
    """Two tables of each training that was profiled."""
    for point in points:
        if point.profile is not None:
            yield _ranks(printable(point.label), point.profile)
            yield _operations(printable(point.label), point.profile)


def _ranks(label: str, profile: Profile) -> Section:
    shown = sorted(profile.ranks, key=lambda one: one.exposed)
    if len(shown) > _MOST_RANKS:
        shown = [*shown[: _MOST_RANKS // 2], *shown[-_MOST_RANKS // 2 :]]
    headings = ("rank", "step (ms)", "computation", "memory", "exposed communication", "idle", "communication in all")
    return Section(
        title=f"Profile of {label}",
        grid=Grid(headings=headings, rows=tuple(_row(one, profile) for one in sorted(shown, key=lambda one: one.rank))),
        notes=tuple(_notes(profile, len(shown))),
    )


def _row(one: RankProfile, profile: Profile) -> tuple[Cell, ...]:
    late = one.rank in profile.stragglers
    return (
        Cell(text=f"{one.rank} (straggler)" if late else str(one.rank), tone="bad" if late else ""),
        milliseconds(one.seconds),
        *(_share(part, one.seconds) for part in (one.computation, one.memory, one.exposed, one.idle)),
        _share(one.communication, one.seconds),
    )


def _share(part: float, whole: float) -> Cell:
    return Cell(text=f"{fixed(part * 1e3, 8)} ({percent(part / whole if whole else 0.0)})")


def _notes(profile: Profile, shown: int) -> Iterator[str]:
    steps = max(one.steps for one in profile.ranks)
    yield f"of {steps} traced steps; the first four shares are the whole step; exposed includes waiting for late ranks"
    if shown < len(profile.ranks):
        count = len(profile.ranks)
        yield f"{count - shown} of {count} ranks omitted: those that wait neither most nor least"
    if profile.straggler_reason:
        yield f"no straggler named: {printable(profile.straggler_reason)}"
    elif not profile.stragglers:
        yield "in the traces no rank holds up the others"


def _operations(label: str, profile: Profile) -> Section:
    what = "Kernels" if any(one.device == "GPU" for one in profile.ranks) else "Operators"
    headings = ("name", "kind", "calls a step", "mean of ranks (ms)", "most (ms)", "by rank")
    return Section(
        title=f"{what} of {label} by time",
        grid=Grid(headings=headings, rows=tuple(map(_operation, profile.operations))),
    )


def _operation(one: ProfiledOperation) -> tuple[Cell, ...]:
    name = printable(one.name)
    return (
        Cell(text=name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."),
        Cell(text=printable(one.kind)),
        Cell(text=fixed(one.calls, 6)),
        milliseconds(one.seconds),
        milliseconds(one.slowest_seconds),
        Cell(text=str(one.slowest_rank)),
    )
