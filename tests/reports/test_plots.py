"""Plots of training, memory and checkpoints: what they say, and that their labels leave each other room."""

import re
from itertools import pairwise
from typing import Any

import pytest

from raybench.reports.html import render_html
from raybench.reports.plots import figure as figures
from raybench.reports.plots.svg import Plot, plot_style
from raybench.reports.plots.training import MOST_DRAWN, training_plots
from raybench.reports.workloads.table import workload_plots

from .gallery import checkpoint_run, memory_run, training_run
from .sample import run_result
from .test_summary import benchmark, trained


def plots(result: Any) -> dict[str, Plot]:
    return {plot.name: plot for plot in workload_plots(result.benchmarks, emulated=False)["Plots"]}


def test_a_training_has_loss_step_time_and_phases() -> None:
    drawn = plots(training_run())
    assert list(drawn) == ["loss", "step-time", "phases"]
    assert all(f">{label}</text>" in drawn["loss"].svg for label in ("loss", "step", "ddp gpt2"))
    assert ">step time (ms)</text>" in drawn["step-time"].svg
    assert "from the fastest to the slowest rank" in drawn["step-time"].caption
    assert (
        "ddp gpt2: data 2%, forward 30%, backward 45%, gradient sync 15%, optimizer 5%, other"
        in drawn["phases"].caption
    )
    assert ">mean time of a step (ms)</text>" in drawn["phases"].svg


def test_a_memory_benchmark_has_its_parts_its_estimate_and_its_limit() -> None:
    drawn = plots(memory_run())
    assert list(drawn) == ["memory-0", "memory-1"]
    gpu, cpu = drawn.values()
    for part in ("parameters", "gradients", "optimizer state", "activations", "limit 80 GiB", "batch a rank"):
        assert f">{part}</text>" in gpu.svg
    assert "hollow: estimate" in gpu.caption
    assert re.search(r"limit 24 GiB: \d+ x the highest bar", cpu.svg)  # off the scale, and said to be


def test_a_checkpoint_has_blocked_beside_durable_and_rates_of_a_rank() -> None:
    drawn = plots(checkpoint_run())
    assert list(drawn) == ["checkpoint-times", "checkpoint-rates"]
    times, rates = drawn.values()
    assert ">blocked</text>" in times.svg
    assert ">durable</text>" in times.svg
    assert ">time of a save (s)</text>" in times.svg
    assert ">GB/s a rank</text>" in rates.svg
    assert "1 place without a figure: see the table" in times.caption


def test_what_was_not_measured_has_no_plot() -> None:
    short = trained("ddp", 0.1, launches=((0.1,),), losses=(8.5,), phases={})
    assert plots(run_result(benchmark(short))) == {}
    assert plots(run_result(benchmark(trained("ddp", 0.1, losses=(float("nan"),) * 3)))).keys() == {
        "step-time",
        "phases",
    }


def test_many_steps_are_drawn_as_means_and_said_to_be() -> None:
    many = trained("ddp", 0.1, launches=((0.1,) * 10_000,), losses=tuple(float(step) for step in range(10_000)))
    with plot_style():
        loss, time, _ = training_plots([many], emulated=False)
    assert "Each point is the mean of 25 steps." in loss.caption
    assert len(loss.svg) < 60_000
    assert MOST_DRAWN == 400
    assert "from the fastest" not in time.caption  # no rank's own times were kept


def test_colours_of_every_mark_follow_the_page() -> None:
    for result in (training_run(), memory_run(), checkpoint_run()):
        assert not re.search("#0a0[bc]", render_html(result))


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize(
    "values",
    [[1, 2, 4, 8, 16, 24, 28, 30, 31, 32], [1, 2, 3, 4, 8, 16, 64, 1000], [8 * 2**power for power in range(25)]],
)
def test_labels_of_ticks_leave_each_other_room(values: list[int], logarithmic: bool) -> None:
    """Extents as matplotlib draws them: no label begins before the one on its left has ended."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with plot_style():
        figure, axes = figures.new_figure(x_label="x", y_label="y", emulated=False)
        axes.plot(values, values)
        if logarithmic:
            axes.set_xscale("log", base=2)
        figures.x_ticks(axes, values, [str(value) for value in values], logarithmic=logarithmic)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        labels = [label for label in axes.get_xticklabels() if label.get_text()]
        extents = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    assert labels[-1].get_text() == str(values[-1])
    assert all(left.x1 < right.x0 for left, right in pairwise(extents))
