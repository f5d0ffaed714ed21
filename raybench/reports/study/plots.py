"""Plots of a study: speedup by network, throughput and memory, drift; those of one kind stand by themselves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.documents.study.network import NetworkAnswer
from raybench.documents.study.result import StudyResult
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import ScalingAnswer
from raybench.documents.study.sweep import SweepAnswer
from raybench.documents.study.trial import TrialResult
from raybench.reports.plots.figure import legend, named_rows, rows_height, shortened, x_ticks
from raybench.reports.plots.svg import SERIES, TEXT, Plot, plot_style, render
from raybench.reports.study.figure import interval_bars, new_figure
from raybench.reports.study.scaling_plots import scaling_plots
from raybench.reports.study.sweep_plots import sweep_plots
from raybench.reports.text import printable
from raybench.stats import median

_MARKERS = "os^DvPX*<h"
_MOST_LABELS = 8


def study_plots(study: StudyResult) -> tuple[Plot, ...]:
    """The plots of a study; none where nothing was measured."""
    answer = study.answer
    with plot_style():
        if isinstance(answer, NetworkAnswer):
            drawn = list(_network_plots(answer, study))
        elif isinstance(answer, ScalingAnswer):
            drawn = [plot for mode in answer.modes if mode.rows for plot in scaling_plots(mode, study)]
        else:
            swept = sweep_plots(answer, study) if isinstance(answer, SweepAnswer) else ()
            drawn = [*swept, *_throughput_plots(answer.rows, study)]
        return (*drawn, *_drift_plot(study))


def _network_plots(answer: NetworkAnswer, study: StudyResult) -> Iterator[Plot]:
    shown = answer.speedups[:_MOST_LABELS]
    if not shown:
        return
    label = f"speedup over {shortened(answer.baseline)}"
    figure, axes = new_figure(study, x_label=label, y_label="", height=rows_height(len(shown)))
    values = [row.ratio.value for row in shown]
    positions = named_rows(axes, [f"{row.network}, {row.label}" for row in shown])
    errors = interval_bars([row.ratio for row in shown])
    axes.barh(positions, values, color=SERIES[0], height=0.55, xerr=errors, capsize=3, ecolor=TEXT)
    axes.axvline(answer.worth_it_above, color=TEXT, linestyle="--", linewidth=1, label="worth it above")
    legend(figure)
    told = ", ".join(f"{row.network} {row.ratio.value:.2f}x ({row.label})" for row in shown)
    omitted = len(answer.speedups) - len(shown)
    caption = "Speedup of each figure; lines: 95 % interval over repeats. Dashed: the bound above which it is worth it."
    caption += f" {omitted} more are in the table." if omitted else ""
    yield render(figure, name="network", title="Speedup by network", description=printable(told), caption=caption)


def _throughput_plots(rows: Sequence[TrainingRow], study: StudyResult) -> Iterator[Plot]:
    measured = [row for row in rows if row.samples_per_s]
    whose = " of the process (RSS)" if any(row.memory_kind == "rss" for row in measured) else ""
    rates = [row.samples_per_s or 0.0 for row in measured]
    peaks = [(row.memory_bytes or 0) / 2**30 for row in measured]
    figures = (
        ("throughput", "Throughput", "samples/s", rates, SERIES[0]),
        ("memory", f"Peak memory{whose}", "GiB", peaks, SERIES[3]),
    )
    for name, title, unit, values, colour in figures:
        if any(values):
            height = rows_height(len(measured))
            figure, axes = new_figure(study, x_label=f"{title} ({unit})", y_label="", height=height)
            axes.barh(named_rows(axes, [row.variant for row in measured]), values, color=colour, height=0.55)
            pairs = zip(measured, values, strict=True)
            told = ", ".join(printable(f"{row.variant} {number:.4g} {unit}") for row, number in pairs)
            caption = "Medians over repeats."
            yield render(figure, name=name, title=title, description=told, caption=caption)


def _drift_plot(study: StudyResult) -> Iterator[Plot]:
    """Each trial against the median of its variant, in the order of doing."""
    trials = [trial for trial in study.trials if trial.measured]
    groups: dict[str, list[TrialResult]] = {}
    for trial in trials:
        groups.setdefault(trial.trial.variant, []).append(trial)
    if not any(len(group) > 1 for group in groups.values()):
        return
    figure, axes = new_figure(study, x_label="trial, in the order of doing", y_label="time against its median (%)")
    for number, (name, group) in enumerate(groups.items()):
        look: Mapping[str, Any] = {"color": SERIES[number % 10], "marker": _MARKERS[number % 10], "linestyle": "none"}
        axes.plot([trial.trial.number for trial in group], _changes(group), label=shortened(name), **look)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    numbers = sorted(trial.trial.number for trial in trials)
    x_ticks(axes, numbers, list(map(str, numbers)))
    legend(figure)
    worst = max(abs(change) for group in groups.values() for change in _changes(group))
    text = f"A slope would be drift. Trials are at most {worst:.1f} % off the median of their variant."
    yield render(figure, name="drift", title="Trials in the order of doing", description=text, caption=text)


def _changes(group: Sequence[TrialResult]) -> list[float]:
    times = [trial.measured[0].seconds for trial in group]
    middle = median(times)
    return [100 * (time / middle - 1) for time in times]
