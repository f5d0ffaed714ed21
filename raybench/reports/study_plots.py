"""Plots of a study: speedup with the ideal line, efficiency with its threshold, throughput, projection, drift."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.reports.figure import legend, named_rows, rows_height, shortened, x_ticks
from raybench.reports.series import plain_log_ticks
from raybench.reports.study_cells import Json, is_narrow
from raybench.reports.study_figure import new_figure
from raybench.reports.svg import PAGE, SERIES, TEXT, Plot, plot_style, render
from raybench.reports.sweep_plots import sweep_plots
from raybench.reports.text import inert
from raybench.stats import median

GOOD_SHARE = 0.75
_MARKERS = "os^DvPX*<h"
_MOST_LABELS = 8
_WIDE_RANGE = 5.0


def study_plots(content: Json) -> tuple[Plot, ...]:
    """The plots of a study; none where nothing was measured."""
    answer = content["answer"]
    with plot_style():
        if content["kind"] == "network":
            drawn = list(_network_plots(answer, content))
        elif content["kind"] == "scaling":
            drawn = [plot for mode in answer["modes"] if mode["rows"] for plot in _scaling_plots(mode, content)]
        else:
            drawn = [*sweep_plots(content), *_throughput_plots(answer["rows"], content)]
        return (*drawn, *_drift_plot(content))


def _error(rows: Sequence[Json]) -> list[list[float]]:
    """Distances from each ratio to the ends of its interval, as errorbar wants them; none where that says nothing."""
    ends = [(row["value"] - row["low"], row["high"] - row["value"]) if is_narrow(row) else (0.0, 0.0) for row in rows]
    return [list(side) for side in zip(*ends, strict=True)]


def _scaling_plots(mode: Json, content: Json) -> Iterator[Plot]:
    rows = [row for row in mode["rows"] if row["speedup"]]
    if rows:
        yield _speedup_plot(mode, rows, content)
        yield _efficiency_plot(mode, rows, content)
        yield _scaling_throughput_plot(mode, rows, content)
    if mode["projections"]:
        yield _projection_plot(mode, rows, content)


def _speedup_plot(mode: Json, rows: Sequence[Json], content: Json) -> Plot:
    figure, axes = new_figure(content, x_label="nodes", y_label="speedup")
    nodes, base = [row["nodes"] for row in rows], mode["base_nodes"]
    speedups = [row["speedup"]["value"] for row in rows]
    axes.plot(nodes, [count / base for count in nodes], "--", color=TEXT, linewidth=1, label="ideal (linear)")
    style: Any = {"color": SERIES[0], "marker": "o", "linewidth": 1.6, "capsize": 3, "label": "measured"}
    axes.errorbar(nodes, speedups, yerr=_error([row["speedup"] for row in rows]), **style)
    x_ticks(axes, nodes, [str(count) for count in nodes])
    axes.set_ylim(bottom=0)
    legend(figure)
    told = ", ".join(f"{row['speedup']['value']:.2f}x on {row['nodes']}" for row in rows)
    return render(
        figure,
        name=f"speedup-{mode['mode']}",
        title=f"Speedup, {mode['mode']} scaling",
        description=f"{told} nodes. Bars: 95 % interval over repeats.",
        caption="Throughput over that of the fewest nodes. Bars: 95 % interval over repeats. Dashed: ideal.",
    )


def _efficiency_plot(mode: Json, rows: Sequence[Json], content: Json) -> Plot:
    figure, axes = new_figure(content, x_label="nodes", y_label="efficiency (%)")
    names = [str(row["nodes"]) for row in rows]
    shares = [100 * row["efficiency"]["value"] for row in rows]
    errors = [[100 * end for end in side] for side in _error([row["efficiency"] for row in rows])]
    colours = [SERIES[2] if share >= 100 * GOOD_SHARE else SERIES[1] for share in shares]
    axes.bar(names, shares, color=colours, width=0.6, yerr=errors, capsize=3, ecolor=TEXT)
    axes.axhline(100 * GOOD_SHARE, color=TEXT, linestyle="--", linewidth=1, label=f"{GOOD_SHARE:.0%} threshold")
    axes.set_ylim(0, max(105, *shares))
    legend(figure)
    told = ", ".join(f"{share:.0f} % on {name}" for name, share in zip(names, shares, strict=True))
    return render(
        figure,
        name=f"efficiency-{mode['mode']}",
        title=f"Efficiency, {mode['mode']} scaling",
        description=f"{told} nodes; threshold {GOOD_SHARE:.0%}.",
        caption="Share of the ideal throughput. Bars: 95 % interval over repeats. Above 75 % is good over nodes.",
    )


def _scaling_throughput_plot(mode: Json, rows: Sequence[Json], content: Json) -> Plot:
    figure, axes = new_figure(content, x_label="nodes", y_label="samples/s")
    nodes = [row["nodes"] for row in rows]
    axes.plot(nodes, [row["samples_per_s"] for row in rows], marker="o", color=SERIES[0], label="measured")
    ideal = [rows[0]["samples_per_s"] * count / nodes[0] for count in nodes]
    axes.plot(nodes, ideal, "--", color=TEXT, linewidth=1, label="ideal (linear)")
    x_ticks(axes, nodes, [str(count) for count in nodes])
    axes.set_ylim(bottom=0)
    legend(figure)
    told = ", ".join(f"{row['samples_per_s']:.1f} on {row['nodes']}" for row in rows)
    return render(
        figure,
        name=f"throughput-{mode['mode']}",
        title=f"Throughput, {mode['mode']} scaling",
        description=f"Samples a second: {told} nodes.",
        caption="Samples a second of all ranks, medians over repeats.",
    )


def _projection_plot(mode: Json, rows: Sequence[Json], content: Json) -> Plot:
    ahead = mode["projections"]
    nodes = [one["nodes"] for one in ahead]
    unit, scale = ("s", 1.0) if ahead[-1]["step_seconds"] >= 1 else ("ms", 1e3)
    figure, axes = new_figure(content, x_label="nodes", y_label=f"time/step ({unit})")
    times = [scale * one["step_seconds"] for one in ahead]
    last = max(rows, key=lambda row: row["nodes"])
    style: Any = {"color": SERIES[1], "linewidth": 1.4, "linestyle": "--", "marker": "s", "mfc": PAGE}
    axes.plot(
        [last["nodes"], *nodes], [scale * last["step_seconds"], *times], label="PROJECTION, not measured", **style
    )
    ends = [(scale * one["low_seconds"], scale * one["high_seconds"]) for one in ahead]
    axes.fill_between(nodes, *zip(*ends, strict=True), color=SERIES[1], alpha=0.2, linewidth=0)
    measured = [scale * row["step_seconds"] for row in rows]
    axes.plot([row["nodes"] for row in rows], measured, marker="o", color=SERIES[0], label="measured")
    axes.set_xscale("log", base=2)
    if max(high for _, high in ends) > _WIDE_RANGE * min(measured):
        axes.set_yscale("log")
        plain_log_ticks(axes)
    else:
        axes.set_ylim(bottom=0)
    ticks = sorted({*(row["nodes"] for row in rows), *nodes})
    x_ticks(axes, ticks, [str(tick) for tick in ticks], logarithmic=True)
    legend(figure)
    return render(
        figure,
        name=f"projection-{mode['mode']}",
        title=f"PROJECTION to {nodes[-1]} nodes, {mode['mode']} scaling",
        description=f"Projected step time on {nodes[-1]} nodes: {times[-1]:.3g} {unit}. Not measured.",
        caption=f"Dashed and hollow: a projection of the fit, not measured; shaded: 90 % of resampled fits. "
        f"{inert(ahead[-1]['caveat'])}",
    )


def _network_plots(answer: Json, content: Json) -> Iterator[Plot]:
    shown = answer["speedups"][:_MOST_LABELS]
    if not shown:
        return
    label = f"speedup over {shortened(answer['baseline'])}"
    figure, axes = new_figure(content, x_label=label, y_label="", height=rows_height(len(shown)))
    values = [row["ratio"]["value"] for row in shown]
    positions = named_rows(axes, [f"{row['network']}, {row['label']}" for row in shown])
    errors = _error([row["ratio"] for row in shown])
    axes.barh(positions, values, color=SERIES[0], height=0.55, xerr=errors, capsize=3, ecolor=TEXT)
    axes.axvline(answer["worth_it_above"], color=TEXT, linestyle="--", linewidth=1, label="worth it above")
    legend(figure)
    told = ", ".join(f"{row['network']} {row['ratio']['value']:.2f}x ({row['label']})" for row in shown)
    left_out = len(answer["speedups"]) - len(shown)
    caption = "Speedup of each figure; lines: 95 % interval over repeats. Dashed: the bound above which it is worth it."
    caption += f" {left_out} more are in the table." if left_out else ""
    yield render(figure, name="network", title="Speedup by network", description=inert(told), caption=caption)


def _throughput_plots(rows: Sequence[Json], content: Json) -> Iterator[Plot]:
    measured = [row for row in rows if row["samples_per_s"]]
    whose = " of the process (RSS)" if any(row.get("memory_kind") == "rss" for row in measured) else ""
    figures = (
        ("throughput", "Throughput", "samples/s", "samples_per_s", 1, SERIES[0]),
        ("memory", f"Peak memory{whose}", "GiB", "memory_bytes", 2**30, SERIES[3]),
    )
    for name, title, unit, field, divisor, colour in figures:
        values = [(row[field] or 0) / divisor for row in measured]
        if any(values):
            height = rows_height(len(measured))
            figure, axes = new_figure(content, x_label=f"{title} ({unit})", y_label="", height=height)
            axes.barh(named_rows(axes, [row["variant"] for row in measured]), values, color=colour, height=0.55)
            pairs = zip(measured, values, strict=True)
            told = ", ".join(inert(f"{row['variant']} {number:.4g} {unit}") for row, number in pairs)
            caption = "Medians over repeats."
            yield render(figure, name=name, title=title, description=told, caption=caption)


def _drift_plot(content: Json) -> Iterator[Plot]:
    """Each trial against the median of its variant, in the order of doing."""
    trials = [trial for trial in content["trials"] if trial["measured"]]
    groups: dict[str, list[Json]] = {}
    for trial in trials:
        groups.setdefault(trial["variant"], []).append(trial)
    if not any(len(group) > 1 for group in groups.values()):
        return
    figure, axes = new_figure(content, x_label="trial, in the order of doing", y_label="time against its median (%)")
    for number, (name, group) in enumerate(groups.items()):
        look: Mapping[str, Any] = {"color": SERIES[number % 10], "marker": _MARKERS[number % 10], "linestyle": "none"}
        axes.plot([trial["number"] for trial in group], _changes(group), label=shortened(name), **look)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    numbers = sorted(trial["number"] for trial in trials)
    x_ticks(axes, numbers, list(map(str, numbers)))
    legend(figure)
    worst = max(abs(change) for group in groups.values() for change in _changes(group))
    text = f"A slope would be drift. Trials are at most {worst:.1f} % off the median of their variant."
    yield render(figure, name="drift", title="Trials in the order of doing", description=text, caption=text)


def _changes(group: Sequence[Json]) -> list[float]:
    times = [trial["measured"][0]["seconds"] for trial in group]
    middle = median(times)
    return [100 * (time / middle - 1) for time in times]
