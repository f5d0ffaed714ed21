"""Studies that lost figures, or are of something else: no gate passes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from raybench.services.comparing.baseline import check_baseline, create_baseline
from raybench.services.comparing.compare import compare_results
from raybench.services.comparing.sides import side_of
from tests.comparison.edited import Change, written
from tests.comparison.test_report_sides import STUDIES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(workload=[*one["workload"], "--model", "medium"]), "has workload"),
        (lambda one: one["variants"][0]["arguments"].append("--zero"), "has arguments"),
        (lambda one: one["variants"][-1].update(arguments=["--nodes", "9"]), "has arguments"),
        (lambda one: one.update(seed=77), ""),
    ],
)
def test_a_study_of_something_else_passes_no_gate(change: Change, said: str, tmp_path: Path) -> None:
    other = written(tmp_path / "study.json", STUDIES[1], change)
    found = compare_results([STUDIES[1], other], gate="5%")
    assert (found.exit_code, said in found.verdict_reason) == (3 if said else 0, True)
    assert compare_results([STUDIES[1], other], gate="5%", allow_unlike=True).exit_code == 0


def test_a_baseline_of_studies_has_every_figure_that_all_of_them_have(tmp_path: Path) -> None:
    def slower(factor: float) -> Change:
        def change(content: Any) -> None:
            content["study_id"] = f"study-{factor}"
            for trial in content["trials"]:
                for one in trial["measured"]:
                    one["seconds"] *= factor

        return change

    paths = [written(tmp_path / f"{at}.json", STUDIES[1], slower(1 + at / 1000)) for at in range(4)]
    made = create_baseline(paths[:3])
    whole = side_of(STUDIES[1]).figures
    assert len(made.figures) == len(whole) > 3
    assert [len(one.levels) for one in made.figures] == [3 * len(one.runs) for one in whole.values()]
    kept = tmp_path / "baseline.json"
    kept.write_text(json.dumps(made.to_json()), encoding="utf-8")
    assert check_baseline(kept, paths[3], gate="5%").exit_code == 0
    slow = written(tmp_path / "slow.json", STUDIES[1], slower(1.2))
    assert check_baseline(kept, slow, gate="5%").exit_code == 1
    benchmark = made.figures[0].benchmark
    lacking = written(tmp_path / "lacking.json", STUDIES[1], slower(1.1), lambda one: lose(one, benchmark))
    without = create_baseline([*paths[:2], lacking])
    assert benchmark not in {one.benchmark for one in without.figures}
    assert any(benchmark in one for one in without.omitted)


def lose(content: Any, benchmark: str) -> None:
    for trial in content["trials"]:
        if benchmark.endswith(f" {trial['variant']}"):
            trial["measured"] = []


def without(*places: tuple[int, int]) -> Change:
    """Figures of trials, by the number of each, that a study lacks; later ones of a trial first."""

    def changed(content: Any) -> None:
        for trial, figure in places:
            del content["trials"][trial]["measured"][figure]

    return changed


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ([], ""),
        ([0], "1 of {} trials have no"),
        ([0, 1], "2 of {} trials have no"),
    ],
)
def test_trials_of_a_study_that_lack_a_figure_leave_it_open(lost: list[int], said: str, tmp_path: Path) -> None:
    content = json.loads(STUDIES[1].read_text(encoding="utf-8"))
    variant = content["trials"][0]["variant"]
    alike = [number for number, one in enumerate(content["trials"]) if one["variant"] == variant]
    other = written(tmp_path / "it.json", STUDIES[1], without(*((alike[number], 0) for number in lost)))
    for sides in ([STUDIES[1], other], [other, STUDIES[1]]):
        found = compare_results(sides, gate="90%")
        assert found.exit_code == (3 if lost else 0)
        assert said.format(len(alike)) in found.verdict_reason


def test_a_trial_without_its_peak_memory_leaves_it_open(tmp_path: Path) -> None:
    other = written(
        tmp_path / "it.json", STUDIES[1], lambda content: content["trials"][0]["measured"][0].update(memory_bytes=None)
    )
    assert "trials have no" in compare_results([STUDIES[1], other], gate="90%").verdict_reason
