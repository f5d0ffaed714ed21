"""Documents as data frames: the columns that docs/api.md lists, nothing made up, and advice where pandas is missing."""

import builtins
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import raybench
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.figures import Figure, FiguresPoint
from raybench.errors import MissingLibraryError
from tests.documents.mutation import REPORTS, SAMPLES
from tests.reports.gallery import checkpoint_run, memory_run, training_run
from tests.reports.sample import run_result

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def sample(name: str) -> Any:
    return raybench.load(next(path for path in (*SAMPLES, *REPORTS) if path.stem.startswith(name)))


def documented(call: str) -> set[str]:
    """The columns in the rows of the page's table for a call."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{call}`")]
    assert rows, call
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])}


@pytest.mark.parametrize(
    ("call", "frame"),
    [
        ("run.to_dataframe()", run_result().to_dataframe()),
        ('run.to_dataframe("samples")', run_result().to_dataframe("samples")),
        ('study.to_dataframe("trials")', sample("study-network").to_dataframe("trials")),
        ("fabric.to_dataframe()", sample("fabric-5c77f31").to_dataframe()),
    ],
)
def test_the_page_lists_every_column_and_no_other(call: str, frame: pd.DataFrame) -> None:
    assert documented(call) == set(frame.columns)


def test_a_row_is_a_point_and_its_samples_are_those_of_the_point() -> None:
    run = run_result()
    frame, samples = run.to_dataframe(), run.to_dataframe("samples")
    points = [point for benchmark in run.benchmarks for point in benchmark.points]
    assert list(frame["busbw_gb_per_s"]) == [point.busbw_gb_per_s for point in points]
    assert len(samples) == sum(frame["sample_count"])
    place = ["benchmark", "in_place", "message_bytes"]  # the same operation is measured in place and not
    first = samples[(samples[place] == frame[place].iloc[0]).all(axis="columns")]
    assert tuple(first["seconds"]) == points[0].samples_seconds
    assert first["seconds"].median() == pytest.approx(frame["median_seconds"][0])
    assert len(first.groupby(["launch", "block"])) == sum(len(launch) for launch in points[0].launches)


@pytest.mark.parametrize("run", [training_run(), memory_run(), checkpoint_run()], ids=["training", "memory", "saves"])
def test_every_workload_has_its_rows(run: Any) -> None:
    frame = run.to_dataframe()
    points = [point for benchmark in run.benchmarks for point in benchmark.workload]
    assert list(frame["label"]) == [point.label for point in points]
    assert len(run.to_dataframe("samples")) == sum(frame["sample_count"].fillna(0))


def test_what_is_unknown_is_missing_and_no_false() -> None:
    point = FiguresPoint(label="x", figures=(Figure(name="requests", value=812.0, unit="1/s"),), samples_seconds=(1.0,))
    checked = FiguresPoint(label="y", verified=True, figures=(Figure(name="label", value=3.0),))
    own = BenchmarkResult(name="serve", kind="serving", parameters={}, status="complete", workload=(point, checked))
    frame = type(run_result())(
        **{name: getattr(run_result(), name) for name in run_result().__struct_fields__} | {"benchmarks": (own,)}
    ).to_dataframe()
    assert frame["verified"].isna().tolist() == [True, False]
    assert frame["verified"].dtype == "boolean"
    assert frame["requests (1/s)"][0] == 812.0
    assert (frame["label"][1], frame["label (1)"][1]) == ("y", 3.0)  # a figure of that name replaces nothing


def test_the_rows_of_a_study_are_those_of_its_answer() -> None:
    scaling = sample("study-scaling")
    frame = scaling.to_dataframe()
    (mode,) = [mode for mode in scaling.answer.modes if mode.rows]
    assert list(frame["nodes"]) == [row.nodes for row in mode.rows]
    assert list(frame["speedup_value"]) == [row.speedup.value for row in mode.rows]
    assert set(frame["mode"]) == {mode.mode}
    network = sample("study-network")
    assert list(network.to_dataframe()["seconds"]) == [row.seconds for row in network.answer.rows]
    trials = network.to_dataframe("trials")
    assert list(trials["number"].unique()) == [trial.trial.number for trial in network.trials]
    assert trials["gdr"].isna().all()  # no log told


def test_a_test_of_a_pair_that_gave_no_figure_has_none() -> None:
    fabric = sample("fabric-ad9229c")
    frame = fabric.to_dataframe()
    assert list(frame["value"].isna()) == [test.value is None for test in fabric.pairs]
    assert list(frame["source_host"]) == [test.source.host for test in fabric.pairs]
    assert set(frame["unit"]) == {fabric.unit}


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingLibraryError, match=r"needs pandas, which is not installed: pip install") as caught:
        run_result().to_dataframe()
    assert isinstance(caught.value, ImportError)
