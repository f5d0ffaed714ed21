"""Scaling studies: plans, figures, causes, costs, and the projection against a discrete simulation of the ranks."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from raybench.documents.price import Price
from raybench.documents.study.plan import Study, Trial
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError
from raybench.performance_model.projection import Scaling
from raybench.reports.study.scaling import scaling_sections
from raybench.studies.costs import Costing
from raybench.studies.result import result_of
from raybench.studies.scaling import ScalingAnswer, answer_scaling, band_of, scaling_variants
from tests.studies.sample import outcomes_of, run_result, training_point

BATCH = 32
COMPUTE_SECONDS = 0.4  # of a batch of 32
LATENCY_SECONDS, MESSAGE_SECONDS = 2e-3, 60e-3  # of a hop; of the whole message over one link


def simulated_step(nodes: int, batch: float, source: random.Random, *, noise: float = 0.002) -> float:
    """Seconds of a step: every rank computes, then recursive halving and doubling, each pair meeting in each round.

    Round k exchanges half of what is left with the rank whose number differs in bit k; nobody goes on before both are
    there. Nodes that are no power of two first hand their message to a partner, and get the sum at the end.
    """
    clock = [COMPUTE_SECONDS * batch / BATCH * source.lognormvariate(0, noise) for _ in range(nodes)]
    rounds = int(math.log2(nodes))
    half = 2**rounds
    for extra in range(half, nodes):
        clock[extra - half] = max(clock[extra], clock[extra - half]) + LATENCY_SECONDS + MESSAGE_SECONDS
    for distance in [*range(rounds), *reversed(range(rounds))]:
        share = MESSAGE_SECONDS / 2 ** (distance + 1)
        clock[:half] = [
            max(clock[rank], clock[rank ^ (1 << distance)]) + LATENCY_SECONDS + share for rank in range(half)
        ]
    return max(clock[:half]) + (LATENCY_SECONDS + MESSAGE_SECONDS if nodes > half else 0.0)


def study(*nodes: int, modes: Sequence[Scaling] = ("strong",), repeats: int = 5) -> Study:
    variants = scaling_variants(nodes, modes, BATCH)
    return Study(kind="scaling", workload=("train",), variants=variants, repeats=repeats, seed=11)


def batch_of(plan: Study, trial: Trial) -> tuple[int, int]:
    """Nodes and batch of a trial, from the options of its command."""
    words = plan.variant(trial.variant).arguments
    return int(words[words.index("--nodes") + 1]), int(words[words.index("--batch-size") + 1])


def simulated(plan: Study, *, noise: float = 0.002, **changes: Any) -> Callable[[Trial], dict[str, Any]]:
    def trained(trial: Trial) -> dict[str, Any]:
        nodes, batch = batch_of(plan, trial)
        source = random.Random(trial.number)
        steps = [simulated_step(nodes, batch, source, noise=noise) for _ in range(20)]
        point = training_point(sum(steps) / len(steps), batch=batch, ranks=nodes, **changes)
        return run_result([point], nodes=[f"node{number}" for number in range(nodes)])

    return trained


def answer(plan: Study, price: Price | None = None, **changes: Any) -> ScalingAnswer:
    return answer_scaling(plan, outcomes_of(plan, simulated(plan, **changes)), Costing(price=price))


@pytest.mark.parametrize("modes", [("strong",), ("weak",)])
def test_the_projection_holds_what_the_simulation_of_more_nodes_takes(modes: tuple[Scaling, ...]) -> None:
    (mode,) = answer(study(1, 2, 4, modes=modes)).modes
    for projection in mode.projections:
        if projection.nodes == 1000:
            continue  # no power of two: the algorithm sends more than the model knows
        batch = BATCH / projection.nodes if modes == ("strong",) else BATCH
        truth = simulated_step(projection.nodes, batch, random.Random(1), noise=0)
        assert projection.low_seconds * 0.97 <= truth <= projection.high_seconds * 1.03, projection
        assert projection.is_projection
        assert "a projection from at most 4 nodes" in projection.caveat
    assert [one.nodes for one in mode.projections] == [8, 16, 32, 64, 128, 256, 512, 1000]


def test_a_simulation_that_the_model_does_not_know_is_not_projected_as_certain() -> None:
    """Every node beyond the second waits 30 ms for a shared link: neither term of the model says so."""
    plan = study(1, 2, 4, 8)

    def congested(trial: Trial) -> dict[str, Any]:
        nodes, batch = batch_of(plan, trial)
        seconds = simulated_step(nodes, batch, random.Random(trial.number)) + 0.1 * max(0, nodes - 2)
        return run_result([training_point(seconds, batch=batch, ranks=nodes)], nodes=[f"n{n}" for n in range(nodes)])

    found = answer_scaling(plan, outcomes_of(plan, congested))
    assert any("do not trust its projection" in remark for remark in found.remarks)


def test_speedup_efficiency_and_bands_are_those_of_the_simulated_times() -> None:
    (mode,) = answer(study(1, 2, 4)).modes
    truth = {nodes: simulated_step(nodes, BATCH // nodes, random.Random(1), noise=0) for nodes in (1, 2, 4)}
    for row in mode.rows:
        assert row.speedup is not None
        assert row.efficiency is not None
        assert row.speedup.value == pytest.approx(truth[1] / truth[row.nodes], rel=0.01)
        assert row.efficiency.value == pytest.approx(truth[1] / truth[row.nodes] / row.nodes, rel=0.01)
    assert [row.band for row in mode.rows] == ["baseline", "good", "poor"]
    assert mode.amdahl_serial_share is not None
    assert mode.amdahl_serial_share == pytest.approx(0.325, abs=0.01)  # t(2) and t(4) by hand: 0.32 and 0.33
    assert mode.fit is not None
    assert mode.knee_nodes is not None


def test_both_modes_share_their_base() -> None:
    plan = study(1, 2, 4, modes=("strong", "weak"))
    assert [variant.name for variant in plan.variants] == ["base-1", "strong-2", "weak-2", "strong-4", "weak-4"]
    strong, weak = answer(plan).modes
    assert [(row.nodes, row.batch_size_per_rank) for row in strong.rows] == [(1, 32), (2, 16), (4, 8)]
    assert [(row.nodes, row.batch_size_per_rank) for row in weak.rows] == [(1, 32), (2, 32), (4, 32)]
    assert weak.amdahl_serial_share is None
    assert weak.rows[-1].efficiency is not None
    assert strong.rows[-1].efficiency is not None
    assert weak.rows[-1].efficiency.value > strong.rows[-1].efficiency.value


@pytest.mark.parametrize(
    ("nodes", "batch", "batches"),
    [((1, 2, 4), 8, [8, 4, 2]), ((2, 4, 6), 3, [3]), ((1, 3), None, [24, 8]), ((2, 8), None, [8, 2])],
)
def test_strong_scaling_keeps_the_global_batch(nodes: tuple[int, ...], batch: int | None, batches: list[int]) -> None:
    if len(batches) < len(nodes):
        with pytest.raises(UsageError, match="give a multiple of 6"):
            scaling_variants(nodes, ("strong",), batch)
        return
    variants = scaling_variants(nodes, ("strong",), batch)
    assert [int(variant.arguments[-1]) for variant in variants] == batches
    assert len({int(variant.arguments[-1]) * variant.facts.nodes for variant in variants}) == 1


@pytest.mark.parametrize(
    ("ratio", "band"),
    [
        (Ratio(value=0.95, low=0.92, high=0.98, blocks=5), "excellent"),
        (Ratio(value=0.8, low=0.76, high=0.84, blocks=5), "good"),
        (Ratio(value=0.72, low=0.71, high=0.74, blocks=5), "fair"),
        (Ratio(value=0.5, low=0.45, high=0.55, blocks=5), "poor"),
        (Ratio(value=0.74, low=0.65, high=0.8, blocks=5), "good to poor"),
        (Ratio(value=0.8, low=None, high=None, blocks=1), "good, inconclusive"),
    ],
)
def test_bands_need_the_whole_interval(ratio: Ratio, band: str) -> None:
    assert band_of(ratio) == band


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overhead": 0.55}, "communication: 55% of a step waits for it (high"),
        ({"overhead": 0.3}, "communication: 30% of a step waits for it (moderate)"),
        ({"overhead": None}, "is not known"),
        ({"data_share": 0.4}, "data loading takes 40%"),
        ({"batch_size_per_rank": 2}, None),  # as much as the base has: no cause
    ],
)
def test_poor_scaling_names_what_its_figures_point_to(changes: dict[str, Any], words: str | None) -> None:
    (mode,) = answer(study(1, 2, 4), **changes).modes
    assert all(row.causes == () for row in mode.rows if row.band != "poor")
    causes = next(row.causes for row in mode.rows if row.band == "poor")
    if words is None:
        assert not any("of a batch left" in cause for cause in causes)
    else:
        assert any(words in cause for cause in causes)


def test_a_small_batch_is_a_cause_where_strong_scaling_made_it_so() -> None:
    plan = study(1, 2, 16)
    (mode,) = answer(plan).modes
    assert any("only 2 of a batch left" in cause for cause in mode.rows[-1].causes)


def test_costs_are_nodes_times_price_over_throughput() -> None:
    price = Price(per_node_hour=0.6, source="given")
    (mode,) = answer(study(1, 2, 4), price).modes
    for row in mode.rows:
        assert row.cost is not None
        rate = row.samples_per_s
        assert rate is not None
        assert row.cost.per_1k_samples == pytest.approx(row.nodes * 0.6 * 1000 / rate / 3600)
        found = row.to_json()["cost"]
        assert found["hours_of_10000_samples"] == pytest.approx(10_000 / rate / 3600)
        assert found["of_10000_samples"] == pytest.approx(found["hours_of_10000_samples"] * row.nodes * 0.6)


def test_nodes_that_cost_nothing_are_no_dearer_than_each_other() -> None:
    (mode,) = answer(study(1, 4), Price(per_node_hour=0.0, source="given")).modes
    (told,) = [line for line in mode.advice if line.startswith("fastest")]
    assert mode.rows[1].speedup is not None
    assert told == f"fastest: 4 nodes, {mode.rows[1].speedup.value:.2f}x as fast"


def test_one_number_of_nodes_left_has_no_fit_and_says_why() -> None:
    plan = study(1, 2)
    outcomes = outcomes_of(plan, lambda trial: simulated(plan)(trial) if trial.variant == "strong-1" else None)
    result = result_of("s", plan, outcomes)
    (mode,) = result.answer.to_json()["modes"]
    assert (mode["fit"], mode["knee_nodes"], mode["projections"]) == (None, None, [])
    assert result.exit_code == 3
    assert any("strong-2: nothing was measured" in remark for remark in result.to_json()["remarks"])


def test_two_numbers_of_nodes_give_no_fit_and_no_projection() -> None:
    found = answer(study(1, 2))
    (mode,) = found.modes
    assert (mode.fit, mode.projections, mode.to_json()["knee_nodes"]) == (None, (), None)
    assert any("no fit and no projection of strong scaling from 2 numbers of nodes" in one for one in found.remarks)
    enough = answer(study(1, 2, 4))
    assert enough.modes[0].projections
    assert not any("no projection" in remark for remark in enough.remarks)


def noisy_repeats(plan: Study) -> list[TrialResult]:
    """One node takes 1 s; two take 0.1 s in three repeats and 9 s in two: medians give 10x, pairs of repeats 1.6x."""

    def trained(trial: Trial) -> dict[str, Any]:
        nodes, batch = batch_of(plan, trial)
        seconds = 1.0 if nodes == 1 else 9.0 if trial.block > 2 else 0.1
        return run_result(
            [training_point(seconds, batch=batch, ranks=nodes)], nodes=[f"n{one}" for one in range(nodes)]
        )

    return outcomes_of(plan, trained)


def test_a_ratio_that_does_not_follow_from_its_rows_is_shown_beside_the_one_that_does() -> None:
    plan = study(1, 2)
    made = result_of("s", plan, noisy_repeats(plan))
    (mode,) = made.answer.to_json()["modes"]
    one, two = mode["rows"]
    speedup = two["speedup"]
    assert speedup["of_rows"] == pytest.approx(two["samples_per_s"] / one["samples_per_s"])
    assert (speedup["of_rows"], speedup["value"]) == (pytest.approx(10), pytest.approx(10 * (0.1 / 9) ** 0.4))
    section = scaling_sections(made.answer, made)
    cells = [cell.text for cell in next(iter(section)).grid.rows[1]]
    assert any("(rows 10.00x)" in cell for cell in cells)


def test_where_pairs_and_rows_agree_one_ratio_is_shown() -> None:
    made = result_of("s", study(1, 2), outcomes_of(study(1, 2), simulated(study(1, 2))))
    assert "rows " not in str([row for section in scaling_sections(made.answer, made) for row in section.grid.rows])


def test_better_than_ideal_is_told_apart() -> None:
    plan = study(1, 2)

    def cached(trial: Trial) -> dict[str, Any]:
        nodes, batch = batch_of(plan, trial)
        point = training_point(1.0 if nodes == 1 else 0.3, batch=batch, ranks=nodes)
        return run_result([point], nodes=[f"n{number}" for number in range(nodes)])

    found = answer_scaling(plan, outcomes_of(plan, cached))
    assert any("better than ideal" in remark for remark in found.remarks)


def test_a_training_that_was_cut_is_in_no_fit() -> None:
    """Its steps may be the slow first ones, or those before something broke."""
    plan = study(1, 2, 4, repeats=3)

    def result(trial: Trial) -> dict[str, Any]:
        nodes = int(trial.variant.rpartition("-")[2])
        cut = trial.variant == "strong-4" and trial.block == 1
        batch = batch_of(plan, trial)[1]
        point = training_point(9.9 if cut else 1.0 / nodes, batch=batch, ranks=nodes, complete=not cut, steps=7)
        found = {"rule": "interrupted", "summary": "the run was stopped by the user", "severity": "critical"}
        return run_result([point], status="partial" if cut else "complete", findings=[found] if cut else [])

    outcomes = outcomes_of(plan, result)
    (mode,) = answer_scaling(plan, outcomes).modes
    assert [row.blocks for row in mode.rows] == [3, 3, 2]
    assert mode.rows[-1].speedup is not None
    assert mode.rows[-1].speedup.value == pytest.approx(4, rel=1e-6)
    made = result_of("s", plan, outcomes)
    assert (made.status, made.exit_code, len(made.broken)) == ("partial", 3, 1)
    said = next(remark for remark in made.to_json()["remarks"] if "is partial" in remark)
    assert said.endswith("the run was stopped by the user (7 timed steps of ddp tiny are in no comparison)")
