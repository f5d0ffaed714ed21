"""Results beside each other: what differs, then each figure with its ratio and interval. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.comparison.comparison import ComparedFigure, Comparison, Differing
from raybench.documents.run.same_loss import LossAgreement
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.run.screen import table_of
from raybench.reports.model import Block, Cell, Grid, Heading, Note, Notes, Report, Table, Text, notes_of
from raybench.reports.text import count_of, fixed, printable
from raybench.reports.workloads.display import Row
from raybench.units import format_seconds, format_share

_MOST_DIFFERENCES = 4
_REST = ("cannot tell", "no difference", "less", "more", "not compared")
_FOOTER = (
    (
        "A ratio is that of the figures of a side and of the reference, which is the first; the 95 % intervals of all "
        "figures hold together. They rest on the spread between runs where several were given, between launches where "
        "a run has several, and else between blocks of one launch, widened by what two launches may differ."
    ),
)


def comparison_report(comparison: Comparison, _: Asked) -> Report:
    """The whole report: every difference, every figure."""
    return Report(
        name=_name(comparison),
        title=_name(comparison),
        verdict=comparison.verdict,
        reason=comparison.verdict_reason,
        lead=_sides_text(comparison),
        when=_when(comparison),
        blocks=tuple(_blocks(comparison)),
        footer=_FOOTER,
    )


def comparison_screen(comparison: Comparison, _: Asked) -> Report:
    """The verdict, what differs in short, and the figures, those that differ first."""
    changed = [one for one in comparison.differences if one.about != "outcome"]
    lines = [Text(text=difference_line(one), tone="soft") for one in changed[:_MOST_DIFFERENCES]]
    more = len(changed) - len(lines)
    if more > 0:
        lines.append(Text(text=f"and {count_of(more, 'more difference')}: --full", tone="soft"))
    outcomes = [difference_line(one) for one in comparison.differences if one.about == "outcome"][:2]
    return Report(
        name=_name(comparison),
        title=_name(comparison),
        verdict=comparison.verdict,
        reason=comparison.verdict_reason,
        lead="",
        when="",
        blocks=(
            *(lines or [Text(text="no difference in configuration and environment", tone="soft")]),
            table_of(_screen_rows(comparison)),
            *([Notes(items=tuple(map(_loss_note, comparison.losses)))] if comparison.losses else []),
            *notes_of([*outcomes, *comparison.remarks], tone="warn"),
        ),
    )


def _name(comparison: Comparison) -> str:
    gate = f", gate {format_share(comparison.gate)}" if comparison.gate else ""
    return f"raybench compare {printable(' '.join(side.name for side in comparison.sides))}{gate}"


def _sides_text(comparison: Comparison) -> str:
    sides = comparison.sides
    runs = [f"{printable(one.name)} ({count_of(one.runs, 'run')})" for one in sides]
    return f"{runs[0]} is the reference of {', '.join(runs[1:])}"


def _when(comparison: Comparison) -> str:
    return ", ".join(one.started_at for one in comparison.sides if one.started_at)


def difference_line(one: Differing) -> str:
    """``environment: torch: 2.12.0 -> 2.13.0``."""
    values = " -> ".join("not there" if value is None else printable(value) for value in one.values)
    return f"{one.about}: {printable(one.name)}: {values}"


def _blocks(comparison: Comparison) -> Iterator[Block]:
    yield Heading(text="What differs", anchor="differences")
    if comparison.differences:
        headings = ("about", "name", *(printable(side.name) for side in comparison.sides))
        rows = tuple(
            (Cell(text=one.about), Cell(text=printable(one.name)), *map(_value_cell, one.values))
            for one in comparison.differences
        )
        yield Table(grid=Grid(headings=headings, rows=rows), text_columns=len(headings))
    else:
        yield Text(text="Machine, configuration and environment are the same.")
    yield Heading(text="Figures", anchor="figures")
    for number, side in enumerate(comparison.sides[1:], 1):
        if len(comparison.sides) > 2:
            yield Heading(text=printable(side.name), level=3)
        yield _figures_table([one for one in comparison.figures if one.side == number or one.values[1] is None])
    if comparison.losses:
        yield Heading(text="Losses", anchor="losses")
        yield Notes(items=tuple(_loss_note(one) for one in comparison.losses))
    if comparison.remarks:
        yield Notes(items=tuple(Note(text=remark, tone="warn") for remark in comparison.remarks))


def _loss_note(one: LossAgreement) -> Note:
    return Note(text=printable(one.text), tone="soft" if one.verdict == "same" else "warn")


def _value_cell(value: str | None) -> Cell:
    return Cell(text="-", tone="soft") if value is None else Cell(text=printable(value))


def _figures_table(figures: Sequence[ComparedFigure]) -> Table:
    headings = ("benchmark", "point", "figure", "reference", "this", "ratio", "95 % interval", "difference", "by")
    rows = tuple(
        (
            Cell(text=printable(one.benchmark), tone="strong" if one.is_summary else ""),
            Cell(text=printable(one.point)),
            Cell(text=printable(one.quantity)),
            Cell(text=amount_text(one.values[0], one.unit)),
            Cell(text=amount_text(one.values[1], one.unit)),
            Cell(text="-" if one.ratio is None else f"{one.ratio:.3f}"),
            Cell(text="-" if one.low is None or one.high is None else f"{one.low:.3f} to {one.high:.3f}"),
            Cell(text=one.difference, tone=_tone(one), hint=printable(one.reason)),
            Cell(text=printable(one.reason) if one.reason else basis_text(one)),
        )
        for one in figures
    )
    return Table(grid=Grid(headings=headings, rows=rows, keep=(0, 0, 3, 1, 1, 2, 0, 0, 4)), text_columns=3)


def _tone(one: ComparedFigure) -> str:
    return "bad" if one.is_worse else "good" if one.is_improved else ""


def basis_text(one: ComparedFigure) -> str:
    """What the interval rests on: ``5 and 5 launches``; ``blocks of one launch, 3 % allowed``."""
    if one.repeated in ("runs", "launches") and one.counts:
        return f"{one.counts[0]} and {one.counts[1]} {one.repeated}"
    allowed = f", {one.allowed:.0%} allowed between launches" if one.allowed else ""
    return f"blocks of one launch each{allowed}" if one.repeated == "blocks" else f"one figure each{allowed}"


def _screen_rows(comparison: Comparison) -> Iterator[Row]:
    several = len(comparison.sides) > 2
    shown = [one for one in comparison.figures if one.is_better or one.difference == "not compared"]
    for one in sorted(shown, key=_gravity):
        whose = f"{printable(comparison.sides[one.side].name)}: " if several else ""
        values = " -> ".join(amount_text(value, one.unit) for value in one.values)
        said = printable(one.reason) if one.reason else f"{one.difference_text}"
        yield f"{whose}{printable(one.label)}", values, said


def _gravity(one: ComparedFigure) -> int:
    return 0 if one.is_worse else 1 if one.is_improved else _REST.index(one.difference) + 2


def amount_text(value: float | None, unit: str) -> str:
    """A figure with its unit; ``-`` where there is none."""
    if value is None:
        return "-"
    if unit == "s":
        return format_seconds(value)
    if unit == "bytes":
        return f"{value / 2**30:.2f} GiB" if value >= 2**28 else f"{value / 2**20:.1f} MiB"
    return f"{fixed(value)} {printable(unit)}".strip()
