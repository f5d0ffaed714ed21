"""One benchmark by message size for a terminal: the columns of nccl-tests, p99 and the interval. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.run.point import Point
from raybench.reports.model import Block, Cell, Choice, Grid, Heading, Note, Notes
from raybench.reports.model import Table as TableBlock
from raybench.reports.rows import Table, is_unstable
from raybench.reports.text import bandwidth, microseconds, percent, printable
from raybench.stability import interval_half_width
from raybench.stats import summarize
from raybench.units import format_bytes

WARNING_MARK = "~"
# What goes first where room is short: the highest. Type, redop and root are in the table's title as well.
_KEEP_CONSTANT, _KEEP_P99, _KEEP_COUNT, _KEEP_ALGORITHM_BANDWIDTH, _KEEP_EXPECTED, _KEEP_INTERVAL = range(6, 0, -1)
_LEADING = (
    ("size (B)", 0),
    ("count (elements)", _KEEP_COUNT),
    ("type", _KEEP_CONSTANT),
    ("redop", _KEEP_CONSTANT),
    ("root", _KEEP_CONSTANT),
)
_PLACE = (("time (us)", 0), ("algbw (GB/s)", _KEEP_ALGORITHM_BANDWIDTH), ("busbw (GB/s)", 0))
_EXPECTED = (("expect (GB/s)", _KEEP_EXPECTED), ("ratio", 0))
_QUALITY = (("#wrong", 0), ("p99 (us)", _KEEP_P99), ("+-CI", _KEEP_INTERVAL))


def size_blocks(table: Table, *, mark: str) -> Iterator[Block]:
    """The table, its bandwidth summary, reasons and warnings."""
    title = table.title + (f" ({table.status})" if table.status != "complete" else "")
    yield Heading(text=title + mark, level=3)
    yield Choice(forms=tuple((TableBlock(grid=_grid(table, short=short), text_columns=0),) for short in (False, True)))
    notes = [Note(text=bandwidth_summary(table.points))]
    notes += [Note(text=launches_in_short(point)) for point in table.points if len(point.launches) > 1]
    notes += [Note(text=f"expected: {table.expected_basis}", tone="soft")] if table.expected_basis else []
    notes += [Note(text=f"stopped: {reason}", tone="bad") for reason in table.reasons]
    if table.warnings:
        notes.append(Note(text=f"{WARNING_MARK} {warnings_in_short(table.warnings)}", tone="warn"))
    yield Notes(items=tuple(notes))


def launches_in_short(point: Point) -> str:
    """Mean and spread over ``--repeats``: ``1M: 5 launches, mean 733 us, stddev 12 us (1.6%), 721 to 750 us``."""
    medians = summarize(point.launch_medians_seconds)
    return (
        f"{format_bytes(point.message_bytes)}: {len(point.launches)} launches, mean {microseconds(medians.mean)} us, "
        f"stddev {microseconds(medians.stddev)} us ({percent(medians.stddev / medians.mean)}), "
        f"{microseconds(medians.min)} to {microseconds(medians.max)} us"
    )


def warnings_in_short(warnings: Sequence[str]) -> str:
    """What is unstable where, on one line: the numbers and the advice of each warning are in the report."""
    return "; ".join(printable(warning.partition(";")[0]) for warning in warnings)


def bandwidth_summary(points: Sequence[Point]) -> str:
    """Peak, and the average over all rows that nccl-tests prints."""
    peak = max(points, key=lambda point: point.busbw_gb_per_s)
    average = sum(point.busbw_gb_per_s for point in points) / len(points)
    at = format_bytes(peak.message_bytes)
    return f"Avg bus bandwidth    : {bandwidth(average)}, peak {bandwidth(peak.busbw_gb_per_s)} GB/s at {at}"


def _grid(table: Table, *, short: bool) -> Grid:
    """``short``: sizes as ``64K``."""
    place = (*_PLACE, *(_EXPECTED if table.has_expected else ()), *_QUALITY)
    columns = (*_LEADING, *place * len(table.places))
    root = table.root if table.root is not None else -1
    constant = (Cell(text=str(text)) for text in (table.dtype or "-", table.reduce_op or "none", root))
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        keep=tuple(keep for _, keep in columns),
        groups=(("", len(_LEADING)), *((name, len(place)) for name in table.places)),
        rows=tuple(_rows(table, tuple(constant), short=short)),
    )


def _rows(table: Table, constant: tuple[Cell, ...], *, short: bool) -> Iterator[tuple[Cell, ...]]:
    absent = (Cell(text="-", tone="soft"),) * len((*_PLACE, *(_EXPECTED if table.has_expected else ()), *_QUALITY))
    for row in table.rows:
        size = format_bytes(row.message_bytes) if short else str(row.message_bytes)
        places = (absent if point is None else _figures(point, expected=table.has_expected) for point in row.places)
        yield (
            Cell(text=size),
            Cell(text=str(row.element_count)),
            *constant,
            *(cell for place in places for cell in place),
        )


def _figures(point: Point, *, expected: bool) -> tuple[Cell, ...]:
    return (
        Cell(text=microseconds(point.seconds.median)),
        Cell(text=bandwidth(point.algbw_gb_per_s)),
        Cell(text=bandwidth(point.busbw_gb_per_s), tone="strong"),
        *(_expected(point) if expected else ()),
        _wrong(point),
        Cell(text=microseconds(point.seconds.p99), tone="soft"),
        _interval(point),
    )


def _expected(point: Point) -> tuple[Cell, Cell]:
    known = point.expected.bus_gb_per_s if point.expected else None
    judged = point.expected is not None and point.expected.limit is not None
    return (
        Cell(text="-" if known is None else bandwidth(known), tone="soft"),
        Cell(text=point.expected_text or "-", tone="" if judged else "soft"),
    )


def _wrong(point: Point) -> Cell:
    if point.verified is None:
        return Cell(text="N/A", tone="soft")
    return Cell(text=str(point.wrong_elements), tone="bad" if point.wrong_elements else "")


def _interval(point: Point) -> Cell:
    half_width = percent(interval_half_width(point))
    return Cell(text=half_width + WARNING_MARK, tone="warn") if is_unstable(point) else Cell(text=half_width + " ")
