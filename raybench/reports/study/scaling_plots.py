"""Plots of a scaling study: speedup with the ideal line, efficiency with its threshold, throughput, projection."""

from collections.abc import Iterator, Sequence
from typing import Any

from raybench.documents.study.result import StudyResult
from raybench.documents.study.scaling import ModeAnswer, ScalingRow
from raybench.reports.plots.figure import legend, x_ticks
from raybench.reports.plots.series import plain_log_ticks
from raybench.reports.plots.svg import PAGE, SERIES, TEXT, Plot, render
from raybench.reports.study.figure import interval_bars, new_figure
from raybench.reports.text import printable

GOOD_SHARE = 0.75
_WIDE_RANGE = 5.0


def scaling_plots(mode: ModeAnswer, study: StudyResult) -> Iterator[Plot]:
    """The plots of one mode; none where no speedup is known and nothing is projected."""
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
    axes.errorbar(nodes, speedups, yerr=interval_bars(ratios), **style)
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
    errors = [[100 * end for end in side] for side in interval_bars(ratios)]
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
        f"{printable(ahead[-1].caveat)}",
    )
