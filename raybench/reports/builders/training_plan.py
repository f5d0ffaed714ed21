"""A plan for a terminal: the best way, the table of all, how it is started. Pure."""

from raybench.documents.training_plan import TrainingPlan, TrainingWay
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimate import measured_in_short, measured_notes, measured_reason
from raybench.reports.model import Block, Cell, Facts, Grid, Heading, Report, Table, notes_of
from raybench.reports.text import count_of

_MOST_ROWS = 6
_HEADINGS = ("way", "samples", "GiB", "tokens/s", "hours", "why not")


def plan_tables(plan: TrainingPlan, _: Asked) -> Report:
    """The report, its verdict on the best way."""
    machine = f"{count_of(plan.world_size, 'rank')} on {count_of(plan.nodes, 'node')}"
    has = "" if plan.device_bytes is None else f" of {plan.device_bytes / 2**30:.1f} GiB"
    gpu = f", {plan.gpu or 'a GPU'}{has}" if plan.gpu or has else ""
    name = f"raybench plan, {measured_in_short(plan.measured)}: {plan.model} ({plan.method}), {machine}{gpu}"
    fitting = [way for way in plan.ways if way.fits is not False] or list(plan.ways)
    others = [way for way in plan.ways if way not in fitting]
    slower = fitting[_MOST_ROWS:]
    best = plan.ways[0]
    runs = best.fits is not False
    starts = [line for line in (best.command, *plan.launch) if line] if runs else []
    blocks: list[Block] = [
        Table(grid=Grid(headings=_HEADINGS, rows=tuple(map(_row, fitting[:_MOST_ROWS]))), text_columns=1),
        *notes_of(list(measured_notes(plan.measured)), tone="info"),
        *notes_of(_beside(fitting, slower, has_memory=plan.device_bytes is not None), tone="info"),
        *notes_of([f"does not fit: {', '.join(map(_size, others))}"] if others else [], tone="info"),
        *notes_of([f"the best waits for: {best.limit}"] if best.limit and runs else [], tone="info"),
        *([Heading(text="Start the best")] if starts else []),
        *([Facts(pairs=tuple((f"{number}", line) for number, line in enumerate(starts, 1)))] if starts else []),
        *notes_of([f"assumed: {one}" for one in plan.assumed], tone="info"),
        *notes_of([f"unknown: {one}" for one in plan.unknown], tone="warn"),
    ]
    return Report(
        name=name,
        title=name,
        verdict=plan.verdict,
        reason=plan.reason + _measured(plan),
        lead="",
        when="",
        blocks=tuple(blocks),
    )


def _measured(plan: TrainingPlan) -> str:
    """Which figures of the best way are measured: the verdict is on that one."""
    return measured_reason([one for one in plan.measured if one.way == plan.ways[0].name])


def _size(way: TrainingWay) -> str:
    if way.measured_by:
        return f"{way.name} (measured)"
    return f"{way.name} ({way.least_peak / 2**30:,.0f} GiB)"


def _slower(way: TrainingWay) -> str:
    told = ", ".join(filter(None, ("measured" if way.measured_by else "", way.why_not)))
    return f"{way.name} ({told})" if told else way.name


def _beside(fitting: list[TrainingWay], slower: list[TrainingWay], *, has_memory: bool) -> list[str]:
    """What the table has no room for."""
    known = has_memory and any(way.fits for way in fitting)
    faster = any(way.why_not.endswith("x speed") for way in fitting)
    notes = ["x speed: faster, with other software than PyTorch's own, by too little to change"] if faster else []
    lead = "fits too" if known else "tried too"
    return [*notes, *([f"{lead}: {'; '.join(map(_slower, slower))}"] if slower else [])]


def _row(way: TrainingWay) -> tuple[Cell, ...]:
    runs = way.fits is not False
    size = f"{way.peak / 2**30:.0f}"
    texts = (
        f"{way.name} (measured)" if way.measured_by else way.name,
        f"{way.accumulation} x {way.batch_size}",
        size if way.least_peak == way.peak else f"{way.least_peak / 2**30:.0f}-{size}",
        _range(way.tokens_per_second) if runs else "",
        _range(way.hours) if runs else "",
        way.why_not,
    )
    return tuple(Cell(text=text) for text in texts)


def _range(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else "-".join(map(_short, pair))


def _short(value: float) -> str:
    """Three digits: ``344k``, ``1.56M``, ``12.3``."""
    for limit, suffix in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if suffix == "k" else limit)
            return f"{scaled:.3g}{suffix}" if scaled < 1000 else f"{scaled:,.0f}{suffix}"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
