"""Nothing that failed, is missing or is not known is fine: verdicts, checks, troubles, copies, what some runs lack."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.comparison.comparing import compare
from raybench.comparison.joined import joined_side
from raybench.comparison.run_side import counted
from raybench.comparison.side import FigureKey, Side
from raybench.errors import UsageError
from raybench.services.comparing.compare import compare_results
from raybench.services.comparing.history import history_of
from raybench.services.comparing.sides import side_of
from tests.comparison.recorded import FULL, KEY, SLOWER, side
from tests.comparison.test_report_sides import COLLECTIVE, STUDIES

MEMORY = next(COLLECTIVE.parent.glob("memory-*.json"))
Words = dict[str, str]
PREFLIGHT = {"verdict": "fail", "h1 a": "pass"}
OK, NONE = {"verdict": "ok", "status": "complete"}, dict[str, str]()


def said(name: str, outcomes: Words, troubles: Words = NONE, runs: slice = slice(0, 4)) -> Side:
    return replace(side(*FULL[runs], name=name), outcomes=outcomes, troubles=troubles)


@pytest.mark.parametrize(
    ("before", "after", "exit_code"),
    [
        ({"tcp": {"not judged"}}, {"tcp": {"open"}}, 0),  # not answered before either
        (
            {"tcp": {"open"}, "a": {"judged"}},
            {"tcp": {"open"}, "a": {"not judged"}},
            3,
        ),  # one is no longer
        ({"tcp": {"not judged"}}, {"tcp": {"open"}, "ranks": {"not judged"}}, 0),  # which leaves no verdict open
        ({"tcp": {"judged"}}, {"tcp": {"open"}}, 3),  # it was good, or bad
        ({"tcp": {"judged", "not judged"}}, {"tcp": {"open"}}, 3),  # in one of several runs, or of several matrices
        ({}, {"tcp": {"open"}}, 3),  # there may have been nothing to ask
        ({"tcp": {"not judged"}}, {"tcp": {"suspect"}}, 3),  # a node may be at fault
        ({"tcp": {"not judged"}}, {"tcp": {"open"}, "ranks": {"open"}}, 3),  # one of them is new
        ({"tcp": {"not judged"}}, {"tcp": {"not judged"}}, 3),  # its verdict is unknown for another reason
    ],
)
def test_what_was_never_answered_makes_no_difference(
    before: dict[str, set[str]], after: dict[str, set[str]], exit_code: int
) -> None:
    words = OK, OK | {"verdict": "unknown"}
    sides = [
        replace(said(name, word, runs=runs), checks={check: frozenset(found) for check, found in checks.items()})
        for name, word, runs, checks in zip("AB", words, (slice(4), slice(4, 8)), (before, after), strict=True)
    ]
    assert [compare(sides).exit_code, compare(sides, gate=0.05).exit_code] == [exit_code] * 2


@pytest.mark.parametrize(
    ("before", "after", "gate", "exit_code"),
    [
        ((60, 10.0), (59, 9.81), 0.01, 3),  # what is free of a device's memory now and then
        ((60, 10.0), (59, 9.81), 0.05, 0),
        ((60, 10.0), (59, 10.0), 0.01, 1),
        ((60, 9.81), (59, 10.0), 0.01, 1),  # of more memory
        ((60, 10.0), (55, 9.81), 0.05, 1),  # more than that
        ((60, 10.0), (60, 9.81), 0.01, 0),
    ],
)
@pytest.mark.parametrize("runs", [1, 3])
def test_a_batch_may_be_smaller_by_as_much_as_its_limit(
    before: tuple[int, float], after: tuple[int, float], gate: float, exit_code: int, runs: int
) -> None:
    key = FigureKey(benchmark="memory", point="memory tiny", quantity="largest batch")
    sides = []
    for name, (batch, limit) in zip("AB", (before, after), strict=True):
        one = replace(counted(batch, "", "higher"), limits=(int(limit * 2**30),))
        results = [replace(said(f"{name}{at}", OK), run_ids=(f"{name}{at}",), figures={key: one}) for at in range(runs)]
        sides.append(joined_side(name, results))
    assert compare(sides, gate=gate).exit_code == exit_code


@pytest.mark.parametrize(
    ("before", "after", "emulated", "versions", "said_of_it"),
    [
        ({"judged"}, {"judged"}, False, "11", ""),
        ({"judged"}, {"not judged"}, False, "11", "check ranks is not judged in B, and was judged in A"),
        ({"judged"}, set(), False, "11", "check ranks is not there in B, and was judged in A"),
        (
            {"judged"},
            {"judged", "not judged"},
            False,
            "11",
            "check ranks is judged in part in B",
        ),  # of several
        ({"judged", "not judged"}, {"not judged"}, False, "11", "check ranks is not judged in B"),
        ({"judged", "not judged"}, {"judged", "not judged"}, False, "11", ""),
        ({"judged", "not judged"}, {"judged"}, False, "11", ""),
        ({"not judged"}, {"not judged"}, False, "11", ""),  # never known
        ({"not judged"}, {"judged"}, False, "11", ""),  # more is known than before
        (set(), {"not judged"}, False, "11", ""),  # nothing was asked before
        ({"judged"}, {"not judged"}, True, "11", ""),  # ranks that share processors
        ({"judged"}, set(), False, "12", ""),  # another version may have no such check
        ({"judged"}, {"not judged"}, False, "12", "check ranks is not judged in B"),  # this one has it
    ],
)
@pytest.mark.parametrize("gate", [None, 0.05])
def test_what_was_judged_and_is_no_longer_is_not_fine(
    before: set[str], after: set[str], emulated: bool, versions: str, said_of_it: str, gate: float | None
) -> None:
    """Passed or failed before: what became of it is not known. Every verdict is ok, and so are the figures."""
    sides = [
        replace(
            said(name, OK, runs=runs),
            machine={"emulated": str(emulated)},
            environment={"raybench": version},
            checks={"data": frozenset(["judged"])} | ({"ranks": frozenset(words)} if words else {}),
        )
        for name, runs, words, version in zip("AB", (slice(4), slice(4, 8)), (before, after), versions, strict=True)
    ]
    found = compare(sides, gate=gate)
    assert (found.exit_code, said_of_it in found.verdict_reason) == (3 if said_of_it else 0, True)


def test_bandwidth_that_is_judged_no_longer_is_open_on_one_machine_too() -> None:
    words = ("judged", "not judged")
    sides = [
        replace(said(name, OK, runs=runs), machine={"emulated": "True"}, checks={"bandwidth": frozenset([word])})
        for name, runs, word in zip("AB", (slice(4), slice(4, 8)), words, strict=True)
    ]
    assert compare(sides, gate=0.05).exit_code == 3
    slower = replace(sides[1], figures=side(*SLOWER[:4]).figures)
    assert compare([sides[0], slower], gate=0.03).exit_code == 1  # a regression is one all the same


@pytest.mark.parametrize(
    ("before", "after", "gated", "said_of_it"),
    [
        (2**29, 2**29, 0, ""),
        (2**29, int(1.01 * 2**29), 0, ""),  # of a device's memory as much is free now and then
        (2**29, 2**30, 3, "memory of B has a limit of 1 GiB, not 0.5 GiB"),
        (2**30, 2**29, 3, "memory of B has a limit of 0.5 GiB, not 1 GiB"),
        (10 * 2**28, int(1.03 * 10 * 2**28), 3, "has a limit of 2.57 GiB, not 2.5 GiB"),
        (2**31, int(1.021 * 2**31), 3, "has a limit of 2.04 GiB, not 2 GiB"),
    ],
)
def test_a_search_within_another_limit_is_another_configuration(
    before: int, after: int, gated: int, said_of_it: str
) -> None:
    key = FigureKey(benchmark="memory", point="memory tiny", quantity="largest batch")
    one = replace(counted(64, "", "higher"), limits=(before,))
    sides = [
        replace(said("A", OK), figures={key: one}),
        replace(said("B", OK), figures={key: replace(one, limits=(after,))}),
    ]
    found, unlike = compare(sides, gate=0.05), compare(sides, gate=0.05, allow_unlike=True)
    assert (found.exit_code, said_of_it in found.verdict_reason) == (gated, True), found.verdict_reason
    assert (unlike.exit_code, said_of_it in unlike.verdict_reason) == (0, True)
    assert bool(joined_side("both", sides).figures[key].problem) == bool(said_of_it)
    capped = [replace(side, figures={key: replace(side.figures[key], is_capped=True)}) for side in sides]
    assert compare(capped, gate=0.05).exit_code == 0  # neither of them filled it
    for mixed in ([capped[0], sides[1]], [sides[0], capped[1]]):
        assert compare(mixed, gate=0.05).exit_code == gated


@pytest.mark.parametrize(
    ("before", "after", "exit_codes", "reason"),
    [
        (OK, OK, (0, 0), "no "),
        (OK, OK | {"verdict": "warning"}, (0, 0), "no "),  # worth a look: said among what differs
        (OK | {"verdict": "unknown"}, OK | {"verdict": "unknown"}, (0, 0), "no "),  # nothing is expected of it
        (OK | {"verdict": "unknown"}, OK, (0, 0), "no "),
        (OK, OK | {"verdict": "critical"}, (1, 1), "B failed: its verdict is critical, that of the reference ok"),
        (OK, OK | {"status": "failed"}, (1, 1), "B failed: its status is failed"),
        (NONE, OK | {"status": "failed"}, (1, 1), "B failed"),  # an old baseline says nothing of itself
        (OK, OK | {"verdict": "incomplete"}, (3, 3), "B is incomplete: its verdict is incomplete"),
        (OK, OK | {"verdict": "unknown"}, (3, 3), "B is unknown"),
        (OK, OK | {"verdict": "some word"}, (3, 3), "B is some word"),
        (OK, {"status": "complete"}, (3, 3), "B is unknown"),
        (OK, OK | {"status": "partial"}, (3, 3), "B is partial"),
        (OK | {"verdict": "critical"}, OK, (3, 3), "A is not a good reference: its verdict is critical"),
        (OK | {"status": "failed"}, OK | {"status": "failed"}, (3, 3), "as bad as before: B failed"),
    ],
)
def test_what_a_run_says_of_itself_counts(
    before: Words, after: Words, exit_codes: tuple[int, int], reason: str
) -> None:
    sides = [said("A", before), said("B", after, runs=slice(4, 8))]
    found = [compare(sides), compare(sides, gate=0.05)]
    assert tuple(one.exit_code for one in found) == exit_codes
    assert all(reason in one.verdict_reason for one in found)


@pytest.mark.parametrize(
    ("before", "after", "exit_code", "reason"),
    [
        (NONE, {"finding x": "critical"}, 1, "finding x: critical in B, not in A"),
        ({"finding x": "critical"}, NONE, 0, "no regression"),
        (NONE, {"finding x": "warning"}, 0, "no regression"),
        ({"finding x": "critical"}, {"finding x": "critical"}, 0, "as bad as before: finding x"),
        (NONE, {"benchmark y": "partial"}, 3, "benchmark y: partial in B"),
        ({"benchmark y": "failed"}, {"benchmark y": "partial"}, 0, "no regression"),
    ],
)
def test_a_trouble_that_is_new_counts(before: Words, after: Words, exit_code: int, reason: str) -> None:
    found = compare([said("A", OK, before), said("B", OK, after, slice(4, 8))], gate=0.05)
    assert (found.exit_code, reason in found.verdict_reason) == (exit_code, True)


@pytest.mark.parametrize(
    ("before", "after", "gated", "ungated"),
    [
        ("pass", "pass", 0, 0),
        ("skipped", "pass", 0, 0),
        ("fail", "pass", 0, 0),
        ("fail", "fail", 0, 0),  # as bad as before, which is said and is a warning
        (None, "pass", 0, 0),
        ("pass", "warn", 1, 0),
        ("pass", "fail", 1, 1),
        (None, "fail", 1, 1),
        ("pass", "skipped", 3, 3),
        ("pass", "unknown", 3, 3),
        ("fail", "unknown", 3, 3),
        ("pass", "error", 3, 3),
        ("pass", None, 3, 3),
        ("warn", None, 3, 3),
        ("unknown", None, 0, 0),
    ],
)
def test_checks_of_both_sides_are_judged(before: str | None, after: str | None, gated: int, ungated: int) -> None:
    sides = [
        Side(name=name, kind="preflight", outcomes=PREFLIGHT | ({"h1 b": word} if word else {}))
        for name, word in (("A", before), ("B", after))
    ]
    assert (compare(sides, gate=0.05).exit_code, compare(sides).exit_code) == (gated, ungated)
    assert ("as bad as before" in compare(sides).verdict_reason) == (compare(sides).verdict != "critical")


@pytest.mark.parametrize("word", ["unknown", "skipped"])
def test_checks_that_nobody_knows_are_not_fine(word: str) -> None:
    sides = [Side(name=name, kind="preflight", outcomes={"verdict": word, "h1 a": word}) for name in "AB"]
    assert compare(sides).exit_code == compare(sides, gate=0.05).exit_code == 3


def test_a_regression_is_said_before_what_is_not_known() -> None:
    slower = replace(said("B", OK | {"verdict": "unknown"}), figures=side(*SLOWER[:4]).figures)
    found = compare([said("A", OK), slower], gate=0.03)
    assert (found.exit_code, found.verdict_reason.startswith("regression")) == (1, True)
    assert compare([said("A", OK), slower]).exit_code == 3


def test_a_failed_run_of_a_folder_and_a_figure_that_some_lack_are_not_lost() -> None:
    runs = [replace(said(str(number), OK), figures=side(FULL[number]).figures) for number in range(8)]
    before, whole = joined_side("A", runs[:4]), joined_side("B", runs[4:])
    assert compare([before, whole], gate=0.05).exit_code == 0
    failed = replace(runs[7], outcomes={"verdict": "critical", "status": "failed"}, figures={})
    found = compare([before, joined_side("B", [*runs[4:7], failed])], gate=0.05)
    assert (found.exit_code, found.verdict_reason.startswith("B failed")) == (1, True)
    lacking = joined_side("B", [*runs[4:7], replace(runs[7], figures={})])
    for sides in ([before, lacking], [lacking, before]):
        found = compare(sides, gate=0.05)
        assert (found.exit_code, found.verdict_reason) == (3, "B: 1 of 4 runs have no all_reduce float32 sum, 1M")
    undirected = replace(KEY, quantity="overhead")  # which is not judged
    more = replace(runs[0], figures={**runs[0].figures, undirected: replace(runs[0].figures[KEY], is_better="")})
    assert joined_side("A", [more, *runs[1:4]]).gaps == ()


def test_a_copy_of_a_run_counts_once(tmp_path: Path) -> None:
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(COLLECTIVE, tmp_path / name / "result.json")
    (tmp_path / "c").mkdir()
    content["started_at"] = "2026-12-01T00:00:00+00:00"
    (tmp_path / "c" / "result.json").write_text(json.dumps(content), encoding="utf-8")
    found = side_of(tmp_path)
    assert {len(figure.runs) for figure in found.figures.values()} == {2}
    assert len(found.run_ids) == 2
    assert found.remarks == (f"{tmp_path / 'b'} is the same result as {tmp_path / 'a'}: it counts once",)
    short = [replace(side([0.09, 0.091], name=name), run_ids=(name,)) for name in "AB"]  # may be alike by chance
    assert len(joined_side("it", short).run_ids) == 2


def changed(path: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    other = folder / "result.json"
    other.write_text(json.dumps(content), encoding="utf-8")
    return other


def without_a_batch(content: dict[str, Any]) -> None:
    point = content["benchmarks"][0]["points"][0]
    point["largest_batch"], point["batch_sizes"][0]["fits"] = 0, False
    del point["batch_sizes"][1:]


def within_more(content: dict[str, Any]) -> None:
    content["benchmarks"][0]["points"][0] |= {"limit_bytes": 2**30, "reached_most": False}


def partial(content: dict[str, Any]) -> None:
    content["status"] = content["benchmarks"][0]["status"] = "partial"
    content["benchmarks"][0]["reason"] = "launch 2 of 5 timed out"


def failed_trial(content: dict[str, Any]) -> None:
    content["trials"][0]["status"] = "failed"


def fewer_trials(content: dict[str, Any]) -> None:
    del content["trials"][-1]


@pytest.mark.parametrize(
    ("path", "change", "exit_code", "reason"),
    [
        (MEMORY, without_a_batch, 1, "fits no batch"),
        (MEMORY, lambda content: content["benchmarks"][0]["points"][0].update(limit_bytes=2**30), 0, "no regression"),
        (MEMORY, within_more, 3, "has a limit of 1 GiB, not 0.5 GiB (--unlike compares"),
        (COLLECTIVE, partial, 3, "its verdict is incomplete"),
        (STUDIES[1], failed_trial, 1, "failed in "),
        (STUDIES[1], fewer_trials, 3, "missing in "),
        (STUDIES[1], lambda content: content["trials"].reverse(), 0, "no regression"),
    ],
)
def test_documents_say_what_failed_in_them(
    path: Path, change: Callable[[dict[str, Any]], object], exit_code: int, reason: str, tmp_path: Path
) -> None:
    found = compare_results([path, changed(path, tmp_path, change)], gate="5%")
    assert (found.exit_code, reason in found.verdict_reason) == (exit_code, True), found.verdict_reason


@pytest.mark.parametrize(
    ("lengths", "zeros", "is_damaged"),
    [
        ([5] * 5, 0, False),
        ([5] * 5, 2, False),  # a clock that stood still for a moment
        ([0, 10, 5, 5, 5], 0, True),
        ([5] * 5, 5, True),
    ],
)
def test_a_block_without_a_time_is_damage_and_no_traceback(
    lengths: list[int], zeros: int, is_damaged: bool, tmp_path: Path
) -> None:
    def change(content: dict[str, Any]) -> None:
        point = content["benchmarks"][0]["points"][0]
        point["block_iterations"] = [lengths]
        point["samples_seconds"][:zeros] = [0.0] * zeros

    (tmp_path / "odd").mkdir()
    odd = changed(COLLECTIVE, tmp_path / "odd", change)
    shutil.copy(COLLECTIVE, tmp_path / "result-copy.json")
    (tmp_path / "good").mkdir()
    shutil.copy(COLLECTIVE, tmp_path / "good" / "result.json")
    history = history_of(tmp_path)
    assert [one.path for one in history.omitted] == ["odd"] * is_damaged
    if is_damaged:
        with pytest.raises(UsageError, match="a block without a time"):
            compare_results([COLLECTIVE, odd])
    else:
        assert compare_results([COLLECTIVE, odd]).figures
