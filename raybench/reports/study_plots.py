"""Plots of a study: speedup with the ideal line, efficiency with its threshold, throughput, projection, drift."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.documents.study.network import NetworkAnswer
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.result import StudyResult
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import ModeAnswer, ScalingAnswer, ScalingRow
from raybench.documents.study.sweep import SweepAnswer
from raybench.documents.study.trial import TrialResult
from raybench.reports.figure import legend, named_rows, rows_height, shortened, x_ticks
from raybench.reports.series import plain_log_ticks
from raybench.reports.study_cells import is_narrow
from raybench.reports.study_figure import new_figure
from raybench.reports.svg import PAGE, SERIES, TEXT, Plot, plot_style, render
from raybench.reports.sweep_plots import sweep_plots
from raybench.reports.text import inert
from raybench.stats import median

GOOD_SHARE = 0.75
_MARKERS = "os^DvPX*<h"
_MOST_LABELS = 8
_WIDE_RANGE = 5.0


def study_plots(study: StudyResult) -> tuple[Plot, ...]:
    """The plots of a study; none where nothing was measured."""
    answer = study.answer
    with plot_style():
        if isinstance(answer, NetworkAnswer):
            drawn = list(_network_plots(answer, study))
        elif isinstance(answer, ScalingAnswer):
            drawn = [plot for mode in answer.modes if mode.rows for plot in _scaling_plots(mode, study)]
        else:
            swept = sweep_plots(answer, study) if isinstance(answer, SweepAnswer) else ()
            drawn = [*swept, *_throughput_plots(answer.rows, study)]
        return (*drawn, *_drift_plot(study))


def _error(ratios: Sequence[Ratio]) -> list[list[float]]:
    """Distances from each ratio to the ends of its interval, as errorbar wants them; none where that says nothing."""
    return [list(side) for side in zip(*map(_distances, ratios), strict=True)]


def _distances(ratio: Ratio) -> tuple[float, float]:
    if ratio.low is None or ratio.high is None or not is_narrow(ratio):
        return 0.0, 0.0
    return ratio.value - ratio.low, ratio.high - ratio.value


def _scaling_plots(mode: ModeAnswer, study: StudyResult) -> Iterator[Plot]:
    rows = [row for row in mode.rows if row.speedup]
    if rows:
        yield _speedup_plot(mode, rows, study)
        yield _efficiency_plot(mode, rows, study)
        yield _scaling_throughput_plot(mode, rows, study)
    if mode.projections:
        yield _projection_plot(mode, rows, study)


def _speedup_plot(mode: ModeAnswer, rows: Sequence[ScalingRow], study: StudyResult) -> Plot:
    figure, axes = new_figure(study, x_label="nodes", y_label="speedup")
    nodes, base = [row.nodes for row in rows], mode.base_nodes
    ratios = [row.speedup for row in rows if row.speedup]
    speedups = [ratio.value for ratio in ratios]
    axes.plot(nodes, [count / base for count in nodes], "--", color=TEXT, linewidth=1, label="ideal (linear)")
    style: Any = {"color": SERIES[0], "marker": "o", "linewidth": 1.6, "capsize": 3, "label": "measured"}
    axes.errorbar(nodes, speedups, yerr=_error(ratios), **style)
    x_ticks(axes, nodes, [str(count) for count in nodes])
    axes.set_ylim(bottom=0)
    legend(figure)
    told = ", ".join(f"{speedup:.2f}x on {count}" for speedup, count in zip(speedups, nodes, strict=True))
    return render(
        figure,
        name=f"speedup-{mode.mode}",
        title=f"Speedup, {mode.mode} scaling",
        description=f"{told} nodes. Bars: 95 % interval over repeats.",
        caption="Throughput over that of the fewest nodes. Bars: 95 % interval over repeats. Dashed: ideal.",
    )


def _efficiency_plot(mode: ModeAnswer, rows: Sequence[ScalingRow], study: StudyResult) -> Plot:
    figure, axes = new_figure(study, x_label="nodes", y_label="efficiency (%)")
    names = [str(row.nodes) for row in rows]
    ratios = [row.efficiency for row in rows if row.efficiency]
    shares = [100 * ratio.value for ratio in ratios]
    errors = [[100 * end for end in side] for side in _error(ratios)]
    colours = [SERIES[2] if share >= 100 * GOOD_SHARE else SERIES[1] for share in shares]
    axes.bar(names, shares, color=colours, width=0.6, yerr=errors, capsize=3, ecolor=TEXT)
    axes.axhline(100 * GOOD_SHARE, color=TEXT, linestyle="--", linewidth=1, label=f"{GOOD_SHARE:.0%} threshold")
    axes.set_ylim(0, max(105, *shares))
    legend(figure)
    told = ", ".join(f"{share:.0f} % on {name}" for name, share in zip(names, shares, strict=True))
    return render(
        figure,
        name=f"efficiency-{mode.mode}",
        title=f"Efficiency, {mode.mode} scaling",
        description=f"{told} nodes; threshold {GOOD_SHARE:.0%}.",
        caption="Share of the ideal throughput. Bars: 95 % interval over repeats. Above 75 % is good over nodes.",
    )


def _scaling_throughput_plot(mode: ModeAnswer, rows: Sequence[ScalingRow], study: StudyResult) -> Plot:
    figure, axes = new_figure(study, x_label="nodes", y_label="samples/s")
    nodes = [row.nodes for row in rows]
    rates = [row.samples_per_s or 0.0 for row in rows]
    axes.plot(nodes, rates, marker="o", color=SERIES[0], label="measured")
    ideal = [rates[0] * count / nodes[0] for count in nodes]
    axes.plot(nodes, ideal, "--", color=TEXT, linewidth=1, label="ideal (linear)")
    x_ticks(axes, nodes, [str(count) for count in nodes])
    axes.set_ylim(bottom=0)
    legend(figure)
    told = ", ".join(f"{rate:.1f} on {count}" for rate, count in zip(rates, nodes, strict=True))
    return render(
        figure,
        name=f"throughput-{mode.mode}",
        title=f"Throughput, {mode.mode} scaling",
        description=f"Samples a second: {told} nodes.",
        caption="Samples a second of all ranks, medians over repeats.",
    )


def _projection_plot(mode: ModeAnswer, rows: Sequence[ScalingRow], study: StudyResult) -> Plot:
    ahead = mode.projections
    nodes = [one.nodes for one in ahead]
    unit, scale = ("s", 1.0) if ahead[-1].step_seconds >= 1 else ("ms", 1e3)
    figure, axes = new_figure(study, x_label="nodes", y_label=f"time/step ({unit})")
    times = [scale * one.step_seconds for one in ahead]
    last = max(rows, key=lambda row: row.nodes)
    style: Any = {"color": SERIES[1], "linewidth": 1.4, "linestyle": "--", "marker": "s", "mfc": PAGE}
    axes.plot(
        [last.nodes, *nodes], [scale * (last.step_seconds or 0.0), *times], label="PROJECTION, not measured", **style
    )
    ends = [(scale * one.low_seconds, scale * one.high_seconds) for one in ahead]
    axes.fill_between(nodes, *zip(*ends, strict=True), color=SERIES[1], alpha=0.2, linewidth=0)
    measured = [scale * (row.step_seconds or 0.0) for row in rows]
    axes.plot([row.nodes for row in rows], measured, marker="o", color=SERIES[0], label="measured")
    axes.set_xscale("log", base=2)
    if max(high for _, high in ends) > _WIDE_RANGE * min(measured):
        axes.set_yscale("log")
        plain_log_ticks(axes)
    else:
        axes.set_ylim(bottom=0)
    ticks = sorted({*(row.nodes for row in rows), *nodes})
    x_ticks(axes, ticks, [str(tick) for tick in ticks], logarithmic=True)
    legend(figure)
    return render(
        figure,
        name=f"projection-{mode.mode}",
        title=f"PROJECTION to {nodes[-1]} nodes, {mode.mode} scaling",
        description=f"Projected step time on {nodes[-1]} nodes: {times[-1]:.3g} {unit}. Not measured.",
        caption=f"Dashed and hollow: a projection of the fit, not measured; shaded: 90 % of resampled fits. "
        f"{inert(ahead[-1].caveat)}",
    )


def _network_plots(answer: NetworkAnswer, study: StudyResult) -> Iterator[Plot]:
    shown = answer.speedups[:_MOST_LABELS]
    if not shown:
        return
    label = f"speedup over {shortened(answer.baseline)}"
    figure, axes = new_figure(study, x_label=label, y_label="", height=rows_height(len(shown)))
    values = [row.ratio.value for row in shown]
    positions = named_rows(axes, [f"{row.network}, {row.label}" for row in shown])
    errors = _error([row.ratio for row in shown])
    axes.barh(positions, values, color=SERIES[0], height=0.55, xerr=errors, capsize=3, ecolor=TEXT)
    axes.axvline(answer.worth_it_above, color=TEXT, linestyle="--", linewidth=1, label="worth it above")
    legend(figure)
    told = ", ".join(f"{row.network} {row.ratio.value:.2f}x ({row.label})" for row in shown)
    left_out = len(answer.speedups) - len(shown)
    caption = "Speedup of each figure; lines: 95 % interval over repeats. Dashed: the bound above which it is worth it."
    caption += f" {left_out} more are in the table." if left_out else ""
    yield render(figure, name="network", title="Speedup by network", description=inert(told), caption=caption)


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
            told = ", ".join(inert(f"{row.variant} {number:.4g} {unit}") for row, number in pairs)
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
