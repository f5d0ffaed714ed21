"""A comparison as a document: what differs, which figures are matched, the gate, and what is never a pass."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from raybench.comparison.comparing import compare
from raybench.comparison.run_side import run_side
from raybench.comparison.side import Side
from raybench.documents.comparison.comparison import Comparison
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError
from raybench.reports.formats import FORMATS
from tests.comparison.live_pairs import word_of
from tests.comparison.recorded import FULL, KEY, SLOWER, WHOLE_RUNS, side, whole_run
from tests.reports.sample import run_result


def one_side(name: str, result: RunResult) -> Side:
    return run_side(name, [result])


def test_the_same_result_twice_is_no_difference() -> None:
    result = run_result()
    found = compare([one_side("A", result), one_side("B", result)])
    assert (found.verdict, found.exit_code, found.differences) == ("ok", 0, ())
    assert found.verdict_reason.startswith("no difference in ")
    assert "; cannot tell in " in found.verdict_reason
    assert all(one.ratio == pytest.approx(1.0) for one in found.compared)
    for one in found.compared:  # a small message may differ by 30 % from launch to launch
        assert one.least_shown is not None
        assert one.difference == ("no difference" if one.least_shown < 0.05 else "cannot tell"), one


def test_one_run_a_side_never_says_no_difference_of_a_link_that_is_5_percent_slower() -> None:
    """It finds 198 of these 288; of the others it must not say that nothing differs."""
    found = [compare([side(before), side(after)]) for before in FULL for after in SLOWER]
    words = Counter(one.figures[0].difference for one in found)
    assert words == {"slower": 198, "cannot tell": 90}
    open_ones = [one for one in found if one.verdict == "unknown"]
    assert len(open_ones) == 90
    assert all(one.exit_code == 3 for one in open_ones)
    assert all(one.verdict_reason.startswith("cannot tell in 1 figure: less than ") for one in open_ones)
    shown = [one.figures[0].least_shown for one in open_ones]
    assert all(share is not None and share > 0.03 for share in shown)


def test_whole_runs_of_the_same_link_are_no_difference_and_5_percent_is_found() -> None:
    """Launches of a run are alike to 0.1 %: without the 1 % that matters to nobody five of these were "slower"."""
    numbers = {rate: [n for n, run in enumerate(WHOLE_RUNS) if run["rate"] == rate] for rate in ("100mbit", "95mbit")}
    near = [(a, b) for some in numbers.values() for at, a in enumerate(some) for b in some[at + 1 : at + 4 : 2]]
    same = Counter(word_of(compare([whole_run(a), whole_run(b)])) for a, b in near)
    other = Counter(
        word_of(compare([whole_run(a), whole_run(b)])) for a in numbers["100mbit"] for b in numbers["95mbit"][::4]
    )
    assert same["no difference"] >= 0.95 * same.total() > 100
    assert set(same) == {"no difference", "cannot tell"}
    assert other["slower"] >= 0.95 * other.total() == 190
    assert set(other) == {"slower", "cannot tell"}


def test_a_slower_link_is_said_to_be_slower_and_a_faster_one_faster() -> None:
    before, after = side(*FULL[:4], name="A"), side(*SLOWER[:4], name="B")
    slower, faster = compare([before, after]), compare([after, before])
    assert (slower.verdict, slower.exit_code) == ("warning", 0)
    assert "1.05" in slower.verdict_reason
    assert "x slower [" in slower.verdict_reason
    assert faster.verdict == "ok"
    assert "x faster [" in faster.verdict_reason


@pytest.mark.parametrize(
    ("gate", "after", "verdict", "exit_code"),
    [
        (0.03, SLOWER, "critical", 1),
        (0.10, SLOWER, "ok", 0),  # slower, by less than the gate, and surely so
        (0.03, FULL[4:], "ok", 0),
    ],
)
def test_the_gate_decides_by_the_interval(gate: float, after: list[list[float]], verdict: str, exit_code: int) -> None:
    found = compare([side(*FULL[:4]), side(*after[:4])], gate=gate)
    assert (found.verdict, found.exit_code) == (verdict, exit_code)


@pytest.mark.parametrize(
    ("gate", "text"), [(0.025, "2.5%"), (0.004, "0.4%"), (0.999999, "99.9999%"), (0.05, "5%"), (0.07, "7%")]
)
def test_a_gate_is_said_as_it_was_typed(gate: float, text: str) -> None:
    assert f" {text}" in compare([side(*FULL[:4]), side(*FULL[4:8])], gate=gate).verdict_reason


def test_a_gate_within_the_interval_is_neither_passed_nor_failed() -> None:
    noise = random.Random(5)
    restless = [[sample * noise.uniform(0.8, 1.2) for sample in run] for run in FULL[:3]]
    found = compare([side(*restless), side(*SLOWER[:3])], gate=0.05)
    found_alone = compare([side(FULL[0], allowed=0.3), side(FULL[1], allowed=0.3)], gate=0.05)
    assert found.exit_code in (1, 3)
    assert (found_alone.verdict, found_alone.exit_code) == ("unknown", 3)
    assert "cannot be told" in found_alone.verdict_reason


def test_what_the_other_side_has_no_figure_of_never_passes_a_gate() -> None:
    both, one = side(*FULL[:4], name="A"), side(*FULL[4:8], name="B")
    more = replace(both, figures={**both.figures, replace(KEY, point="2M"): both.figures[KEY]})
    found = compare([more, one], gate=0.05)
    assert (found.exit_code, found.verdict_reason) == (3, "all_reduce float32 sum, 2M was not compared: B has none")
    ungated = compare([more, one])
    assert (ungated.exit_code, "1 figure not compared" in ungated.verdict_reason) == (3, True)
    new = compare([one, more], gate=0.05)  # what came new is no regression, and is said not to be judged
    assert (new.exit_code, new.verdict_reason.endswith("since B has none: all_reduce float32 sum, 2M")) == (0, True)


def test_wrong_data_is_not_compared() -> None:
    good = side(*FULL[:4])
    wrong = replace(good, figures={KEY: replace(good.figures[KEY], problem="wrong data")})
    assert compare([good, wrong], gate=0.05).exit_code == compare([good, wrong]).exit_code == 1
    assert compare([wrong, wrong], gate=0.05).exit_code == compare([wrong, good]).exit_code == 3
    assert compare([good, wrong]).figures[0].reason == "wrong data"


@pytest.mark.parametrize("value", ["4", "unknown"])
def test_unlike_machines_are_refused_unless_asked_for(value: str) -> None:
    before, after = side(*FULL[:4]), replace(side(*FULL[4:8]), machine={"nodes": value})
    with pytest.raises(UsageError, match=f"nodes 2 and {value}") as refused:
        compare([before, after])
    assert refused.value.exit_code == 2
    assert "--unlike" in str(refused.value)
    found = compare([before, after], allow_unlike=True)
    assert [(one.about, one.name) for one in found.differences] == [("machine", "nodes")]


def test_other_kinds_and_too_few_are_refused() -> None:
    with pytest.raises(UsageError, match="A is a run, B is a study"):
        compare([side(FULL[0], name="A"), replace(side(FULL[0], name="B"), kind="study")])
    with pytest.raises(UsageError, match="two results"):
        compare([side(FULL[0])])


@pytest.mark.parametrize(
    ("parameters", "versions", "said", "exit_code"),
    [
        ('{"batch": 4}', ("1", "2"), "has batch 4, not 8", 3),
        ('{"batch": 8, "seed": 2}', ("1", "1"), "", 0),  # from where it begins, not what is measured
        ('{"batch": 8, "hook": "fp16"}', ("1", "2"), "", 0),  # an option that the older version does not name
        ('{"batch": 8, "hook": "fp16"}', ("1", "1"), "has hook fp16, not null", 3),
    ],
)
def test_a_parameter_that_changed_is_said_and_passes_no_gate_unless_told(
    parameters: str, versions: tuple[str, str], said: str, exit_code: int
) -> None:
    sides = [
        replace(one, figures={replace(KEY, parameters=text): one.figures[KEY]}, environment={"raybench": version})
        for one, text, version in zip(
            (side(*FULL[:4]), side(*FULL[4:8])), ('{"batch": 8, "seed": 1}', parameters), versions, strict=True
        )
    ]
    shown, gated = compare(sides), compare(sides, gate=0.05)
    assert [one.difference for one in shown.figures] == ["no difference"]
    assert (shown.exit_code, gated.exit_code) == (0, exit_code)
    assert (said in shown.verdict_reason, said in gated.verdict_reason) == (True, True)
    assert ("runs has " in shown.verdict_reason) == bool(said)
    assert compare(sides, gate=0.05, allow_unlike=True).exit_code == 0


def test_two_that_only_parameters_tell_apart_are_not_taken_for_each_other() -> None:
    before, after = side(*FULL[:4]), side(*FULL[4:8])
    both = {replace(KEY, parameters=text): after.figures[KEY] for text in ('{"batch": 8}', '{"batch": 9}')}
    assert {one.difference for one in compare([before, replace(after, figures=both)]).figures} == {"not compared"}


def test_configuration_and_environment_come_before_figures() -> None:
    result = run_result()
    content = result.to_json()
    content["config"] = {**content["config"], "iters": 77}
    content["environment"]["versions"]["torch"] = "9.9"
    content["environment"]["variables"]["NCCL_ALGO"] = "Tree"
    changed = RunResult.of_json(json.loads(json.dumps(content)), "B")
    found = {
        (one.about, one.name): one.values
        for one in compare([one_side("A", result), one_side("B", changed)]).differences
    }
    assert found["configuration", "iters"][1] == "77"
    assert found["environment", "NCCL_ALGO"][1] == "Tree"
    assert found["environment", "torch"][1].endswith("9.9")


def test_the_document_is_read_as_it_was_written_and_shown_in_every_format() -> None:
    found = compare([side(*FULL[:4], name="A"), side(*SLOWER[:4], name="B"), side(*FULL[4:8], name="C")], gate=0.03)
    content = json.loads(json.dumps(found.to_json()))
    assert content["schema"] == "raybench.comparison/1"
    assert Comparison.of_json(content, "it") == found
    for name, form in FORMATS.items():
        assert "slower" in form.render(found), name


def test_figures_that_could_hide_anything_are_no_evidence_of_no_difference() -> None:
    noise = random.Random(6)
    wild = [[noise.lognormvariate(0, 1.5) for _ in range(40)] for _ in range(2)]
    found = compare([side(wild[0], allowed=0.3), side(wild[1], allowed=0.3)])
    assert (found.verdict, found.exit_code) == ("unknown", 3)
    assert found.verdict_reason.startswith("cannot tell in 1 figure: less than ")
