"""Results that were edited, doubled, lost or made otherwise: none is fine for that, each with a near miss."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.comparison.changed import changed_between
from raybench.comparison.comparing import compare
from raybench.comparison.joined import joined_side
from raybench.comparison.run_side import run_side
from raybench.comparison.side import TWICE, WRONG_DATA, Side, each_once
from raybench.comparison.tools.inspector import inspector_side
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError
from raybench.services.comparing.compare import compare_results
from raybench.services.comparing.history import history_of
from raybench.services.comparing.sides import side_of
from tests.comparison.edited import Change, dated, written
from tests.comparison.recorded import FULL, KEY, side
from tests.comparison.test_report_sides import CHECKPOINT, COLLECTIVE, FABRIC, PREFLIGHT, STUDIES, TRAINING


def first_point(content: Any) -> Any:
    return content["benchmarks"][0]["points"][0]


def unchecked(content: Any) -> None:
    first_point(content)["verified"] = None


def refuted(content: Any) -> None:
    first_point(content)["verified"] = False


@pytest.mark.parametrize(
    ("source", "change", "word"),
    [
        (COLLECTIVE, refuted, "critical"),
        (CHECKPOINT, refuted, "critical"),
        (TRAINING, refuted, "critical"),
        (STUDIES[1], lambda content: content["trials"][0]["measured"][0].update(verified=False), "critical"),
        (COLLECTIVE, unchecked, "unknown"),
        (TRAINING, unchecked, "unknown"),
        (STUDIES[1], lambda content: content["trials"][0]["measured"][0].update(verified=None), "unknown"),
    ],
)
def test_data_that_is_wrong_or_is_checked_no_longer_is_not_fine(
    source: Path, change: Change, word: str, tmp_path: Path
) -> None:
    other = written(tmp_path / "it.json", source, change)
    found = compare_results([source, other])
    assert found.verdict == word
    assert ("is right was not checked" in found.verdict_reason) == (word == "unknown")
    back = compare_results([other, source])  # more is known than before
    assert "was not checked" not in back.verdict_reason


def otherwise(content: Any) -> None:
    """Measured more often, which makes no other figure."""
    content["run_id"], content["started_at"] = "run-b", "2026-12-01T00:00:00+00:00"
    content["benchmarks"][0]["parameters"] |= {"iters": 77, "steps": 77}


@pytest.mark.parametrize("source", [COLLECTIVE, TRAINING])
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ((), (unchecked,), "is right was not checked"),
        ((), (refuted,), "fail in"),
        ((), (), ""),
        ((unchecked,), (unchecked,), ""),  # it was not known before either
        ((refuted,), (refuted,), ""),  # it was wrong before
    ],
)
def test_data_is_known_by_its_figure_however_often_it_was_measured(
    source: Path, before: tuple[Change, ...], after: tuple[Change, ...], reason: str, tmp_path: Path
) -> None:
    for beside in ((), (otherwise,)):
        changes = before, (*after, *beside)
        paths = [written(tmp_path / f"{at}.json", source, *some) for at, some in enumerate(changes)]
        found = changed_between(list(map(side_of, paths)), gated=True)
        texts = (*found.failed, *found.open)
        assert any(reason in text for text in texts) if reason else texts == ()


def test_a_check_that_failed_makes_a_run_wrong_and_one_that_was_not_made_does_not() -> None:
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    for verified, wrong in ((None, 0), (True, 0), (False, 1)):
        first_point(content)["verified"] = verified
        assert len(RunResult.of_json(content, "it").wrong) == wrong


def twice(content: Any, of: Callable[[Any], list[Any]], change: Change = lambda _: None) -> None:
    """Once more, before the one that is there."""
    more = json.loads(json.dumps(of(content)[0]))
    change(more)
    of(content).insert(0, more)


def passed(content: Any) -> list[Any]:
    """The paths, one that passed first."""
    content["pairs"].sort(key=lambda one: one["verdict"] != "pass")
    pairs: list[Any] = content["pairs"]
    return pairs


@pytest.mark.parametrize(
    ("source", "change"),
    [
        (COLLECTIVE, lambda content: twice(content, lambda one: one["benchmarks"])),
        (COLLECTIVE, lambda content: twice(content, lambda one: one["benchmarks"][0]["points"])),
        (TRAINING, lambda content: twice(content, lambda one: one["benchmarks"][0]["points"])),
        (FABRIC, lambda content: twice(content, passed)),
        (STUDIES[1], lambda content: twice(content, lambda one: one["trials"])),
        (STUDIES[1], lambda content: twice(content, lambda one: one["trials"][0]["measured"])),
    ],
)
def test_a_figure_that_is_there_twice_is_not_compared(source: Path, change: Change, tmp_path: Path) -> None:
    found = compare_results([source, written(tmp_path / "it.json", source, change)], gate="90%")
    assert TWICE in {one.reason for one in found.figures}
    assert found.exit_code == 3


def test_the_worse_of_two_words_for_one_path_or_check_counts(tmp_path: Path) -> None:
    other = written(
        tmp_path / "fabric.json",
        FABRIC,
        lambda content: twice(content, passed, lambda one: one.update(verdict="fail")),
    )
    assert compare_results([FABRIC, other]).exit_code == 1

    def check(content: Any) -> None:
        host = next(one for one in content["hosts"] if any(each["verdict"] == "pass" for each in one["checks"]))
        host["checks"].sort(key=lambda one: one["verdict"] != "pass")
        twice(host, lambda one: one["checks"], lambda one: one.update(verdict="fail"))
        content["summary"]["checks"]["fail"] = content["summary"]["checks"].get("fail", 0) + 1

    found = compare_results([PREFLIGHT, written(tmp_path / "preflight.json", PREFLIGHT, check)])
    assert (found.exit_code, "pass before, fail now" in found.verdict_reason) == (1, True)


def test_figures_of_other_names_are_each_there_once() -> None:
    figure = side(FULL[0]).figures[KEY]
    found = each_once([(KEY, figure), (replace(KEY, quantity="peak memory"), figure)])
    assert [one.problem for one in found.values()] == ["", ""]
    assert [one.problem for one in each_once([(KEY, figure), (KEY, figure)]).values()] == [TWICE]


def sized(*sizes: int) -> str:
    """A record of NCCL Inspector: ten calls of each size on one rank, each as long as its size."""
    calls = [
        {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size, "coll_exec_time_us": size / 1e3}
        for size in sizes
        for number in range(10)
    ]
    return "\n".join(
        json.dumps({"header": {"id": "0x1", "rank": 0, "n_ranks": 1, "nnodes": 1}, "coll_perf": call}) for call in calls
    )


def test_messages_whose_sizes_look_alike_are_different_points() -> None:
    """1.5M is 1572864 bytes, and one decimal of 1600000 and of 1610000 as well."""
    found = inspector_side("it", [sized(1572864, 1600000, 1610000)]).figures
    assert [key.point for key in found] == ["1.5M", "1.5M (1600000 bytes)", "1.5M (1610000 bytes)"]
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    points = content["benchmarks"][0]["points"]
    points[0]["message_bytes"], points[1]["message_bytes"] = 1025, 1030
    labels = [key.point for key in side_of_json(content).figures]
    assert {"1.0K (1025 bytes)", "1.0K (1030 bytes)"} <= set(labels)


def side_of_json(content: Any) -> Side:
    return run_side("it", [RunResult.of_json(content, "it")])


@pytest.mark.parametrize(
    ("before", "after", "exit_code"),
    [("lower", "higher", 3), ("lower", "", 3), ("", "lower", 3), ("lower", "lower", 0)],
)
def test_sides_that_disagree_on_what_is_better_are_not_compared(before: Any, after: Any, exit_code: int) -> None:
    sides = [
        replace(side(*FULL[runs], name=name), figures={KEY: replace(side(*FULL[runs]).figures[KEY], is_better=better)})
        for name, runs, better in (("A", slice(4), before), ("B", slice(4, 8), after))
    ]
    assert compare(sides, gate=0.05).exit_code == exit_code


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"unit": "us"}, "in s and in us"),
        ({"is_mean": True}, "means"),
        ({"is_better": "higher"}, "is better in"),
        ({}, ""),
    ],
)
def test_runs_of_a_side_that_measured_otherwise_are_no_side(change: dict[str, Any], why: str) -> None:
    runs = [replace(side(FULL[number], name=str(number)), run_ids=(str(number),)) for number in range(8)]
    other = replace(runs[7], figures={KEY: replace(runs[7].figures[KEY], **change)})
    found = compare([joined_side("A", runs[:4]), joined_side("B", [*runs[4:7], other])], gate=0.05)
    assert (found.exit_code, why in found.verdict_reason) == (3 if why else 0, True)


def test_launches_again_of_any_run_make_the_interval_longer() -> None:
    runs = [replace(side(FULL[number], name=str(number)), run_ids=(str(number),)) for number in range(3)]
    again = replace(runs[1], figures={KEY: replace(runs[1].figures[KEY], again=True)})
    for some in ([again, runs[0]], [runs[0], again]):
        assert joined_side("A", some).figures[KEY].again
    assert not joined_side("A", runs).figures[KEY].again


@pytest.mark.parametrize(("count", "exit_code"), [(2, 0), (1, 3), (0, 3)])
def test_ranks_of_torchrun_that_said_nothing_are_missed(count: int, exit_code: int, tmp_path: Path) -> None:
    points = json.loads(COLLECTIVE.read_text(encoding="utf-8"))["benchmarks"]
    known = {"world_size": 2, "backend": "gloo", "schema": "raybench.standalone/1", "status": "complete", "errors": {}}
    paths = [tmp_path / f"{name}.json" for name in "ab"]
    for path, ranks in zip(paths, (2, count), strict=True):
        content = {**known, "ranks": {str(rank): {} for rank in range(ranks)}, "benchmarks": points}
        path.write_text(json.dumps(content), encoding="utf-8")
    found = compare_results(paths)
    assert (f"{count} of 2 ranks: incomplete" in found.verdict_reason) == (exit_code == 3)


def test_a_check_that_is_judged_no_longer_is_among_what_differs() -> None:
    sides = [
        replace(side(*FULL[runs], name=name), checks={"ranks": frozenset([word]), "data": frozenset(["judged"])})
        for name, runs, word in (("A", slice(4), "judged"), ("B", slice(4, 8), "not judged"))
    ]
    assert [(one.name, *one.values) for one in compare(sides).differences] == [("check ranks", "judged", "not judged")]
    assert compare([sides[0], replace(sides[1], checks={})]).differences == ()  # a baseline of before


def test_a_run_that_is_on_both_sides_is_named() -> None:
    runs = [replace(side(FULL[number], name=str(number)), run_ids=(str(number),)) for number in range(8)]
    folder = joined_side("A", runs[:4])
    assert compare([folder, runs[3]]).remarks == ("3 and A both have run 3",)
    assert compare([folder, joined_side("B", runs[2:6])]).remarks == ("B and A both have run 2 (and 1 more)",)
    assert compare([folder, runs[7]]).remarks == ()


@pytest.mark.parametrize(
    "lose",
    [
        lambda folder: (folder / "result.json").symlink_to("/nonexistent/result.json"),
        lambda folder: (folder / "result.json").mkdir(),
        lambda folder: os.mkfifo(folder / "result.json"),
        lambda folder: (folder / "result.json").touch(),
    ],
)
def test_a_result_of_a_folder_that_cannot_be_read_is_not_passed_over(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    for number in range(3):
        written(tmp_path / str(number) / "result.json", COLLECTIVE, dated(number))
    assert len(side_of(tmp_path).run_ids) == 3
    (tmp_path / "lost").mkdir()
    lose(tmp_path / "lost")
    with pytest.raises(UsageError, match="lost"):
        side_of(tmp_path)
    found = history_of(tmp_path)
    assert ([one.path for one in found.omitted], found.exit_code) == (["lost"], 3)


def test_results_of_another_kind_in_a_folder_of_runs_are_named(tmp_path: Path) -> None:
    written(tmp_path / "a" / "result.json", COLLECTIVE)
    assert side_of(tmp_path).remarks == ()
    written(tmp_path / "s" / "study.json", STUDIES[1])
    assert side_of(tmp_path).remarks == (f"{tmp_path} is compared without s, which hold no runs",)


def test_a_device_that_moved_nothing_for_some_samples_is_not_judged_by_the_others(tmp_path: Path) -> None:
    def tested(samples: list[float]) -> Change:
        test = {"test": "gpu-link", "unit": "GB/s", "samples": samples, "case": "all", "device": "gpu0"}

        def change(content: Any) -> None:
            host = next(one for one in content["hosts"] if one["reached"])
            host["tests"] = [test]
            content["summary"]["level"] = content["level"] = 2

        return change

    before, same, stalled = (
        written(tmp_path / name / "preflight.json", PREFLIGHT, tested(samples))
        for name, samples in (("a", [9.0, 9.1, 9.0]), ("b", [9.1, 9.0, 9.0]), ("c", [9.0, 0.0, 0.0]))
    )
    assert {one.difference for one in compare_results([before, same]).compared} != set()
    found = compare_results([before, stalled], gate="50%")
    assert [one.reason for one in found.figures] == ["2 of 3 samples are 0"]
    assert found.exit_code == 3
    assert WRONG_DATA not in found.verdict_reason
