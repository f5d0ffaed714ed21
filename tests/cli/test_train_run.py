"""A real ``raybench train`` of two strategies, as a user sees it: files, tables, and what was sent."""

import csv
import json

import pytest

from tests.command import started

pytestmark = pytest.mark.cluster


def test_two_emulated_nodes_train() -> None:
    options = ["--strategy", "ddp,fsdp", "--sequence-length", "16", "--batch-size", "2", "--steps", "4"]
    with started("train", "--nodes", "2", "--address", "local", *options, "--overlap-steps", "1", "--full") as run:
        assert run.finish(240) == 0, run.errors
        result, shown = run.result(), run.out
        (folder,) = run.run_folders
        report, journal = (folder / "report.html").read_text(), (folder / "samples.jsonl").read_text()
        rows = list(csv.DictReader((folder / "result.csv").open()))
    assert [one["kind"] for one in result["benchmarks"]] == ["training", "training"]
    for benchmark in result["benchmarks"]:
        (point,) = benchmark["points"]
        assert point["verified"] is True
        assert point["samples_per_s"] == pytest.approx(point["global_batch_size"] / point["seconds"]["mean"])
        assert point["communication"]["wire_bytes_per_rank"] == pytest.approx(
            point["communication"]["expected_bytes_per_rank"], rel=0.01
        )
    assert "gradient sync" in shown
    assert "Phases of a step" in report
    points = [json.loads(line) for line in journal.splitlines()]  # parts too, where steps take seconds
    assert [sorted(point["ranks"]) for point in points if "interim" not in point] == [["0", "1"], ["0", "1"]]
    assert [(row["benchmark"], row["kind"]) for row in rows] == [("ddp", "training"), ("fsdp", "training")]
    assert all(float(row["samples_per_s"]) > 0 and row["verified"] == "true" for row in rows)
