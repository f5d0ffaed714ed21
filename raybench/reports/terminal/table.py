"""One benchmark as a table in the columns of nccl-tests, with p99 and the interval of the median beside them."""

import textwrap
from collections.abc import Callable, Iterator, Sequence

from raybench.documents.run.point import Point
from raybench.reports.columns import Column, Line, Segment, fit, lines, total_width
from raybench.reports.rows import Table, is_unstable
from raybench.reports.text import bandwidth, microseconds, percent, printable
from raybench.stability import interval_half_width
from raybench.stats import summarize
from raybench.units import format_bytes

WARNING_MARK = "~"
# What goes first where room is short: the highest. Type, redop and root are in the table's title as well.
_KEEP_CONSTANT, _KEEP_P99, _KEEP_COUNT, _KEEP_ALGORITHM_BANDWIDTH, _KEEP_EXPECTED, _KEEP_INTERVAL = range(6, 0, -1)


def table_lines(table: Table, width: int, *, emulated: bool) -> Iterator[Line]:
    """The table at most ``width`` columns wide, its bandwidth summary, reasons and warnings."""
    title = printable(table.title) + (f" ({table.status})" if table.status != "complete" else "")
    yield (("# ", "dim"), (title, "bold cyan"), ("  emulated" if emulated else "", "black on yellow"))
    full = _columns(table, short=False)
    columns = full if total_width(full, 1) <= width else _columns(table, short=True)
    yield from lines(*fit(columns, width))
    yield (("# ", "dim"), (bandwidth_summary(table.points), ""))
    remarks = [(launches_in_short(point), "") for point in table.points if len(point.launches) > 1]
    remarks += [(f"expected: {table.expected_basis}", "dim")] if table.expected_basis else []
    remarks += [(f"stopped: {printable(reason)}", "red") for reason in table.reasons]
    if table.warnings:
        remarks.append((f"{WARNING_MARK} {warnings_in_short(table.warnings)}", "yellow"))
    for text, style in remarks:
        for line in textwrap.wrap(text, width - 2, subsequent_indent="  ", break_on_hyphens=False):
            yield (("# ", "dim"), (line, style))


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


def _columns(table: Table, *, short: bool) -> tuple[Column, ...]:
    rows = len(table.rows)
    sizes = (format_bytes(row.message_bytes) if short else str(row.message_bytes) for row in table.rows)

    def constant(heading: str, value: object) -> Column:
        return Column(heading=heading, cells=((printable(value), ""),) * rows, keep=_KEEP_CONSTANT)

    root = table.root if table.root is not None else -1
    leading = (
        Column(heading="size", unit="(B)", cells=tuple((size, "") for size in sizes)),
        Column(
            heading="count",
            unit="(elements)",
            cells=tuple((str(row.element_count), "") for row in table.rows),
            keep=_KEEP_COUNT,
        ),
        constant("type", table.dtype or "-"),
        constant("redop", table.reduce_op or "none"),
        constant("root", root),
    )
    return leading + tuple(column for index in range(len(table.places)) for column in _place_columns(table, index))


def _place_columns(table: Table, index: int) -> tuple[Column, ...]:
    def column(heading: str, unit: str, cell: Callable[[Point], Segment], keep: int = 0) -> Column:
        points = [row.places[index] for row in table.rows]
        cells = tuple(("-", "dim") if point is None else cell(point) for point in points)
        return Column(heading=heading, unit=unit, cells=cells, group=table.places[index], keep=keep)

    expected = (
        column("expect", "(GB/s)", _expected, _KEEP_EXPECTED),
        column("ratio", "", _ratio),
    )
    return (
        column("time", "(us)", lambda point: (microseconds(point.seconds.median), "")),
        column("algbw", "(GB/s)", lambda point: (bandwidth(point.algbw_gb_per_s), ""), _KEEP_ALGORITHM_BANDWIDTH),
        column("busbw", "(GB/s)", lambda point: (bandwidth(point.busbw_gb_per_s), "bold")),
        *(expected if table.has_expected else ()),
        column("#wrong", "", _wrong),
        column("p99", "(us)", lambda point: (microseconds(point.seconds.p99), "dim"), _KEEP_P99),
        column("+-CI", "", _interval, _KEEP_INTERVAL),
    )


def _expected(point: Point) -> Segment:
    known = point.expected.bus_gb_per_s if point.expected else None
    return (bandwidth(known), "dim") if known is not None else ("-", "dim")


def _ratio(point: Point) -> Segment:
    judged = point.expected is not None and point.expected.limit is not None
    return (point.expected_text or "-", "" if judged else "dim")


def _wrong(point: Point) -> Segment:
    if point.verified is None:
        return "N/A", "dim"
    return str(point.wrong_elements), "bold red" if point.wrong_elements else ""


def _interval(point: Point) -> Segment:
    half_width = percent(interval_half_width(point))
    return (half_width + WARNING_MARK, "yellow") if is_unstable(point) else (half_width + " ", "")
