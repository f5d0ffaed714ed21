"""Histories of results that were copied, lost, or measured in another unit: none is fine for that."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.comparison.past import Past, began_at
from raybench.documents.comparison.history import HistoryRun
from raybench.services.comparing.history import history_of
from tests.comparison.edited import dated, written
from tests.comparison.recorded import FULL, KEY, side
from tests.comparison.test_report_sides import COLLECTIVE


def test_a_figure_in_another_unit_is_another_figure_of_a_history() -> None:
    past = Past()
    for number in range(12):
        figure = replace(side(FULL[number]).figures[KEY], unit="us" if number > 6 else "s")
        run = HistoryRun(path=str(number), run_id=str(number), started_at=f"2026-11-{number + 1:02}", verdict="ok")
        past.take(run, replace(side(FULL[number]), outcomes={"verdict": "ok"}, figures={KEY: figure}))
    found = past.history("it")
    assert [(one.unit, len(one.values)) for one in found.series] == [("s", 7), ("us", 5)]
    assert (found.exit_code, "it goes on with in us" in found.verdict_reason) == (3, True), found.verdict_reason


@pytest.mark.parametrize(
    ("newest", "exit_code"),
    [
        ("2026-11-27T{hour:02}:30:00+00:00", 0),
        ("2026-11-28T0{number}:00:00+09:00", 0),  # the evening of the 27th in UTC
        ("2026-11-27T0{number}:00:00-11:00", 0),  # by its text before all of the others
        ("2026-11-27T{hour:02}:30:00Z", 0),
        ("2026-11-27T{hour:02}:30:00", 0),  # UTC where no zone is named
        ("20261127T{hour:02}3000Z", 0),
        ("yesterday, {hour}", 3),
        ("", 3),
        ("2026-13-27T{hour:02}:30:00Z", 3),
    ],
)
def test_a_history_is_in_the_order_of_time_and_not_of_its_text(newest: str, exit_code: int, tmp_path: Path) -> None:
    for number in range(6):
        slow = number >= 3
        when = newest.format(number=number, hour=11 + number) if slow else f"2026-11-27T0{number}:00:00+00:00"
        change = dated(number, when, 1.3 if slow else 1.0)
        written(
            tmp_path / str(number) / "result.json",
            COLLECTIVE,
            change,
            lambda one, when=when: one.update(started_at=when),
        )
    found = history_of(tmp_path)
    assert found.exit_code == exit_code
    if exit_code == 0:
        assert [one.run_id for one in found.runs] == [f"run-{number}" for number in range(6)]
        assert (found.verdict, "slower since" in found.verdict_reason) == ("warning", True)
    else:
        assert len(found.omitted) == 3


def test_times_are_the_same_whatever_their_zone() -> None:
    assert began_at("2026-11-28T01:00:00+02:00") == began_at("2026-11-27T23:00:00Z") == began_at("2026-11-27T23:00:00")
    assert began_at("Nov 27") is began_at("") is None


def test_copies_of_a_run_make_no_level_of_a_history(tmp_path: Path) -> None:
    for number in range(6):
        written(tmp_path / str(number) / "result.json", COLLECTIVE, dated(number))
    last = written(tmp_path / "7" / "result.json", COLLECTIVE, dated(7, factor=1.3)).parent
    alone = history_of(tmp_path)
    for name in ("8", "9"):
        shutil.copytree(last, tmp_path / name)
    found = history_of(tmp_path)
    assert [one.path for one in found.copies] == ["8", "9"]
    assert (len(found.runs), found.series, found.verdict) == (7, alone.series, alone.verdict)
    assert found.verdict_reason == f"{alone.verdict_reason}; 2 runs are copies of others, each of which counts once"
    written(tmp_path / "8" / "result.json", COLLECTIVE, dated(8, factor=1.3))  # one of its own
    assert len(history_of(tmp_path).runs) == 8


def test_a_run_without_a_result_is_left_out_of_a_history_and_told(tmp_path: Path) -> None:
    for number in range(6):
        written(tmp_path / str(number) / "result.json", COLLECTIVE, dated(number))
        (tmp_path / str(number) / "samples.jsonl").touch()
    assert history_of(tmp_path).omitted == ()
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "samples.jsonl").touch()
    found = history_of(tmp_path)
    assert (found.exit_code, [one.path for one in found.omitted]) == (3, ["lost"])
