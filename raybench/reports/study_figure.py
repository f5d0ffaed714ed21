"""An empty plot of a study, stamped where the study was emulated."""

from typing import Any

from raybench.reports import figure
from raybench.reports.study_cells import Json


def new_figure(content: Json, *, x_label: str, y_label: str, height: float = figure.HEIGHT_INCHES) -> tuple[Any, Any]:
    """A figure and its axes."""
    return figure.new_figure(x_label=x_label, y_label=y_label, emulated=bool(content["emulated"]), height=height)
