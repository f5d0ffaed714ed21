"""A plan for a terminal: the best way, the table of all, how it is started. Pure."""

import re
import textwrap
from collections.abc import Iterator

from raybench.documents.estimate import OtherPrograms
from raybench.documents.training_plan import FewestNodes, TrainingPlan, TrainingWay
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimates.estimate import (
    measured_in_short,
    measured_notes,
    measured_reason,
    out_of_bounds,
    own_run_notes,
)
from raybench.reports.model import Block, Cell, Facts, Grid, Heading, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.units import amounts, hours_told, short_number

_MOST_ROWS, _ROWS_OF_SCREEN, _MOST_MEASURED = 6, 3, 2
_VERDICT = 138  # characters of a verdict and its reason that a screen of 80 shows (reports/terminal/screen.py)
_COMMAND_WIDTH = 76  # of a line of a screen of 80
_FULL = "all ways, and what other tools start the best and faster ones with: --full"
_RANDOM = "raybench train has random data; what starts yours, and all ways: --full"
_FASTER = (
    "x speed: faster, by other software than PyTorch's own; with kernels as good as there, by about a tenth at most"
)
_MOST_WIDTH = 78  # of a table on a screen of 80
_HEADINGS = ("way", "samples", "GiB", "tokens/s", "hours", "why not")


def plan_tables(plan: TrainingPlan, _: Asked) -> Report:
    """The report, its verdict on the best way."""
    starts = _starts(plan)
    return _report(
        plan,
        Table(grid=_grid(plan, _MOST_ROWS), text_columns=1),
        *_moved_by_runs(plan),
        *notes_of([*measured_notes(plan.measured), *own_run_notes(plan.own_runs)], tone="info"),
        *_open_notes(plan),
        *notes_of(list(map(out_of_bounds, plan.other_programs)), tone="info"),
        *_notes(plan, _MOST_ROWS),
        *_numbered("Start the best", starts),
        *(block for way in _faster(plan) for block in _numbered(f"Start {way.name}", list(way.launch))),
        *notes_of([f"unknown: {one}" for one in plan.unknown], tone="warn"),
        *notes_of([f"price: {plan.price}"] if plan.price else [], tone="info"),
        *notes_of([f"assumed: {one}" for one in plan.assumed], tone="info"),
    )


def plan_screen(plan: TrainingPlan, _: Asked) -> Report:
    """The best ways, and how raybench starts the first; all else is in the whole report."""
    return _report(
        plan,
        *notes_of([f"in all: {_in_all(plan)}"] if _is_cut_short(plan) and _in_all(plan) else [], tone="strong"),
        *_in_time(plan),
        *notes_of(list(_nearest(plan)), tone="strong"),
        Table(grid=_grid(plan, _ROWS_OF_SCREEN, most=_MOST_WIDTH), text_columns=1, headed=True),
        *_moved_by_runs(plan),
        *notes_of(list(_start_lines(plan))),
        *notes_of([_RANDOM if plan.ways[0].command and _starts(plan) else _FULL], tone="info"),
        *notes_of([_faster_in_short(plan)] if _faster(plan, _ROWS_OF_SCREEN) else [], tone="info"),
        *notes_of([f"unknown: {one}" for one in plan.unknown], tone="warn"),
        *_open_notes(plan, is_screen=True),
        *_notes(plan, _ROWS_OF_SCREEN, is_screen=True),
        *notes_of([*measured_notes(plan.measured), *own_run_notes(plan.own_runs, in_short=True)], tone="info"),
        *notes_of([f"price: {plan.price}"] if plan.price else [], tone="info"),
        *notes_of([f"assumed: {'; '.join(plan.assumed)}"] if plan.assumed else [], tone="info"),
    )


def _is_cut_short(plan: TrainingPlan) -> bool:
    """Whether a screen may not have the whole verdict: in what it has at the end are hours and cost."""
    return plan.verdict != "ok" or not _is_shown(plan, plan.reason + _measured(plan))


def _is_shown(plan: TrainingPlan, reason: str) -> bool:
    """Whether a screen has all of it."""
    return len(plan.verdict) + len(reason) <= _VERDICT


def _nearest(plan: TrainingPlan) -> Iterator[str]:
    """Of a plan that nothing is sure to fit what is, whole: a screen may have the verdict cut before it."""
    if plan.ways[0].fits or _is_shown(plan, plan.reason):
        return
    lead = "nearest that does" if plan.ways[0].fits is False else "fits in any case"
    for place, choice in enumerate(plan.nearest):
        yield f"or {choice}" if place else f"{lead}: {choice}"


def _open_notes(plan: TrainingPlan, *, is_screen: bool = False) -> tuple[Block, ...]:
    """Options that nobody gives, what the best does at the least and the most whatever they are, and who does not."""
    either = plan.open_tokens_per_second
    options = plan.not_said if either else ("--program",)
    told = [f"{_range(either)} tokens/s either way"] if either else []
    told += [f"by {one.names[0]} up to {worse}" for one in plan.other_programs if is_screen and (worse := _worse(one))]
    return notes_of([f"not said: {', '.join(options)}: {'; '.join(told)}"] if told else [], tone="info")


def _worse(one: OtherPrograms) -> str:
    """``1.3x time, 1.1x memory``: what a program takes beyond what is told, of that alone."""
    ratios = (("time", one.slower), ("memory", one.more_memory))
    return ", ".join(f"{ratio:.2g}x {kind}" for kind, ratio in ratios if ratio > 1)


def _moved_by_runs(plan: TrainingPlan) -> tuple[Block, ...]:
    """That one's own runs put another way first, which is less like them: of it they say less."""
    if plan.first_without_runs is None:
        return ()
    runs = "this run" if len(plan.own_runs) == 1 else "these runs"
    text = f"without {runs} {plan.first_without_runs} is first; measure {plan.ways[0].name} too before you change to it"
    return notes_of([text], tone="strong")


def _in_time(plan: TrainingPlan) -> tuple[Block, ...]:
    few = plan.nodes_in_time
    return notes_of(
        [_on(few, f"{'is' if few.nodes == 1 else 'are'} in time", plan.currency)] if few else [], tone="strong"
    )


def _in_all(plan: TrainingPlan) -> str:
    """What the best takes and costs, where that is known and it fits: a longer verdict may be cut before it."""
    best = plan.ways[0]
    told = [_span(best.hours)] if best.hours else []
    told += [f"{amounts(best.cost)} {plan.currency or ''}".rstrip()] if best.cost else []
    return ", ".join(told) if best.fits is not False else ""


def _report(plan: TrainingPlan, *blocks: Block) -> Report:
    machine = f"{count_of(plan.world_size, 'rank')} on {count_of(plan.nodes, 'node')}"
    has = "" if plan.device_bytes is None else f" of {plan.device_bytes / 2**30:.1f} GiB"
    gpu = f", {plan.gpu or 'a GPU'}{has}" if plan.gpu or has else ""
    measured = measured_in_short(plan.measured, plan.links_measured, plan.own_runs)
    name = f"raybench plan, {measured}: {plan.model} ({plan.method}), {machine}{gpu}"
    return Report(
        name=name, title=name, verdict=plan.verdict, reason=plan.reason + _measured(plan), lead="", when="",
        blocks=blocks,
    )  # fmt: skip


def _fitting(plan: TrainingPlan) -> list[TrainingWay]:
    """Ways that fit or may; all where none does."""
    return [way for way in plan.ways if way.fits is not False] or list(plan.ways)


def _shown(plan: TrainingPlan, most: int) -> list[TrainingWay]:
    """The first ways that run, so many at most, and behind them those that were measured."""
    fitting = _fitting(plan)
    return fitting[:most] + [way for way in fitting[most:] if way.measured_by][:_MOST_MEASURED]


def _starts(plan: TrainingPlan) -> list[str]:
    """How the best is started, raybench's own way first; nothing where it does not fit, or no GPU is known."""
    best = plan.ways[0]
    is_known = best.fits is not False and plan.device_bytes is not None
    return [line for line in (best.command, *plan.launch) if line] if is_known else []


def _start_lines(plan: TrainingPlan) -> Iterator[str]:
    """How the best is started, whole: what raybench does not start is a program on every node and its arguments."""
    starts = _starts(plan)
    most = 1 if plan.ways[0].command else 2 if plan.method == "full" else 3  # of LoRA what makes it LoRA
    for lead, start in zip(("start it: ", "", ""), starts[:most], strict=False):
        yield from _command_lines(lead + start)


def _faster(plan: TrainingPlan, rows: int = _MOST_ROWS) -> list[TrainingWay]:
    """Ways that other software may make worth its while, of those that the table shows."""
    return [way for way in _shown(plan, rows) if way.fits and way.why_not.endswith("x speed")]


def _faster_in_short(plan: TrainingPlan) -> str:
    """What the first of their notes means."""
    return f"{_faster(plan, _ROWS_OF_SCREEN)[0].why_not}: faster, by other software than PyTorch's own"


def _numbered(title: str, lines: list[str]) -> list[Block]:
    pairs = tuple((f"{number}", line) for number, line in enumerate(lines, 1))
    return [Heading(text=title), Facts(pairs=pairs)] if lines else []


def _grid(plan: TrainingPlan, rows: int, most: int | None = None) -> Grid:
    """The ways, without hours where it is not known of how many tokens.

    Where ``most`` characters have no room, without hours too, which follow from tokens/s, and those of the best are in
    the verdict; then with cuts in short, and without samples, which its command has. No cell is cut in its middle.
    """
    cells = [_row(way) for way in _shown(plan, rows)]
    has_hours = any(row[_HEADINGS.index("hours")].text for row in cells)
    short = [(Cell(text=_in_short(row[0].text)), *row[1:]) for row in cells]
    choices = (
        *([_columns(cells)] if has_hours else []),
        _columns(cells, "hours"),
        _columns(short, "hours"),
        _columns(short, "hours", "samples"),
    )
    return next((grid for grid in choices if most is None or _width(grid) <= most), choices[-1])


def _columns(cells: list[tuple[Cell, ...]], *without: str) -> Grid:
    kept = [place for place, heading in enumerate(_HEADINGS) if heading not in without]
    return Grid(
        headings=tuple(_HEADINGS[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in cells),
    )


def _width(grid: Grid) -> int:
    columns = zip(grid.headings, *([cell.text for cell in row] for row in grid.rows), strict=True)
    return sum(max(map(len, column)) + 2 for column in columns)


def _in_short(name: str) -> str:
    """``zero1 TP2 PP16 EP8, recomputed``, of ``zero1, TP 2, PP 16, EP 8, recomputed``."""
    return re.sub(r",? ((?:E?T|C|P|E)P) (\d)", r" \1\2", name)


def _notes(plan: TrainingPlan, rows: int, *, is_screen: bool = False) -> Iterator[Block]:
    """What the table, of so many rows, has no room for."""
    best, fitting, shown = plan.ways[0], _fitting(plan), _shown(plan, rows)
    none_fits = best.fits is False
    others = [way for way in plan.ways if none_fits or way not in fitting]
    fitting = [] if none_fits else fitting
    beside = _beside(fitting, [way for way in fitting if way not in shown], has_memory=plan.device_bytes is not None)
    yield from notes_of([text for text in beside if not (is_screen and text == _FASTER)], tone="info")
    yield from notes_of([f"does not fit: {_too_large(others)}"] if others else [], tone="info")
    yield from notes_of([_fewest(plan.fewest_nodes, plan.currency)] if plan.fewest_nodes else [], tone="info")
    yield from () if is_screen else _in_time(plan)
    yield from notes_of([f"links: {plan.links_measured}"] if plan.links_measured else [], tone="info")
    waits = best.limit and best.fits is not False
    yield from notes_of([f"the best waits for: {best.limit}"] if waits else [], tone="info")


def _command_lines(text: str) -> list[str]:
    """A command that is not cut: in parts that two lines of a screen hold."""
    return textwrap.wrap(text, _COMMAND_WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def _measured(plan: TrainingPlan) -> str:
    """Which figures of the best way are measured: the verdict is on that one."""
    return measured_reason([one for one in plan.measured if one.way == plan.ways[0].name])


def _fewest(few: FewestNodes, currency: str | None) -> str:
    """``1 node holds it too (ddp, 69 GiB): 36-60 hours, 1,980 to 3,262 USD``."""
    return _on(few, "holds it too" if few.nodes == 1 else "hold it too", currency)


def _on(few: FewestNodes, what: str, currency: str | None) -> str:
    told = [f"{_range(few.tokens_per_second)} tokens/s"] if few.tokens_per_second and not few.hours else []
    told += [_span(few.hours)] if few.hours else []
    told += [f"{amounts(few.cost)} {currency or ''}".rstrip()] if few.cost else []
    lead = f"{count_of(few.nodes, 'node')} {what} ({few.way}, {few.peak / 2**30:.0f} GiB)"
    return ": ".join(filter(None, (lead, ", ".join(told))))


def _too_large(others: list[TrainingWay]) -> str:
    """The least that each needs: kept activations are not named where even ones recomputed (in part) are too many."""
    again = {way.strategy for way in others if way.activation_checkpointing}
    part = {way.strategy for way in others if way.selective_checkpointing}
    kept = [
        way
        for way in others
        if not way.activation_checkpointing
        and way.strategy not in again
        and (way.selective_checkpointing or way.strategy not in part)
    ]
    rest = [way for way in others if way.activation_checkpointing]
    sizes = [", ".join(map(_size, sorted(ways, key=lambda way: way.least_peak))) for ways in (kept, rest)]
    return "; ".join(filter(None, (sizes[0], f"even recomputed {sizes[1]}" if sizes[1] else "")))


def _size(way: TrainingWay) -> str:
    name = way.name.removesuffix(", recomputed")
    return f"{name} (measured)" if way.measured_by else f"{name} ({way.least_peak / 2**30:,.0f} GiB)"


def _slower(ways: list[TrainingWay]) -> str:
    """Names after each other, with the span of their times where all have one."""
    times = [float(way.why_not.removesuffix("x time")) for way in ways if way.why_not.endswith("x time")]
    if len(times) == len(ways) and not any(way.measured_by for way in ways):
        span = " to ".join(dict.fromkeys(f"{time:.2f}" for time in (min(times), max(times))))
        return f", {span}x time: {_named(ways)}"
    return f": {'; '.join(map(_told, ways))}"


def _named(ways: list[TrainingWay]) -> str:
    """``fsdp-hybrid; recomputed: zero1, zero2``."""
    kept = [way.name for way in ways if not way.name.endswith(", recomputed")]
    again = [way.name.removesuffix(", recomputed") for way in ways if way.name.endswith(", recomputed")]
    return "; ".join(filter(None, ("; ".join(kept), f"recomputed {', '.join(again)}" if again else "")))


def _told(way: TrainingWay) -> str:
    told = ", ".join(filter(None, ("measured" if way.measured_by else "", way.why_not)))
    return f"{way.name} ({told})" if told else way.name


def _beside(fitting: list[TrainingWay], slower: list[TrainingWay], *, has_memory: bool) -> list[str]:
    """What the table has no room for."""
    known = has_memory and any(way.fits for way in fitting)
    faster = any(way.why_not.endswith("x speed") for way in fitting)
    notes = [_FASTER] if faster else []
    sure = [way for way in slower if way.fits or not known]
    unsure = [way for way in slower if way not in sure]
    told = [f"{'fits too' if known else 'tried too'}{_slower(sure)}"] if sure else []
    return [*notes, *told, *([f"may fit: {_named(unsure)}"] if unsure else [])]


def _row(way: TrainingWay) -> tuple[Cell, ...]:
    runs = way.fits is not False
    sizes = dict.fromkeys(f"{size / 2**30:,.0f}" for size in (way.least_peak, way.peak))
    texts = (
        f"{way.name} (measured)" if way.measured_by else way.name,
        f"{way.accumulation} x {way.batch_size}",
        "-".join(sizes),
        _range(way.tokens_per_second) if runs else "",
        _span(way.hours).removesuffix(" hours") if runs and way.hours else "",
        way.why_not,
    )
    return tuple(Cell(text=text) for text in texts)


def _range(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else "-".join(map(short_number, pair))


def _span(hours: tuple[float, float]) -> str:
    """``15.4-28.5 hours``; what is over before in minutes or seconds."""
    pair, unit = hours_told(hours)
    return f"{_range(pair)} {unit}"
