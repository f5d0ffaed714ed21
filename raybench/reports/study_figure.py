"""An empty plot of a study, stamped where the study was emulated."""

from typing import Any

from raybench.documents.study.result import StudyResult
from raybench.reports import figure


def new_figure(
    study: StudyResult, *, x_label: str, y_label: str, height: float = figure.HEIGHT_INCHES
) -> tuple[Any, Any]:
    """A figure and its axes."""
    return figure.new_figure(x_label=x_label, y_label=y_label, emulated=bool(study.emulated), height=height)
