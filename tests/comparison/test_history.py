"""All runs of a folder: where a figure changes, what came with it, and that the same thing changes nowhere."""

import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from raybench.cli.comparing.history import command
from raybench.comparison.past import Past
from raybench.comparison.renamed import together
from raybench.comparison.side import FigureKey
from raybench.comparison.trend import steps_of
from raybench.documents.comparison.history import History
from raybench.errors import UsageError
from raybench.reports.builders.history import _rows, sparkline
from raybench.reports.formats import FORMATS
from raybench.services.comparing.history import history_of
from raybench.stats import median
from tests.comparison.recorded import FULL, SLOWER
from tests.comparison.test_report_sides import FABRIC
from tests.reports.sample import run_result

LEVELS, LOWER = ([median(run) for run in runs] for runs in (FULL, SLOWER))


def test_a_link_that_became_slower_is_found_at_its_run() -> None:
    (step,) = steps_of([*LEVELS, *LOWER])
    assert step.index == len(LEVELS)
    assert step.low <= 100 / 95 <= step.high
    assert step.ratio == pytest.approx(100 / 95, rel=0.01)


def test_runs_of_the_same_thing_change_nowhere() -> None:
    chosen = random.Random(7)
    found = sum(bool(steps_of(chosen.sample(LEVELS, 20))) for _ in range(200))
    noise = sum(bool(steps_of([chosen.lognormvariate(0, 0.1) for _ in range(60)])) for _ in range(200))
    assert found <= 10
    assert noise <= 10


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([1.0] * 3 + [1.1] * 2, []),  # two runs are no level
        ([1.0] * 3 + [1.1] * 3, [3]),
        ([1.0] * 10 + [3.0] + [1.0] * 10, []),  # one slow run
        ([1.0] * 8 + [1.2] * 8 + [1.0] * 8, [8, 16]),  # and back
        ([1.0] * 10 + [1.005] * 10, []),  # below what matters
        ([2.0], []),
    ],
)
def test_places_of_changes(values: list[float], places: list[int]) -> None:
    assert [step.index for step in steps_of(values)] == places


def written(
    folder: Path, number: int, factor: float, change: Callable[[Any], None] | None = None, **changes: Any
) -> None:
    """A run of the sample, ``factor`` times as slow, with some noise of its own; ``change`` makes it another."""
    noise = random.Random(number)
    content = json.loads(json.dumps(run_result().to_json()))
    content |= {"run_id": f"run-{number:03}", "started_at": f"2026-11-{1 + number // 24:02}T{number % 24:02}:00:00Z"}
    content["cluster"]["emulated"] = False
    content["environment"]["versions"] |= changes
    of_run = factor * noise.gauss(1.0, 0.005)
    for benchmark in content["benchmarks"]:
        for point in benchmark["points"]:
            point["samples_seconds"] = [one * of_run for one in point["samples_seconds"]]
    if change:
        change(content)
    path = folder / f"week-{number // 7}" / f"run-{number:03}"
    path.mkdir(parents=True)
    (path / "result.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve runs, from the eighth on 10 % slower with another driver."""
    for number in range(12):
        written(tmp_path, number, 1.1 if number >= 7 else 1.0, nccl="2.29.1" if number >= 7 else "2.28.3")
    return tmp_path


def test_the_run_is_named_with_its_date_and_what_came_with_it(folder: Path) -> None:
    found = history_of(folder)
    assert (found.verdict, found.exit_code) == ("warning", 0)
    assert "slower since 2026-11-01T07:00:00Z, run run-007" in found.verdict_reason
    assert [run.run_id for run in found.runs] == [f"run-{number:03}" for number in range(12)]
    changes = [change for one in found.series for change in one.changes]
    assert {change.run for change in changes} == {7}
    assert {(one.about, one.name, *one.values) for change in changes for one in change.differences} == {
        ("environment", "nccl", "2.28.3", "2.29.1")
    }


def test_the_document_is_read_as_it_was_written_and_shown_in_every_format(folder: Path) -> None:
    (folder / "broken").mkdir()
    (folder / "broken/result.json").write_text("{", encoding="utf-8")
    found = history_of(folder)
    assert [one.path for one in found.omitted] == ["broken"]
    assert History.of_json(json.loads(json.dumps(found.to_json())), "it") == found
    for name, form in FORMATS.items():
        assert "run-007" in form.render(found), name
    shown = CliRunner().invoke(command, [str(folder)])
    assert shown.exit_code == 3
    assert shown.output.startswith("# VERDICT: INCOMPLETE: ")
    assert "nccl: 2.28.3 -> 2.29.1" in shown.output
    assert "1 run cannot be read" in shown.output


def test_fabric_tests_of_many_nights_are_a_history_too(tmp_path: Path) -> None:
    for number in range(8):
        content = json.loads(FABRIC.read_text(encoding="utf-8"))
        content |= {"run_id": f"f-{number}", "started_at": f"2026-11-0{number + 1}T03:00:00Z"}
        test = next(one for one in content["pairs"] if one["value"])
        test["value"] *= 0.8 if number > 4 else 1.0 - number / 1000
        (tmp_path / f"night-{number}").mkdir()
        (tmp_path / f"night-{number}/fabric.json").write_text(json.dumps(content), encoding="utf-8")
    found = history_of(tmp_path)
    assert (found.verdict, len(found.runs), found.omitted) == ("incomplete", 8, ())  # as each of them is
    assert "slower since 2026-11-06T03:00:00Z, run f-5" in found.verdict_reason


def _failed(content: Any) -> None:
    content.update(status="failed", verdict="incomplete", verdict_reason="rank 1 died")
    for benchmark in content["benchmarks"]:
        benchmark.update(status="failed", reason="rank 1 died", points=[])


def _partial(content: Any) -> None:
    content.update(status="partial", verdict="incomplete", verdict_reason="a launch timed out")


def _wrong(content: Any) -> None:
    content.update(verdict="critical", verdict_reason="wrong data")


def _unknown(name: str, *hosts: str) -> Callable[[Any], None]:
    """A verdict that a check leaves open, which accuses those hosts."""

    def change(content: Any) -> None:
        open_ = {"check": name, "outcome": "not judged", "text": f"{name} is open", "undecided": True}
        more = {"hosts": list(hosts), "rule": "straggler"} if hosts else {}
        content.update(verdict="unknown", verdict_reason=open_["text"], checks=[{**open_, **more}])

    return change


def _either(place: int, first: Callable[[Any], None], then: Callable[[Any], None]) -> Callable[[Any], None]:
    """Up to a run the one, from it on the other."""

    def change(content: Any) -> None:
        (first if int(content["run_id"][-3:]) < place else then)(content)

    return change


def _unchecked(content: Any) -> None:
    for benchmark in content["benchmarks"]:
        for point in benchmark["points"]:
            point["verified"] = None


def _nothing(_: Any) -> None:
    """As it was."""


def _parameter(value: int) -> Callable[[Any], None]:
    """A version that measures with one parameter more."""

    def change(content: Any) -> None:
        for one in content["benchmarks"]:
            one["parameters"]["extra"] = value

    return change


def _smaller(content: Any) -> None:
    content["cluster"]["nodes"] = content["cluster"]["nodes"][:1]


@pytest.mark.parametrize(
    ("factors", "after", "change", "expected"),
    [
        ([1.0] * 12, 12, None, ("ok", "no change in 1 figure")),
        ([1.0] * 12, 9, _failed, ("critical", "the newest 3 of 12 runs ended as failed")),
        ([1.0] * 12, 9, _partial, ("incomplete", "the newest 3 of 12 runs ended as incomplete")),
        ([1.0] * 12, 9, _wrong, ("critical", "the newest 3 of 12 runs ended as critical")),
        ([1.0] * 12, 10, _wrong, ("critical", "the newest 2 of 12 runs ended as critical")),
        ([1.0] * 12, 9, _unknown("ranks", "n1"), ("unknown", "3 of the newest 3 of 12 runs ended as unknown")),
        ([1.0] * 12, 11, _unknown("ranks", "n1"), ("unknown", "check ranks names a suspect")),
        ([1.0] * 12, 0, _unknown("ranks"), ("ok", "no change in 1 figure")),  # as ever
        ([1.0] * 12, 0, _either(9, _unknown("ranks"), _unknown("ranks", "n1")), ("unknown", "names a suspect")),
        ([1.0] * 12, 0, _either(9, _unknown("ranks"), _unknown("baseline")), ("unknown", "check baseline is open")),
        ([1.0] * 12, 0, _either(9, _unknown("ranks", "n1"), _nothing), ("ok", "no change in 1 figure")),  # settled
        ([1.0] * 12, 9, _unchecked, ("unknown", "is right was not checked since 2026-11-01T09:00:00Z, run run-009")),
        ([1.0] * 12, 11, _unchecked, ("unknown", "is right was not checked since 2026-11-01T11:00:00Z, run run-011")),
        ([1.0] * 12, 0, _unchecked, ("ok", "no change in 1 figure")),  # as ever
        ([1.0] * 12, 0, _either(9, _unchecked, _nothing), ("ok", "no change in 1 figure")),
        ([1.0] * 6 + [1.3] * 6, 6, _parameter(1), ("warning", "1.29x slower since 2026-11-01T06:00:00Z")),
        ([1.0] * 12, 6, _parameter(1), ("ok", "no change in 1 figure over 12 runs")),
        ([1.0] * 6 + [2.0] * 6, 6, _smaller, ("unknown", "it goes on with")),
        ([1.0] * 8 + [1.5] * 8 + [1.45] * 8, 24, None, ("warning", "slower since 2026-11-01T08:00:00Z")),
        ([1.0] * 8 + [1.5] * 8 + [1.0] * 8, 24, None, ("ok", "faster since 2026-11-01T16:00:00Z")),
        ([1.0] * 10 + [3.0] * 2, 12, None, ("unknown", "the last 2 runs look")),
        ([1.0] * 10 + [0.5] * 2, 12, None, ("ok", "no change")),
        ([1.0] * 4 + [3.0] + [1.0] * 7, 12, None, ("ok", "no change")),
    ],
)
def test_the_newest_runs_are_judged_first_and_nothing_failed_or_missing_is_fine(
    tmp_path: Path, factors: list[float], after: int, change: Callable[[Any], None] | None, expected: tuple[str, str]
) -> None:
    def changed(content: Any, number: int) -> None:
        content["benchmarks"] = [{**(one := content["benchmarks"][0]), "points": one["points"][-1:]}]
        if change and number >= after:
            change(content)

    for number, factor in enumerate(factors):
        written(tmp_path, number, factor, partial(changed, number=number))
    found = history_of(tmp_path)
    verdict, text = expected
    assert (found.verdict, text in found.verdict_reason) == (verdict, True), found.verdict_reason
    assert found.exit_code == {"ok": 0, "warning": 0, "critical": 1}.get(verdict, 3)


@pytest.mark.parametrize(("place", "exit_code"), [(11, 1), (10, 1), (9, 1), (8, 0), (3, 0)])
def test_the_only_run_of_a_suite_counts_where_it_is_one_of_the_newest(
    place: int, exit_code: int, tmp_path: Path
) -> None:
    def change(content: Any, number: int) -> None:
        if number == place:
            content["config"]["suite"] = "another"
            _wrong(content)

    for number in range(12):
        written(tmp_path, number, 1.0, partial(change, number=number))
    found = history_of(tmp_path)
    said = "1 of 1 runs of another ended as critical, none of the newest" in found.verdict_reason
    assert (found.exit_code, said) == (exit_code, exit_code == 0), found.verdict_reason


def test_a_failure_long_ago_is_told_and_parameters_of_another_value_are_another_figure(tmp_path: Path) -> None:
    for number in range(14):
        written(tmp_path, number, 1.0, _wrong if number == 2 else _parameter(number % 2))
    found = history_of(tmp_path)
    assert (found.verdict, "1 of 14 runs ended as critical, none of the newest" in found.verdict_reason) == ("ok", True)
    assert sorted(len(one.values) for one in found.series)[-2:] == [7, 7]


def _names(history: History) -> list[str]:
    """Of the figures on one screen."""
    return [name for name, *_ in _rows(history)]


def test_lines_say_what_their_figures_were_measured_with_where_others_were_not(folder: Path) -> None:
    history = history_of(folder)
    one = history.series[0]
    given = [json.dumps({"batch_size": size, "dtype": "float32"}) for size in (4, 8)]
    series = [
        replace(one, parameters=text, machine=f"nodes {nodes}, backend gloo") for text in given for nodes in (1, 2)
    ]
    lines = _names(replace(history, series=tuple(series)))
    assert [line.partition(" (")[2] for line in lines] == [
        f"batch_size {size}, nodes {nodes})" for size in (4, 8) for nodes in (1, 2)
    ]
    (alone,) = _names(replace(history, series=(one,)))
    assert alone == one.label


def test_few_runs_are_no_trend_and_no_folder_is_invalid_usage(tmp_path: Path) -> None:
    for number in range(4):
        written(tmp_path / "few", number, 1.0)
    few = history_of(tmp_path / "few")
    assert (few.verdict, few.exit_code) == ("unknown", 3)
    assert "from 6 on" in few.verdict_reason
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(UsageError, match="raybench run"):
            history_of(tmp_path / name)


def test_a_run_more_costs_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        written(tmp_path, number, 1.0)
    kept: list[int] = []
    taken = Past.take

    def counted(self: Past, *run: Any) -> None:
        taken(self, *run)
        gc.collect()  # what waits to be collected is not held
        kept.append(tracemalloc.get_traced_memory()[0])

    monkeypatch.setattr(Past, "take", counted)
    gc.collect()
    gc.freeze()  # what other tests left is not looked through for each run
    tracemalloc.start()
    try:
        history_of(tmp_path)
    finally:
        tracemalloc.stop()
    size = next(tmp_path.rglob("result.json")).stat().st_size
    assert (kept[-1] - kept[4]) / (len(kept) - 5) < size / 10, "the documents of all runs are held"


def test_a_sparkline_is_as_wide_as_there_is_room() -> None:
    assert sparkline([1.0, 2.0]) == "▁█"
    assert sparkline([1.0] * 3) == "▁▁▁"
    assert len(sparkline([float(one) for one in range(1000)])) <= 24


@pytest.mark.parametrize(
    ("parameters", "counts"),
    [
        ([{"batch": 4}, {"batch": 4, "extra": 1}], [2]),  # a version that added one
        ([{"batch": 4, "steps": 60}, {"batch": 4, "steps": 30}], [2]),  # how often, not what
        ([{"batch": 4}, {"batch": 8}], [1, 1]),
        ([{"batch": 4}, {"batch": 4, "extra": 1}, {"batch": 4, "extra": 2}], [1, 1, 1]),  # which of them is not clear
        ([{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}], [3]),
    ],
)
def test_figures_are_one_where_a_version_added_a_parameter(parameters: list[Any], counts: list[int]) -> None:
    keys = [FigureKey(benchmark="ddp", parameters=json.dumps(one), point="step") for one in parameters]
    alone = {("machine", key): [str(number)] for number, key in enumerate(keys)}
    assert sorted(map(len, together(alone))) == counts
    assert len(together(dict.fromkeys(alone, ("one run has all",)))) == len(keys)
    assert len(together({(str(number), key): ["x"] for number, key in enumerate(keys)})) == len(keys)
