"""The order of trials: random, complete in every block, and mirrored so that a steady drift favours nobody."""

from pathlib import Path

import pytest

from raybench.documents.study.plan import Study, Variant, order_of
from raybench.documents.study.ratio import Ratio
from raybench.errors import UsageError
from raybench.studies.compare import ratio_of, self_ratio, student
from raybench.studies.folder import StudyFolder
from raybench.studies.runner import command_of, left_seconds
from raybench.studies.scaling import scaling_variants


def study(*names: str, repeats: int = 4, seed: int = 1) -> Study:
    variants = tuple(Variant(name=name, arguments=("--env", f"A={name}")) for name in names)
    return Study(kind="network", workload=("run", "--nodes", "2"), variants=variants, repeats=repeats, seed=seed)


def test_each_block_has_every_variant_once_and_every_second_is_mirrored() -> None:
    blocks = order_of(["a", "b", "c"], 6, seed=7)
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks)
    assert [blocks[1], blocks[3], blocks[5]] == [block[::-1] for block in (blocks[0], blocks[2], blocks[4])]
    assert blocks == order_of(["a", "b", "c"], 6, seed=7)
    assert order_of(["a", "b", "c"], 9, seed=7)[:6] == blocks


def test_seeds_give_different_orders() -> None:
    assert len({tuple(map(tuple, order_of(list("abcd"), 2, seed))) for seed in range(20)}) > 5


def test_a_steady_drift_favours_nobody() -> None:
    """Each trial is 3 % slower than the one before; the variants are alike."""
    trials = study("a", "b", "c", repeats=4).trials()
    means = {name: sum(1 + 0.03 * one.number for one in trials if one.variant == name) / 4 for name in "abc"}
    assert max(means.values()) == pytest.approx(min(means.values()))


def test_a_trial_is_a_command_that_a_person_can_type() -> None:
    whole = study("a", "b")
    words = command_of(whole, whole.variant("b"), folder := Path("/x/003-b"))
    assert " ".join(words) == f"raybench run --nodes 2 --env A=b --output-dir {folder} --quiet"
    assert whole.trials()[3].folder == f"003-{whole.trials()[3].variant}"


@pytest.mark.parametrize("name", ["../up", "", "a/b", ".hidden", "-x", "a b", "a\n"])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name for a variant"):
        Variant(name=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"repeats": 0}, "--repeats is 0"), ({"kind": "wish"}, "no study of 'wish'"), ({"variants": ()}, "at least one")],
)
def test_impossible_plans_are_refused(changes: dict[str, object], message: str) -> None:
    values = {"kind": "network", "workload": ("run",), "variants": (Variant(name="a"),), "repeats": 1, "seed": 1}
    with pytest.raises(UsageError, match=message):
        Study(**(values | changes))


def test_a_variant_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="a is there twice"):
        study("a", "a")


def test_the_interval_of_a_ratio_is_students_on_logarithms() -> None:
    ratio = ratio_of([2.0, 4.5, 3.0], [1.0, 1.5, 1.5])
    assert ratio.value == pytest.approx((2 * 3 * 2) ** (1 / 3))
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low * ratio.high == pytest.approx(ratio.value**2)  # symmetric on the logarithm
    assert ratio.high / ratio.value == pytest.approx(1.789, rel=0.01)  # exp(4.303 x stddev(ln 2, ln 3, ln 2) / sqrt 3)
    assert [ratio.side_of(bound) for bound in (1.0, 2.0, 5.0)] == ["above", "inconclusive", "below"]


def test_one_block_decides_nothing() -> None:
    assert ratio_of([9.0], [1.0]).side_of(1.5) == "inconclusive"
    with pytest.raises(ValueError, match="one pair"):
        ratio_of([1.0], [])


def test_students_quantile_is_never_too_small() -> None:
    assert (student(1), student(4), student(11), student(1000)) == (12.706, 2.776, 2.228, 1.980)


def test_dividing_a_ratio_keeps_its_interval() -> None:
    assert Ratio(value=4.0, low=3.0, high=6.0, blocks=3).over(2) == Ratio(value=2.0, low=1.5, high=3.0, blocks=3)
    assert Ratio(value=4.0, low=None, high=None, blocks=1).over(4).value == 1
    assert self_ratio([2.0, 3.0, 2.5]) == 1.5


def test_time_left_takes_each_variant_as_it_was() -> None:
    assert left_seconds(["a"], {}) is None
    assert left_seconds(["a", "b", "b"], {"a": [10.0], "b": [2.0, 4.0]}) == 10 + 3 + 3
    assert left_seconds(["c"], {"a": [10.0], "b": [2.0]}) == 6


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"settings": {"epoch_samples": "many"}}, "epoch_samples"),
        ({"settings": {"epoch_samples": 0}}, "epoch_samples"),
        ({"settings": {"price": {"per_node_hour": "free"}}}, "price"),
        ({"settings": {"price": {"per_node_hour": -1, "source": "given"}}}, "a node hour cannot cost -1"),
        ({"variants": [{"name": "weak-2"}]}, "nodes"),
        ({"variants": [{"name": "weak-2", "facts": {"nodes": "2", "modes": ["weak"]}}]}, "nodes"),
    ],
)
def test_a_damaged_plan_is_refused_before_anything_runs(damage: dict[str, object], words: str, tmp_path: Path) -> None:
    whole = Study(
        kind="scaling", workload=("train",), variants=scaling_variants((1, 2), ("weak",), 8), repeats=2, seed=1
    )
    folder = StudyFolder.create(str(tmp_path), whole)
    assert folder.study() == whole
    folder.write("plan.json", {**whole.to_json(), **damage})
    with pytest.raises(UsageError, match=r"plan\.json is damaged") as caught:
        folder.study()
    assert words in str(caught.value)


def test_a_trial_whose_result_is_damaged_is_not_said_to_be_unbegun(tmp_path: Path) -> None:
    whole = Study(
        kind="scaling", workload=("train",), variants=scaling_variants((1, 2), ("weak",), 8), repeats=1, seed=1
    )
    folder = StudyFolder.create(str(tmp_path), whole)
    first, second = whole.trials()[:2]
    result = folder.trial_path(first) / "run" / "result.json"
    result.parent.mkdir(parents=True)
    result.write_text('{"schema": ')
    assert folder.outcome(first).reason == f"{result} cannot be read as a result"
    assert folder.outcome(second).reason is None
