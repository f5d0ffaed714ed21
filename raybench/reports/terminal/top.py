"""A run that goes on, as lines of a terminal. Pure."""

from collections.abc import Iterator

from raybench.documents.live_run import WRITING, LiveRun
from raybench.reports.text import fixed, printable
from raybench.units import format_seconds

_STALE_SECONDS = 5.0
_MOST_RANKS, _MOST_MACHINES, _MOST_WARNINGS, _MOST_FIGURES = 16, 8, 20, 16
_STATES = {"T": "stopped", "t": "stopped", "D": "in the kernel", "Z": "ended", "X": "ended"}


def top_lines(run: LiveRun, now: float) -> list[str]:
    """One screen; ``now`` is wall-clock time."""
    return [printable(line) for line in _lines(run, now)]


def is_stale(run: LiveRun, age: float) -> bool:
    """Whether what was written so many seconds ago should have been written anew since."""
    return age > max(_STALE_SECONDS, 3 * run.period_seconds)


def _lines(run: LiveRun, now: float) -> Iterator[str]:
    yield f"run {run.run_id}, process {run.pid}: {run.phase}, after {format_seconds(run.elapsed_seconds)}"
    if is_stale(run, age := now - run.written_at):
        why = "writes the result, was killed, or is stopped" if run.phase == WRITING else "was killed, or is stopped"
        yield f"NOTHING NEW for {format_seconds(age)}: its command {why}"
    if run.title:
        yield run.title
    if run.benchmark:
        progress = f", {run.progress}" if run.progress else ""
        yield f"[{run.done + 1}/{run.total}] {run.benchmark}{progress}"
    yield from _ranks(run)
    yield from _machines(run)
    yield "" if run.warnings else "no warnings"
    yield from (f"{one.at_seconds:7.1f} s  {one.text}" for one in run.warnings[-_MOST_WARNINGS:])


def _ranks(run: LiveRun) -> Iterator[str]:
    """Those that have not moved for longest come first."""
    ordered = sorted(run.ranks, key=lambda one: (one.state not in _STATES, -one.still_seconds, one.rank))
    for one in ordered[:_MOST_RANKS]:
        state = _STATES.get(one.state, "")
        still = f", not moved for {format_seconds(one.still_seconds)}" if one.still_seconds >= 1 else ""
        yield f"rank {one.rank:>4} on {one.node}: {f'{state}, ' if state else ''}{one.where}{still}"
    if len(ordered) > _MOST_RANKS:
        yield f"and {len(ordered) - _MOST_RANKS} more ranks"


def _machines(run: LiveRun) -> Iterator[str]:
    for one in run.machines[:_MOST_MACHINES]:
        figures = [f"{name} {fixed(value)}" for name, value in list(one.figures.items())[:_MOST_FIGURES]]
        silent = one.silent_seconds
        none = "no readings yet" if silent is None else f"NO READINGS for {format_seconds(silent)}"
        yield f"{one.name}: {'; '.join(figures) if figures else none}"
    if len(run.machines) > _MOST_MACHINES:
        yield f"and {len(run.machines) - _MOST_MACHINES} more machines"
