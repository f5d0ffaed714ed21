"""What a program or a notebook wants of a report: its figures as matplotlib's own."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.errors import MissingLibraryError
from raybench.reports.builders.asked import Asked, has_matplotlib, how_to_install
from raybench.reports.builders.table import report_of
from raybench.reports.model import Block, Details, Figure, Finding
from raybench.reports.plots.svg import Plot


def figures_of(document: Any) -> dict[str, Any]:
    """The report's figures by their names, each a matplotlib Figure. Raises MissingLibraryError without matplotlib."""
    if not has_matplotlib():
        raise MissingLibraryError(f"figures need matplotlib, which is not installed: {how_to_install()}")
    from raybench.reports.plots.colours import with_colours  # only with matplotlib

    plots = _plots(report_of(document, Asked(figures=True)).blocks)
    return {plot.name: with_colours(plot.figure) for plot in plots}


def _plots(blocks: Sequence[Block]) -> Iterator[Plot]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block.plot
        elif isinstance(block, Details | Finding):
            yield from _plots(block.blocks)
