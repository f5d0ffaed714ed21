"""A baseline of several runs: made of healthy ones of one machine, and what a later run is beside it."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raybench.cli.comparing.baseline import command
from raybench.comparison.baseline_side import baseline_of_runs, baseline_side
from raybench.comparison.comparing import compare
from raybench.comparison.joined import joined_side
from raybench.comparison.side import Side
from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.loading import load_document
from raybench.documents.reading import DocumentError
from raybench.errors import UsageError
from raybench.reports.formats import FORMATS
from raybench.services.comparing.baseline import check_baseline, create_baseline
from tests.comparison.recorded import SERIES, sampled_run
from tests.comparison.test_report_sides import COLLECTIVE

FACTORS = (1.0, 1.004, 0.997, 1.002, 0.999)  # of runs of one machine: under 1 % apart


def run_of(folder: Path, factor: float, **changes: object) -> Path:
    """A recorded run, each of whose figures is a factor apart from what it was, with a little noise in its samples."""
    noise = random.Random(factor)
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    for benchmark in content["benchmarks"]:
        for point in benchmark["points"]:
            point["samples_seconds"] = [
                point["seconds"]["median"] * factor * noise.uniform(0.999, 1.001) for _ in point["samples_seconds"]
            ]
            point["ci95_seconds"] = None
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({**content, **changes}), encoding="utf-8")
    return folder


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """A folder of five runs."""
    for number, factor in enumerate(FACTORS):
        run_of(tmp_path / "week" / f"run-{number}", factor)
    return tmp_path / "week"


def called(*arguments: Path | str) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments])


def test_a_later_run_is_checked_by_the_spread_between_the_runs(healthy: Path, tmp_path: Path) -> None:
    kept = tmp_path / "healthy.json"
    assert called("create", healthy, "-o", kept).exit_code == 0
    assert isinstance(load_document(kept), RunsBaseline)
    same, slower = run_of(tmp_path / "same", 1.001), run_of(tmp_path / "slower", 1.12)
    passed = check_baseline(kept, same, gate="5%")
    assert (passed.verdict, passed.exit_code) == ("ok", 0)
    assert {one.repeated for one in passed.compared} == {"runs"}
    assert {one.counts for one in passed.compared} == {(5, 1)}
    assert called("check", kept, slower).exit_code == 1
    assert called("check", kept, slower, "--gate", "30%").exit_code == 0


def test_a_baseline_is_read_as_it_was_written_and_shown_in_every_format(healthy: Path) -> None:
    made = create_baseline([healthy])
    assert RunsBaseline.of_json(json.loads(json.dumps(made.to_json())), "it") == made
    assert all(len(FORMATS[name].render(made)) > 40 for name in FORMATS)


def _with_losses(side: Side, number: int) -> Side:
    lost = tuple((number / 100, launch / 100) for launch in range(3))
    figures = {key: replace(one, stolen=(number / 100,), lost=(lost,)) for key, one in side.figures.items()}
    words = {"ranks": ["not judged"], "data": ["judged", "not judged"], "pairs": ["judged"]}
    checks = {name: frozenset(found) for name, found in words.items()}
    return replace(side, figures=figures, checks=checks)


def test_a_baseline_says_what_its_runs_themselves_would() -> None:
    """Its samples tell a launch that was held up, as in ``compare``; one of before they were kept has levels."""
    names = list(sampled_run(SERIES["load 3 to 16"][0]).figures)
    runs = [run for run in SERIES["load 3 to 16"] if run["rate"] == "100mbit"]
    sides = [_with_losses(replace(sampled_run(run), run_ids=(str(number),)), number) for number, run in enumerate(runs)]
    kept = baseline_of_runs(joined_side("B", sides[:6]))
    read = RunsBaseline.of_json(json.loads(json.dumps(kept.to_json())), "it")
    found = [compare([side, sides[6]]) for side in (joined_side("B", sides[:6]), baseline_side("B", read))]
    shown = [[(one.ratio, one.low, one.high) for one in each.figures] for each in found]
    for before, after in zip(*shown, strict=True):
        assert after == pytest.approx(before)
    assert found[1].figures[0].stolen == pytest.approx((0.025, 0.06))
    checks = dict(baseline_side("B", read).checks)
    assert checks == sides[0].checks  # what some runs judged and others did not as well
    older = RunsBaseline.of_json({**kept.to_json(), "checks": {}}, "it")  # of before they were kept
    assert baseline_side("B", older).checks == {name: checks[name] for name in ("ranks", "pairs")}
    lost = replace(sides[6], checks=checks | {"data": frozenset(["not judged"])})
    assert "check data is not judged" in compare([baseline_side("B", read), lost], gate=0.05).verdict_reason
    silent = replace(sides[6], checks=checks | {"pairs": frozenset(["not judged"])})
    assert "check pairs is not judged" in compare([baseline_side("B", read), silent], gate=0.05).verdict_reason
    unsampled = {**kept.to_json(), "figures": [{**one, "samples": []} for one in kept.to_json()["figures"]]}
    levels = baseline_side("B", RunsBaseline.of_json(unsampled, "it"))
    assert [len(launch[0]) for launch in levels.figures[names[0]].launches] == [1] * 18


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"samples": [[[[1.0]]]]}, "samples of other launches"),
        ({"samples": [[[[]]]] * 5}, "a launch without a sample"),
        ({"samples": [[[[], [1.0]]]] * 5}, "a launch without a sample, or a block of one"),
        ({"stolen": [0.1]}, "shares of other runs"),
        ({"lost": [[[0.1]]]}, "losses of other launches"),  # of one of five runs
        ({"lost": [[[0.1]], [], [], [], [[0.1], [0.2]]]}, "losses of other launches"),
        ({"lost": [[[1.5]], [], [], [], []]}, "Expected `float`"),
        ({"samples": [[[[-1.0]]]] * 5}, "Expected `float`"),
    ],
)
def test_samples_of_a_baseline_that_cannot_be_are_damage(healthy: Path, changed: dict[str, Any], why: str) -> None:
    content = create_baseline([healthy]).to_json()
    content["figures"][0] |= changed
    with pytest.raises(DocumentError, match=why):
        RunsBaseline.of_json(content, "it")


def test_too_few_runs_are_no_baseline(healthy: Path) -> None:
    with pytest.raises(UsageError, match="3 or more"):
        create_baseline([healthy / "run-0", healthy / "run-1"])


@pytest.mark.parametrize("verdict", ["critical", "incomplete"])
def test_a_run_that_was_not_healthy_is_not_taken(verdict: str, healthy: Path, tmp_path: Path) -> None:
    bad = run_of(tmp_path / "bad", 1.0, verdict=verdict, verdict_reason="it")
    with pytest.raises(UsageError, match=f"bad is {verdict}"):
        create_baseline([healthy, bad])


def test_what_is_no_baseline_or_is_damaged_is_said_to_be(healthy: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the baseline"):
        check_baseline(healthy / "run-0" / "result.json", healthy / "run-1", gate="5%")
    content = create_baseline([healthy]).to_json()
    content["figures"][0]["levels"] = [[]]
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UsageError, match="without a launch"):
        check_baseline(damaged, healthy, gate="5%")


def test_unlike_machines_are_not_mixed(healthy: Path, tmp_path: Path) -> None:
    cluster = json.loads(COLLECTIVE.read_text(encoding="utf-8"))["cluster"]
    other = run_of(tmp_path / "other", 1.0, cluster=cluster | {"backend": "nccl"})
    with pytest.raises(UsageError, match="unlike machines"):
        create_baseline([healthy, other])


def without_its_last_point(folder: Path) -> Path:
    content = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    del content["benchmarks"][0]["points"][-1]
    (folder / "result.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_what_some_runs_lack_is_omitted_and_said(healthy: Path, tmp_path: Path) -> None:
    kept, later = tmp_path / "healthy.json", run_of(tmp_path / "later", 1.001)
    without_its_last_point(healthy / "run-2")
    made = called("create", healthy, "-o", kept)
    assert (made.exit_code, "left out: 1 of 5 runs have no all_reduce" in made.output) == (0, True)
    found = check_baseline(kept, later, gate="5%")
    assert (found.exit_code, "leaves out a figure: 1 of 5 runs have no" in found.verdict_reason) == (3, True)
    assert f"not judged, since {kept} has none: all_reduce" in found.verdict_reason
    assert check_baseline(kept, without_its_last_point(later), gate="5%").exit_code == 3


@pytest.mark.parametrize(
    ("verdict", "status", "exit_code"),
    [("ok", "complete", 0), ("critical", "complete", 1), ("ok", "failed", 1), ("incomplete", "partial", 3)],
)
def test_what_a_run_says_of_itself_counts_beside_a_baseline(
    verdict: str, status: str, exit_code: int, healthy: Path, tmp_path: Path
) -> None:
    kept, content = tmp_path / "healthy.json", create_baseline([healthy]).to_json()
    later = run_of(tmp_path / "later", 1.001, verdict=verdict, verdict_reason="it", status=status)
    older = {name: content[name] for name in content if name not in ("outcomes", "omitted")}  # of before they were kept
    for one in (content, older):
        kept.write_text(json.dumps(one), encoding="utf-8")
        assert check_baseline(kept, later, gate="5%").exit_code == exit_code


def test_a_run_that_did_not_come_to_its_end_is_not_lost(healthy: Path, tmp_path: Path) -> None:
    begun, kept = tmp_path / "week" / "run-9", tmp_path / "healthy.json"
    kept.write_text(json.dumps(create_baseline([healthy]).to_json()), encoding="utf-8")
    begun.mkdir()
    assert check_baseline(kept, healthy, gate="5%").exit_code == 0  # a folder of something else, such as plots
    (begun / "samples.jsonl").touch()
    with pytest.raises(UsageError, match="run-9 has no result"):
        create_baseline([healthy])
    found = check_baseline(kept, healthy, gate="5%")
    assert (found.exit_code, found.verdict_reason) == (3, f"{healthy}: run-9 has no result")


def test_a_run_counts_once(healthy: Path) -> None:
    with pytest.raises(UsageError, match=r"run-0 is the same result as .*run-0; a baseline is made of different runs"):
        create_baseline([healthy, healthy / "run-0"])


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [("NCCL_ALGO", "Tree", True), ("NCCL_DEBUG_FILE", "b", False), ("torch", "b", False)],
)
def test_other_configurations_are_not_mixed(
    name: str, value: str, is_refused: bool, healthy: Path, tmp_path: Path
) -> None:
    for run, said in ((healthy / "run-0", "a"), (healthy / "run-1", value)):
        content = json.loads((run / "result.json").read_text(encoding="utf-8"))
        content["environment"]["variables"][name] = said
        (run / "result.json").write_text(json.dumps(content), encoding="utf-8")
    runs = [healthy / "run-0", healthy / "run-1"]
    third = run_of(tmp_path / "third", 1.003)
    content = json.loads((third / "result.json").read_text(encoding="utf-8"))
    content["environment"]["variables"][name] = "a"
    (third / "result.json").write_text(json.dumps(content), encoding="utf-8")
    if is_refused:
        with pytest.raises(UsageError, match=f"{name} a and {value}"):
            create_baseline([*runs, third])
    else:
        assert create_baseline([*runs, third]).figures


@pytest.mark.parametrize(("factor", "is_read"), [(1.0, True), (1 + 1e-9, True), (1.01, False), (0.5, False)])
def test_a_level_that_is_not_that_of_its_samples_is_refused(
    healthy: Path, tmp_path: Path, factor: float, is_read: bool
) -> None:
    kept = create_baseline([healthy]).to_json()
    kept["figures"][0]["levels"][0][0] *= factor
    (tmp_path / "it.json").write_text(json.dumps(kept), encoding="utf-8")
    if is_read:
        load_document(tmp_path / "it.json")
        return
    with pytest.raises(DocumentError, match="a level that is not that of its samples"):
        load_document(tmp_path / "it.json")


def test_results_without_anything_measured_make_no_baseline_and_are_told_so() -> None:
    checked = Side(name="night", kind="preflight", run_ids=("a", "b", "c"), outcomes={"verdict": "pass"})
    with pytest.raises(UsageError, match="nothing that was measured, as a preflight without tests"):
        baseline_of_runs(checked)
