"""What the HTML report shows, as plain rows of text: no markup, nothing to escape twice. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from raybench.documents.run.point import Point
from raybench.reports.model import Cell, Grid
from raybench.reports.pairs import PairMatrix, SlowPair, ranked_pairs
from raybench.reports.rows import Table, is_unstable
from raybench.reports.text import bandwidth, microseconds, percent
from raybench.stability import interval_half_width
from raybench.stats import median
from raybench.units import format_bytes, format_seconds

LEAST_PAIRS, MOST_PAIRS = 5, 20


SUMMARY_HEADINGS = (
    "benchmark", "sizes", "peak busbw (GB/s)", "at", "±95 %",
    "time at smallest", "±95 %", "unstable", "#wrong", "status",
)  # fmt: skip
PAIR_HEADINGS = ("benchmark", "pairs", "measured", "min", "median", "max", "slow", "#wrong")
EXPECTED_HEADINGS = ("expected (GB/s)", "ratio")
PLACE_HEADINGS = ("time (us)", "algbw (GB/s)", "busbw (GB/s)", "±95 %", "p99 (us)", "#wrong")


def summary_grid(tables: Sequence[Table]) -> Grid:
    """One row a benchmark: what it peaks at, and what a small message takes."""
    return Grid(headings=SUMMARY_HEADINGS, rows=tuple(_summary_row(table) for table in tables))


def _summary_row(table: Table) -> tuple[Cell, ...]:
    points = table.points
    peak = max(points, key=lambda point: point.busbw_gb_per_s)
    smallest = points[0]
    unstable = sum(map(is_unstable, points))
    return (
        Cell(text=table.title),
        Cell(text=f"{format_bytes(smallest.message_bytes)} to {format_bytes(points[-1].message_bytes)}"),
        Cell(text=bandwidth(peak.busbw_gb_per_s), tone="strong"),
        Cell(text=format_bytes(peak.message_bytes)),
        _interval(peak),
        Cell(text=format_seconds(smallest.seconds.median)),
        _interval(smallest),
        Cell(text=f"{unstable} of {len(points)}" if unstable else "none", tone="warn" if unstable else ""),
        _wrong_total(points),
        Cell(text=table.status, tone="" if table.status == "complete" else "bad"),
    )


def _wrong_total(points: Sequence[Point]) -> Cell:
    wrong = sum(point.wrong_elements for point in points)
    if wrong:
        return Cell(text=str(wrong), tone="bad")
    return Cell(text="not checked" if any(point.verified is None for point in points) else "0")


def table_grid(table: Table) -> Grid:
    """Every size: nccl-tests' columns, a group a place; what is expected beside it where anything is."""
    place_headings = PLACE_HEADINGS + (EXPECTED_HEADINGS if table.has_expected else ())
    groups = (("", 2), *((place, len(place_headings)) for place in table.places))
    rows = (
        (
            Cell(text=format_bytes(row.message_bytes)),
            Cell(text=str(row.element_count)),
            *_place_cells(row.places, table),
        )
        for row in table.rows
    )
    headings = ("size (B)", "count", *place_headings * len(table.places))
    return Grid(headings=headings, rows=tuple(rows), groups=groups)


def _place_cells(places: Sequence[Point | None], table: Table) -> Iterator[Cell]:
    for point in places:
        if point is None:
            yield from (Cell(text="-"),) * (len(PLACE_HEADINGS) + len(EXPECTED_HEADINGS) * table.has_expected)
            continue
        yield Cell(text=microseconds(point.seconds.median))
        yield Cell(text=bandwidth(point.algbw_gb_per_s))
        yield Cell(text=bandwidth(point.busbw_gb_per_s), tone="strong")
        yield _interval(point)
        yield Cell(text=microseconds(point.seconds.p99))
        yield _wrong(point)
        if table.has_expected:
            yield from _expected(point)


def _expected(point: Point) -> Iterator[Cell]:
    known = point.expected.bus_gb_per_s if point.expected else None
    yield Cell(text="-" if known is None else bandwidth(known))
    yield Cell(text=point.expected_text or "-")


def _wrong(point: Point) -> Cell:
    if point.verified is None:
        return Cell(text="N/A")
    return Cell(text=str(point.wrong_elements), tone="bad" if point.wrong_elements else "")


def _interval(point: Point) -> Cell:
    text = percent(interval_half_width(point))
    return Cell(text=f"~ {text}", tone="warn") if is_unstable(point) else Cell(text=text)


def pairs_grid(titled: Iterable[tuple[str, PairMatrix]]) -> Grid:
    """A row a matrix and kind of pair: how many, how fast, how many of them slow."""
    rows = (row for title, matrix in titled for row in _kind_rows(title, matrix))
    return Grid(headings=PAIR_HEADINGS, rows=tuple(rows))


def _kind_rows(title: str, matrix: PairMatrix) -> Iterator[tuple[Cell, ...]]:
    for name, between in (("within a node", False), ("between nodes", True)):
        pairs = [pair for pair in matrix.ranked if pair.between_nodes == between]
        if pairs:
            speeds = [pair.point.algbw_gb_per_s for pair in pairs]
            slow = sum(pair.is_slow for pair in pairs)
            yield (
                Cell(text=title),
                Cell(text=name),
                Cell(text=f"{len(pairs):,}"),
                Cell(text=bandwidth(min(speeds))),
                Cell(text=bandwidth(median(speeds)), tone="strong"),
                Cell(text=bandwidth(max(speeds))),
                Cell(text=f"{slow:,}", tone="bad" if slow else ""),
                _wrong_total([pair.point for pair in pairs]),
            )


def pair_grid(matrix: PairMatrix) -> Grid:
    """The slowest pairs against the median of their kind."""
    ranked = ranked_pairs(matrix)
    shown = min(MOST_PAIRS, max(LEAST_PAIRS, sum(pair.is_slow for pair in ranked)))
    rows = (_pair_row(pair) for pair in ranked[:shown])
    return Grid(headings=("from", "to", "GB/s", "of the median", "kind"), rows=tuple(rows))


def pair_caption(matrix: PairMatrix, shown: int) -> str:
    """What the grid holds, and where the pairs are that it does not."""
    slow, measured = sum(pair.is_slow for pair in matrix.ranked), len(matrix.ranked)
    omitted = f"; the other {measured - shown:,} are in result.json" if measured > shown else ""
    which = f"{shown} of {slow:,} slow pairs" if slow > shown else f"The slowest {shown} of {measured:,} pairs"
    return f"{which}, each against the median of its kind{omitted}"


def _pair_row(pair: SlowPair) -> tuple[Cell, ...]:
    return (
        Cell(text=f"rank {pair.point.source_rank}, {pair.source_node}"),
        Cell(text=f"rank {pair.point.destination_rank}, {pair.destination_node}"),
        Cell(text=bandwidth(pair.point.algbw_gb_per_s), tone="strong"),
        Cell(text=f"{pair.ratio:.2f} x", tone="bad" if pair.is_slow else ""),
        Cell(text="between nodes" if pair.between_nodes else "within a node"),
    )
