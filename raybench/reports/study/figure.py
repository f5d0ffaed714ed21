"""What the plots of a study share: an empty one, stamped where the study was emulated, and the bars of intervals."""

from collections.abc import Sequence
from typing import Any

from raybench.documents.study.ratio import Ratio
from raybench.documents.study.result import StudyResult
from raybench.reports.plots import figure
from raybench.reports.study.cells import is_narrow


def new_figure(
    study: StudyResult, *, x_label: str, y_label: str, height: float = figure.HEIGHT_INCHES
) -> tuple[Any, Any]:
    """A figure and its axes."""
    return figure.new_figure(x_label=x_label, y_label=y_label, emulated=bool(study.emulated), height=height)


def interval_bars(ratios: Sequence[Ratio]) -> list[list[float]]:
    """Distances from each ratio to the ends of its interval, as errorbar wants them; none where that says nothing."""
    return [list(side) for side in zip(*map(_distances, ratios), strict=True)]


def _distances(ratio: Ratio) -> tuple[float, float]:
    if ratio.low is None or ratio.high is None or not is_narrow(ratio):
        return 0.0, 0.0
    return ratio.value - ratio.low, ratio.high - ratio.value
