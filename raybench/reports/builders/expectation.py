"""The bandwidth that a healthy system reaches, for a terminal. Pure."""

from raybench.documents.expectation import ExpectedBandwidth
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Cell, Grid, Report, Table, notes_of
from raybench.units import format_bytes

# Smaller messages over nodes: the median error on published systems that were left out of the fit is 13 % from 16 MiB
# on and 55 % below, nine tenths are within a factor 3 (docs/methods.md).
_STEADY_BYTES = 256 * 2**20


def expected_tables(expected: ExpectedBandwidth, _: Asked) -> Report:
    """The report. It has a verdict where nothing is known."""
    name = f"raybench expected {expected.operation}"
    last = expected.points[-1] if expected.points else None
    rows = tuple(
        (Cell(text=format_bytes(one.message_bytes)), Cell(text=f"{one.busbw_gb_per_s:.1f}")) for one in expected.points
    )
    limit = last.limit if last else None
    notes = [] if limit is None else [f"large messages are slow below {limit:.0%} of it"]
    if any(one.message_bytes < _STEADY_BYTES for one in expected.points):
        notes.append(
            f"below {format_bytes(_STEADY_BYTES)} healthy systems differ by half and more: nothing is judged by it"
        )
    return Report(
        name=f"{name}: {last.basis}" if last else name,
        title=name,
        verdict=expected.verdict or "",
        reason=expected.unknown or ("no figure is known" if last is None else ""),
        lead="",
        when="",
        blocks=(Table(grid=Grid(headings=("size", "busbw GB/s"), rows=rows), text_columns=0), *notes_of(notes)),
    )
