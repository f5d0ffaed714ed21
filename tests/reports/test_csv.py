"""CSV that reads back, and that a spreadsheet does not run."""

import csv
from pathlib import Path

import pytest

from raybench.documents.run.result import RunResult
from raybench.reports.csv import HEADER, write_csv

from .sample import cluster, pairs, point, run_result, sweep


def rows(result: RunResult, folder: Path) -> list[dict[str, str]]:
    path = folder / "points.csv"
    write_csv(result, path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_figures_read_back(tmp_path: Path) -> None:
    benchmark = sweep()
    read = rows(run_result(benchmark, cluster=cluster(emulated=True)), tmp_path)
    assert tuple(read[0]) == HEADER
    assert len(read) == 25
    for row, measured in zip(read, benchmark.points, strict=True):
        assert int(row["message_bytes"]) == measured.message_bytes
        assert float(row["median_us"]) == pytest.approx(measured.seconds.median * 1e6, rel=1e-8)
        assert float(row["busbw_gb_per_s"]) == pytest.approx(measured.busbw_gb_per_s, rel=1e-8)
        assert float(row["ci95_low_us"]) <= float(row["median_us"]) <= float(row["ci95_high_us"])
    assert {row["emulated"] for row in read} == {"true"}
    assert {(row["in_place"], row["dtype"], row["root"]) for row in read} == {("false", "float32", "")}


def test_header_is_stable() -> None:
    assert HEADER[:4] == ("run_id", "benchmark", "kind", "status")
    assert {"message_bytes", "median_us", "p99_us", "busbw_gb_per_s", "wrong_elements"} <= set(HEADER)


def test_pairs_name_both_ends(tmp_path: Path) -> None:
    read = rows(run_result(pairs(2, per_node=1)), tmp_path)
    assert [(row["source_rank"], row["destination_rank"]) for row in read] == [("0", "1"), ("1", "0")]
    assert {(row["ci95_low_us"], row["ci95_high_us"]) for row in read} == {("", "")}  # null in result.json


def test_a_benchmark_without_points_keeps_its_reason(tmp_path: Path) -> None:
    (row,) = rows(run_result(sweep(points=(), status="skipped", reason="no such operation")), tmp_path)
    assert (row["status"], row["warnings"], row["median_us"]) == ("skipped", "no such operation", "")


def test_unchecked_is_empty_not_zero(tmp_path: Path) -> None:
    (row,) = rows(run_result(sweep(points=(point(64, verified=None),))), tmp_path)
    assert (row["verified"], row["wrong_elements"]) == ("", "")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =cmd|' /C calc'!A0", "\r\n=1"])
def test_text_cannot_become_a_formula(tmp_path: Path, text: str) -> None:
    for row in rows(run_result(sweep(text, points=(point(64),), reason=text), run_id=text), tmp_path):
        assert row["benchmark"].startswith("'")
        assert row["run_id"].startswith("'")


def test_line_breaks_stay_inside_one_row(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    write_csv(run_result(sweep("a\nb", points=(point(64),))), path)
    assert len(path.read_text().splitlines()) == 2
