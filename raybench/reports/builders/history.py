"""The runs of a folder in the order of time: a line a figure with its trend, then each change and what came with it."""

import json
from collections.abc import Callable, Iterator, Sequence

from raybench.documents.comparison.history import ChangePoint, History, HistorySeries
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.comparison import amount_text, difference_line
from raybench.reports.builders.run.screen import table_of
from raybench.reports.model import Block, Cell, Figure, Grid, Heading, Note, Notes, Report, Table, Text, notes_of
from raybench.reports.text import count_of, printable
from raybench.reports.workloads.display import Row

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24
_MOST_CHANGED = 4
_FOOTER = (
    (
        "A change is a step between the levels of three runs or more on each side, beyond what the largest of all "
        "steps reaches by chance; the 95 % intervals of all figures hold together. A run slow by itself is none."
    ),
)


def history_report(history: History, asked: Asked) -> Report:
    """The whole report: every figure, every change, every run that is in none."""
    return _report(history, tuple(_blocks(history, drawn=asked.drawn)), _FOOTER)


def history_screen(history: History, _: Asked) -> Report:
    """The verdict, what came with the last changes, and the figures, those that changed first."""
    lines = [Text(text=line, tone="soft") for line in _what_changed(history)[:_MOST_CHANGED]]
    omitted = [f"{count_of(len(history.omitted), 'run')} cannot be read: --full"] if history.omitted else []
    return _report(history, (*lines, table_of(_rows(history)), *notes_of(omitted, tone="warn")), ())


def _report(history: History, blocks: tuple[Block, ...], footer: tuple[str, ...]) -> Report:
    name = f"raybench history {printable(history.folder)}"
    first, last = history.runs[0].started_at, history.runs[-1].started_at
    return Report(
        name=name,
        title=name,
        verdict=history.verdict,
        reason=history.verdict_reason,
        lead=f"{count_of(len(history.runs), 'run')}, {printable(first)} to {printable(last)}",
        when="",
        blocks=blocks,
        footer=footer,
    )


def _changed_first(history: History) -> Sequence[HistorySeries]:
    def gravity(one: HistorySeries) -> tuple[int, int]:
        return (0 if _is_bad(one) else 1 if one.changes else 2, -len(one.values))

    return sorted((one for one in history.series if one.is_better), key=gravity)


def _rows(history: History) -> Iterator[Row]:
    machines = [one.machine.split(", ") for one in history.series]
    everywhere = set(machines[0]).intersection(*machines) if machines else set()
    options = _options_apart(history)
    for one in _changed_first(history):
        own = [*options(one), *(part for part in one.machine.split(", ") if part not in everywhere)]
        where = f" ({printable(', '.join(own))})" if own else ""
        values = f"{amount_text(one.values[0], one.unit)} -> {amount_text(one.values[-1], one.unit)}"
        yield f"{printable(one.label)}{where}", f"{values} {sparkline(one.values)}", _last_change(history, one)


def _options_apart(history: History) -> Callable[[HistorySeries], list[str]]:
    """What a benchmark was given otherwise than the same benchmark in another series, as ``batch_size 4``."""
    given: dict[str, dict[str, set[str]]] = {}
    for one in history.series:
        for name, value in _options(one):
            given.setdefault(one.benchmark, {}).setdefault(name, set()).add(value)

    def apart(one: HistorySeries) -> list[str]:
        return [f"{name} {value}" for name, value in _options(one) if len(given[one.benchmark][name]) > 1]

    return apart


def _options(one: HistorySeries) -> list[tuple[str, str]]:
    try:
        options = json.loads(one.parameters)
    except ValueError:
        return []
    return [(name, json.dumps(value)) for name, value in options.items()] if isinstance(options, dict) else []


def _is_bad(one: HistorySeries) -> bool:
    is_worse = bool(one.newest or one.since_best or (one.changes and one.changes[-1].is_worse))
    return is_worse or one.missing_since is not None


def _last_change(history: History, one: HistorySeries) -> str:
    """What matters most of its newest runs: that they lack it, look worse, or are worse than the best before."""
    if one.missing_since is not None:
        return f"missing since {_began(history, one.missing_since)}"
    if one.newest:
        return f"looks {change_text(one.newest)} since {_began(history, one.newest.run)}: too few runs"
    change = one.since_best or (one.changes[-1] if one.changes else None)
    if change is None:
        return f"no change in {count_of(len(one.values), 'run')}"
    return f"{change_text(change)} since {_began(history, change.run)}"


def _began(history: History, run: int) -> str:
    return printable(history.runs[run].started_at)[:16]


def change_text(change: ChangePoint) -> str:
    """``1.08x slower [1.05, 1.11]``, turned so that the factor is above 1."""
    turned = (change.ratio, change.low, change.high)
    if change.ratio < 1:
        turned = 1 / change.ratio, 1 / change.high, 1 / change.low
    value, low, high = (f"{one:.3f}" if one < 1.1 else f"{one:.2f}" for one in turned)
    return f"{value}x {change.direction} [{low}, {high}]"


def _what_changed(history: History) -> list[str]:
    """A line a difference that came with a change, the last change first; and where nothing that is known did."""
    changes = sorted(
        {one.run: one for series in history.series for one in series.changes}.values(), key=lambda one: -one.run
    )
    lines = []
    for change in changes:
        run = history.runs[change.run]
        where = f"{printable(run.started_at)[:16]} run {printable(run.run_id)}"
        told = [difference_line(one) for one in change.differences]
        lines += [f"{where}: {line}" for line in told] or [f"{where}: nothing that is known of it differs"]
    return lines


def _blocks(history: History, *, drawn: bool) -> Iterator[Block]:
    yield Heading(text="Figures", anchor="figures")
    yield _figures_table(history)
    if drawn:
        from raybench.reports.plots.history import history_plots  # only with matplotlib

        yield from (Figure(plot=plot) for plot in history_plots(history, _changed_first(history)))
    yield Heading(text="Changes", anchor="changes")
    changes = [(one, change) for one in _changed_first(history) for change in one.changes]
    if changes:
        yield _changes_table(history, changes)
    else:
        yield Text(text="No figure has changed.")
    if history.omitted:
        yield Heading(text="Runs that cannot be read", anchor="omitted")
        yield Notes(items=tuple(Note(subject=one.path, text=f": {one.reason}", tone="warn") for one in history.omitted))


def _figures_table(history: History) -> Table:
    options = _options_apart(history)
    headings = ("benchmark", "point", "figure", "machine", "runs", "first", "last", "trend", "last change")
    rows = tuple(
        (
            Cell(text=printable(one.benchmark)),
            Cell(text=printable(one.point)),
            Cell(text=printable(one.quantity)),
            Cell(text=printable(", ".join([one.machine, *options(one)])), tone="soft"),
            Cell(text=str(len(one.values))),
            Cell(text=amount_text(one.values[0], one.unit)),
            Cell(text=amount_text(one.values[-1], one.unit)),
            Cell(text=sparkline(one.values)),
            Cell(text=_last_change(history, one), tone="bad" if _is_bad(one) else ""),
        )
        for one in _changed_first(history)
    )
    return Table(grid=Grid(headings=headings, rows=rows, keep=(0, 0, 3, 4, 2, 1, 1, 0, 0)), text_columns=4)


def _changes_table(history: History, changes: Sequence[tuple[HistorySeries, ChangePoint]]) -> Table:
    rows = tuple(
        (
            Cell(text=printable(history.runs[change.run].started_at)),
            Cell(text=printable(history.runs[change.run].run_id)),
            Cell(text=printable(one.label)),
            Cell(text=f"{amount_text(change.before, one.unit)} -> {amount_text(change.after, one.unit)}"),
            Cell(text=change_text(change), tone="bad" if change.is_worse else "good"),
            Cell(text="; ".join(map(difference_line, change.differences)) or "nothing that is known"),
        )
        for one, change in sorted(changes, key=lambda pair: pair[1].run)
    )
    headings = ("since", "run", "figure", "level", "change", "what differs from the run before")
    return Table(grid=Grid(headings=headings, rows=rows, keep=(0, 2, 0, 1, 0, 3)), text_columns=6)


def sparkline(values: Sequence[float]) -> str:
    """Values as bars from the least to the largest, neighbours put together where there are many."""
    width = -(-len(values) // _MOST_BARS)
    parts = [values[first : first + width] for first in range(0, len(values), width)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    if high <= low:
        return _BARS[0] * len(means)
    return "".join(_BARS[min(int((one - low) / (high - low) * len(_BARS)), len(_BARS) - 1)] for one in means)
