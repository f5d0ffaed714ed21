"""Nodes over time in a report: the worst as lines, the rest as a band, the same as a table; nothing without samples."""

import csv
import io
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import raybench
from raybench.cli.show import command as show
from raybench.documents.run.node_samples import SampleSource
from raybench.documents.run.result import RunResult
from raybench.reports.formats import FORMATS
from raybench.reports.samples import samples_view
from tests.timeline.cluster import FAULTY, HOT, sampled_run
from tests.timeline.streams import kept, sampled, samples_of


@pytest.fixture(scope="module")
def run() -> RunResult:
    return sampled_run()


def test_the_worst_node_of_a_measure_comes_first_and_the_others_are_a_band(run: RunResult) -> None:
    figures = raybench.figures(run)
    (axes,) = figures["samples-gpu"].axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels[0] == f"node-{HOT}"
    assert labels[-1] == "8 others"
    assert len(labels) == 5
    assert [text.get_text() for text in axes.texts] == ["all_reduce", "all_reduce", "ddp"]


def test_what_was_measured_before_or_after_the_samples_takes_no_room(run: RunResult) -> None:
    """Bars beyond the axis left no room for the axes: matplotlib warned, and drew a figure of labels."""
    short = samples_of(sampled("node-0", {"gpu/0/utilization_percent": [5.0, 7.0, 9.0]}, begin=22.0))
    figure = raybench.figures(replace(run, node_samples=short))["samples-gpu"]
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == []
    assert all(21 < at < 25 for line in axes.lines for at in line.get_xdata())


def test_the_table_has_nodes_with_errors_first(run: RunResult) -> None:
    assert run.node_samples is not None
    rows = [[cell.text for cell in row] for row in samples_view(run.node_samples).grid.rows]
    assert [row[0] for row in rows[:2]] == [f"node-{FAULTY}", f"node-{HOT}"]
    assert (rows[0][5], rows[1][6]) == ("4,100", "28")


@pytest.mark.parametrize("name", ["html", "markdown"])
def test_every_format_says_what_is_not_known_of_the_samples(run: RunResult, name: str) -> None:
    assert run.node_samples is not None
    first, *rest = run.node_samples.nodes
    silent = replace(first, sources=(SampleSource(name="nvml", available=False, reason="no <driver>"),))
    text = FORMATS[name].render(replace(run, node_samples=replace(run.node_samples, nodes=(silent, *rest))))
    assert "Not sampled on 1 node" in text
    assert "<driver>" not in text
    assert "memory-grows-by-step cannot tell" in text


def test_merged_samples_say_their_resolution() -> None:
    source = random.Random(1)
    node = kept({"gpu/0/utilization_percent": [source.randrange(100) for _ in range(3000)]}, most_text=2000)
    view = samples_view(samples_of(node))
    assert f"merged, by up to {node.merged}" in view.notes[0]
    assert f"{node.rows} of {node.merged:.1f} s" in [cell.text for cell in view.grid.rows[0]]


def test_a_run_without_samples_says_nothing_of_nodes_over_time(run: RunResult) -> None:
    bare = replace(run, node_samples=None)
    assert all("Nodes over time" not in one.render(bare) for one in FORMATS.values())


def test_show_finds_the_samples_beside_the_result(run: RunResult, tmp_path: Path) -> None:
    assert run.node_samples is not None
    (tmp_path / "result.json").write_text(json.dumps(run.to_json()))
    samples = tmp_path / "node_samples.json"
    samples.write_text(json.dumps(run.node_samples.to_json()))
    shown = CliRunner().invoke(show, [str(tmp_path), "--format", "markdown"])
    assert "Nodes over time" in shown.output
    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(show, [str(samples), "--format", "csv"]).output)))
    assert len(rows) == sum(90 * len(node.series) for node in run.node_samples.nodes)
    errors = [row for row in rows if row["series"] == "port/mlx5_1:1/symbol_errors" and row["node"] == f"node-{FAULTY}"]
    assert (errors[-1]["seconds"], errors[-1]["value"]) == ("89.0", "4100")
    samples.write_text("{}")
    damaged = CliRunner().invoke(show, [str(tmp_path)])
    assert damaged.exit_code == 0
    assert "shown without the samples of its nodes" in damaged.output
