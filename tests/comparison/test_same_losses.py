"""The same training on both sides has to reach the same loss; another seed, rate or version is no reason to say so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.comparison.comparison import Comparison
from raybench.documents.reading import DocumentError
from raybench.services.comparing.baseline import check_baseline, create_baseline
from raybench.services.comparing.compare import compare_results

TRAINING = next((Path(__file__).parents[1] / "documents/samples").glob("training-*.json"))
STUDY = next((Path(__file__).parents[1] / "documents/samples/reports").glob("study-strategy-*.json"))
Change = Callable[[dict[str, Any]], object]


def losses(change: Callable[[int, float], float | None]) -> Change:
    """The loss of each step, counted from 0, changed."""

    def changed(content: dict[str, Any]) -> None:
        loss = content["benchmarks"][0]["points"][0]["loss"]
        loss["steps"] = [change(step, one) for step, one in enumerate(loss["steps"])]
        loss["first"], loss["last"] = loss["steps"][0], loss["steps"][-1]

    return changed


def compared(folder: Path, *changes: Change, gate: str | None = None) -> Comparison:
    content = json.loads(TRAINING.read_text(encoding="utf-8"))
    for change in changes:
        change(content)
    other = folder / "other.json"
    other.write_text(json.dumps(content), encoding="utf-8")
    return compare_results([TRAINING, other], gate=gate)


APART = losses(lambda _, loss: 1.05 * loss)
LATE = losses(lambda step, loss: loss * 1.05 ** (step > 2))
ROUNDED = losses(lambda step, loss: loss * (1 + 1e-6 * step))


@pytest.mark.parametrize(
    ("change", "said", "verdict", "gated"),
    [
        (ROUNDED, "same", "unknown", "unknown"),  # one launch of emulated nodes: its speed cannot be told
        (LATE, "unknown", "unknown", "unknown"),
        (APART, "different", "warning", "critical"),
    ],
    ids=["rounded", "late", "apart"],
)
def test_losses_of_one_training_are_judged_by_what_its_type_rounds(
    change: Change, said: str, verdict: str, gated: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, change)
    (one,) = found.losses
    assert (one.verdict, found.verdict) == (said, verdict)
    assert Comparison.of_json(json.loads(json.dumps(found.to_json())), "it") == found
    with_gate = compared(tmp_path, change, gate="90%")
    assert with_gate.verdict == gated
    assert ("end 4" in with_gate.verdict_reason) == (said == "unknown")
    assert ("should have the same losses" in with_gate.verdict_reason) == (said == "different")


@pytest.mark.parametrize("option", ["seed", "learning_rate", "batch_size"])
def test_another_training_need_not_reach_the_same_loss(option: str, tmp_path: Path) -> None:
    def other(content: dict[str, Any]) -> None:
        content["benchmarks"][0]["parameters"][option] = 7

    assert compared(tmp_path, APART, other).losses == ()


def test_a_trace_that_is_kept_is_no_other_training(tmp_path: Path) -> None:
    def profiled(content: dict[str, Any]) -> None:
        content["benchmarks"][0]["parameters"]["profile"] = True

    (one,) = compared(tmp_path, profiled).losses
    assert one.verdict == "same"


def test_another_torch_may_begin_elsewhere(tmp_path: Path) -> None:
    """It is said, and is no verdict: what differs stands above."""

    def newer(content: dict[str, Any]) -> None:
        for node in content["cluster"]["nodes"]:
            node["facts"]["torch"] = "99.0"
        content["environment"]["versions"]["torch"] = "99.0"

    found = compared(tmp_path, APART, newer, gate="90%")
    assert [one.verdict for one in found.losses] == ["different"]
    assert found.verdict != "critical"


def test_a_loss_that_is_no_number_is_not_held_against_another(tmp_path: Path) -> None:
    assert compared(tmp_path, losses(lambda _, __: None)).losses == ()


def evaluated(*found: float | None) -> Change:
    """Its validation losses."""

    def changed(content: dict[str, Any]) -> None:
        content["benchmarks"][0]["points"][0]["validation"] = [
            {"step": step, "epoch": 0.1, "loss": loss, "accuracy": 0.5, "samples": 9} for step, loss in enumerate(found)
        ]

    return changed


@pytest.mark.parametrize(
    ("before", "after", "is_open"),
    [
        ((3.0, 2.0), (3.0, 2.0), False),
        ((), (), False),
        ((), (3.0, 2.0), False),  # more is known than before
        ((3.0, 2.0), (None, None), True),
        ((3.0, 2.0), (), True),
        ((3.0, 2.0), (3.0, 2.0, None), True),
        ((3.0, None), (3.0, None), False),
    ],
)
def test_validation_losses_that_are_gone_or_no_numbers_leave_it_open(
    before: tuple[float | None, ...], after: tuple[float | None, ...], is_open: bool, tmp_path: Path
) -> None:
    sides = [folder_of(tmp_path / name, evaluated(*some)) for name, some in (("before", before), ("after", after))]
    found = compare_results(sides, gate="90%")
    assert [one.verdict for one in found.losses] == ["same"]
    assert ("has no validation loss" in found.verdict_reason) == is_open


@pytest.mark.parametrize(("last", "said"), [(2.0, "same"), (2.1, "unknown")])
def test_of_several_runs_all_have_to_have_validation_losses(last: float, said: str, tmp_path: Path) -> None:
    """Losses that part late are named before those that are gone."""
    reference = folder_of(tmp_path / "before", evaluated(3.0, 2.0))
    lost = folder_of(tmp_path / "after", evaluated(3.0, 2.0), evaluated(None), evaluated(3.0, last))
    for sides in ([reference, lost], [lost, reference]):
        found = compare_results(sides)
        assert [one.verdict for one in found.losses] == [said]
        assert found.exit_code == 3
        is_told = "1 of 3 trainings of ddp tiny have no validation loss" in found.verdict_reason
        assert is_told == (said == "same")


def fact(name: str, value: object) -> Change:
    return lambda content: content["benchmarks"][0]["points"][0]["facts"].update({name: value})


@pytest.mark.parametrize(("name", "value"), [("parameters", 7), ("data", "other text"), ("dtype", "bfloat16")])
def test_trainings_asked_for_alike_and_of_other_things_leave_it_open(name: str, value: object, tmp_path: Path) -> None:
    found = compared(tmp_path, losses(lambda _, loss: 5 * loss), fact(name, value), gate="90%")
    assert (found.losses, found.exit_code) == ((), 3)
    assert f"are not held against those of {TRAINING}: {name} {value}, not " in found.verdict_reason


def other_seed(content: dict[str, Any]) -> None:
    content["benchmarks"][0]["parameters"]["seed"] = 7


def other_version(content: dict[str, Any]) -> None:
    content["environment"]["versions"]["torch"] = "99.0"


@pytest.mark.parametrize(("change", "said"), [(other_seed, "seed 7, not 0"), (other_version, "parameters 7, not ")])
def test_what_was_asked_for_otherwise_or_another_version_counts_otherwise_is_remarked(
    change: Change, said: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, fact("parameters", 7), change)
    assert "not held against" not in found.verdict_reason
    (remark,) = [one for one in found.remarks if "not held against" in one]
    assert said in remark


def folder_of(folder: Path, *changes: Change) -> Path:
    for number, change in enumerate(changes):
        content = json.loads(TRAINING.read_text(encoding="utf-8"))
        content["started_at"] = f"2026-12-0{number + 1}T00:00:00+00:00"
        change(content)
        (folder / f"run-{number}").mkdir(parents=True)
        (folder / f"run-{number}" / "result.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ((ROUNDED, ROUNDED, ROUNDED), "same"),
        ((ROUNDED, LATE, ROUNDED), "unknown"),
        ((ROUNDED, LATE, APART), "different"),
    ],
)
def test_of_several_runs_the_one_that_is_furthest_off_is_judged(
    changes: tuple[Change, ...], verdict: str, tmp_path: Path
) -> None:
    several = folder_of(tmp_path / "several", *changes)
    for sides in ([TRAINING, several], [several, TRAINING]):
        (one,) = compare_results(sides).losses
        assert one.verdict == verdict
        assert len(one.last_losses) == 2


def test_losses_that_are_no_numbers_beside_those_that_are_leave_it_open(tmp_path: Path) -> None:
    found = compared(tmp_path, losses(lambda _, __: None), gate="90%")
    assert (found.exit_code, "has no losses that can be judged" in found.verdict_reason) == (3, True)
    lost = folder_of(tmp_path / "several", ROUNDED, losses(lambda _, __: None))
    said = compare_results([TRAINING, lost]).verdict_reason
    assert "1 of 2 runs have no losses of ddp tiny that can be judged" in said


def learned(folder: Path, name: str, change: Callable[[int, dict[str, Any]], object], **changes: Any) -> Path:
    """A study whose trials say how their losses began and ended; the change is told the number of each of a variant."""
    content = json.loads(STUDY.read_text(encoding="utf-8"))
    count: dict[str, int] = {}
    for trial in content["trials"]:
        number = count[trial["variant"]] = count.get(trial["variant"], -1) + 1
        for one in trial["measured"]:
            one |= {"first_loss": 5.5, "loss": 4.5, "validation_loss": 4.6, "dtype": "float32"}
            one |= {"steps": 40, "parameters": 100, "data": "text"}
            change(number, one)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content | {"study_id": name} | changes), encoding="utf-8")
    return path


def _nothing(_: int, __: dict[str, Any]) -> None:
    """As it was."""


def _times(name: str, factor: float | None, least: int = 0) -> Callable[[int, dict[str, Any]], object]:
    """One of its figures by a factor, from some trial on; without a factor it is no number."""

    def change(number: int, one: dict[str, Any]) -> None:
        if number >= least:
            one[name] = None if factor is None else one[name] * factor

    return change


@pytest.mark.parametrize(
    ("change", "said", "verdicts", "reason"),
    [
        (_nothing, "same", ("ok", "ok"), ""),
        (_times("loss", 1.009), "same", ("ok", "ok"), ""),
        (_times("loss", 1.05), "unknown", ("unknown", "unknown"), "begin with the same loss and end 4.9% apart"),
        (_times("first_loss", 1.05), "different", ("warning", "critical"), "should have the same losses"),
        (_times("first_loss", 1.05, least=1), "different", ("warning", "critical"), "should have the same losses"),
        (_times("loss", None), "", ("unknown", "unknown"), "has no losses that can be judged"),
        (_times("loss", None, least=1), "same", ("unknown", "unknown"), "trials have no losses of"),
        (_times("steps", 2), "same", ("ok", "ok"), ""),  # launched again: the losses are those of the first launch
        (_times("parameters", 2), "", ("unknown", "unknown"), "parameters 200, not 100"),
        (_times("parameters", 2, least=2), "same", ("unknown", "unknown"), "parameters 200, not 100"),
        (_times("data", 2), "", ("unknown", "unknown"), "data texttext, not text"),
        (_times("batch_size_per_rank", 2), "", ("unknown", "unknown"), "batch size a rank"),
        (_times("validation_loss", 1.009), "same", ("ok", "ok"), ""),
        (_times("validation_loss", 1.05), "unknown", ("unknown", "unknown"), "end 4.9% apart"),
        (_times("validation_loss", None), "same", ("unknown", "unknown"), "has no validation loss"),
        (_times("validation_loss", None, least=2), "same", ("unknown", "unknown"), "1 of 3 trainings of"),
        (_times("dtype", None), "", ("unknown", "unknown"), "has no losses that can be judged"),
        (_times("dtype", None, least=2), "same", ("unknown", "unknown"), "1 of 3 trials have no losses of"),
    ],
)
def test_a_studys_trainings_have_to_reach_the_losses_of_the_other(
    change: Callable[[int, dict[str, Any]], object],
    said: str,
    verdicts: tuple[str, str],
    reason: str,
    tmp_path: Path,
) -> None:
    before, after = learned(tmp_path, "before", _nothing), learned(tmp_path, "after", change)
    found = [compare_results([before, after], gate=gate) for gate in (None, "90%")]
    assert tuple(one.verdict for one in found) == verdicts
    assert {one.verdict for one in found[0].losses} == ({said} if said else set())
    assert reason in found[0].verdict_reason


def test_a_study_of_another_seed_need_not_reach_the_same(tmp_path: Path) -> None:
    workload = ["train", "--model", "tiny", "--seed", "7"]
    after = learned(tmp_path, "after", _times("first_loss", 2), workload=workload)
    assert compare_results([learned(tmp_path, "before", _nothing), after]).losses == ()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A baseline of three trainings that evaluated."""
    folder = folder_of(tmp_path_factory.mktemp("healthy"), *([evaluated(3.0, 2.0)] * 3))
    return create_baseline([folder]).to_json()


def checked(kept: dict[str, Any], folder: Path, *changes: Change) -> Comparison:
    (folder / "baseline.json").write_text(json.dumps(kept, sort_keys=True), encoding="utf-8")  # as jq -S writes it
    later = folder_of(folder / "later", lambda content: [one(content) for one in (evaluated(3.0, 2.0), *changes)])
    return check_baseline(folder / "baseline.json", later, gate="90%")


@pytest.mark.parametrize(
    ("change", "said", "reason", "exit_code"),
    [
        (ROUNDED, ["same"], "", 0),
        (LATE, ["unknown"], "end 4", 3),
        (APART, ["different"], "should have the same losses", 1),
        (losses(lambda _, __: None), [], "has no losses that can be judged", 3),
        (evaluated(None), ["same"], "has no validation loss", 3),
        (fact("parameters", 7), [], "parameters 7, not ", 3),
    ],
)
def test_a_baseline_keeps_losses_that_a_later_run_has_to_reach(
    change: Change, said: list[str], reason: str, exit_code: int, kept: dict[str, Any], tmp_path: Path
) -> None:
    found = checked(kept, tmp_path, change)
    assert [one.verdict for one in found.losses] == said
    assert reason in found.verdict_reason
    assert ("loss" in found.verdict_reason) == bool(reason)
    assert found.exit_code == exit_code


def test_a_baseline_from_before_losses_were_kept_is_read_and_said_not_to_judge_them(
    kept: dict[str, Any], tmp_path: Path
) -> None:
    older = {name: value for name, value in kept.items() if name != "losses"}
    found = checked(older, tmp_path, APART)
    assert found.losses == ()
    (remark,) = [one for one in found.remarks if "losses" in one]
    assert "are not judged" in remark


@pytest.mark.parametrize(("name", "value"), [("dtype", "int4"), ("first", 1e40), ("validation", "low")])
def test_losses_of_a_baseline_that_cannot_be_are_damage(name: str, value: object, kept: dict[str, Any]) -> None:
    assert RunsBaseline.of_json(kept, "it").losses
    first, *others = kept["losses"]
    with pytest.raises(DocumentError, match=r"losses\[0\]"):
        RunsBaseline.of_json({**kept, "losses": [{**first, name: value}, *others]}, "it")
