"""How time grows with the batch and the model, what to use, and what it costs."""

import math
from typing import Any

import pytest

from raybench.documents.price import Price
from raybench.documents.study.plan import Settings, Study, Trial, Variant
from raybench.errors import UsageError
from raybench.services.study import check_goal
from raybench.services.study_options import Pricing
from raybench.studies.costs import Costing
from raybench.studies.result import result_of
from raybench.studies.scaling import scaling_variants
from raybench.studies.strategy import strategy_variant
from raybench.studies.sweep import answer_sweep, batch_variant, model_variant
from raybench.studies.sweep_fit import linear_fit, power_fit
from tests.studies.sample import outcomes_of, run_result, training_point

GIB = 2**30


def study(kind: str, *variants: Variant) -> Study:
    return Study(kind=kind, workload=("train",), variants=variants, repeats=3, seed=2)


def batches(seconds: dict[int, float | None], costing: Costing | None = None) -> Any:
    """The answer of a batch study from step times; None: it did not fit."""
    plan = study("batch-size", *(batch_variant(str(size)) for size in seconds))

    def trained(trial: Trial) -> dict[str, Any]:
        size = int(trial.variant.removeprefix("batch-"))
        taken = seconds[size]
        if taken is None:
            finding = {"rule": "rank-failed", "severity": "critical", "summary": "CUDA out of memory"}
            return run_result([], status="failed", benchmarks=[], findings=[finding])
        return run_result([training_point(taken, batch=size, memory={"peak_bytes": size * GIB})])

    return answer_sweep(plan, outcomes_of(plan, trained), costing)


def test_a_line_is_found_again() -> None:
    fit = linear_fit([(size, 0.03 + 0.01 * size) for size in (1, 2, 4, 8)])
    assert fit is not None
    assert (fit.fixed_seconds, fit.each_seconds) == (pytest.approx(0.03), pytest.approx(0.01))
    assert fit.half_batch == pytest.approx(3.0)
    assert fit.worst_relative_error == pytest.approx(0.0, abs=1e-9)
    assert linear_fit([(4, 0.1), (4, 0.2)]) is None
    constant = linear_fit([(1, 0.5), (8, 0.5)])
    assert constant is not None
    assert constant.half_batch is None


def test_a_power_is_found_again() -> None:
    fit = power_fit([(size, 2e-9 * size**0.9) for size in (1e6, 1e7, 1e8)])
    assert fit is not None
    assert fit.exponent == pytest.approx(0.9)
    assert fit.worst_relative_error == pytest.approx(0.0, abs=1e-9)
    assert power_fit([(1e6, 0.1)]) is None


def test_the_knee_is_recommended_with_what_it_saves() -> None:
    answer = batches({1: 0.11, 4: 0.14, 16: 0.30, 64: 1.10})
    assert (answer.recommended, answer.knee) == ("batch-16", "batch-16")
    assert "doubling it gains less than 10%; it has 92% of the most throughput measured" in answer.why
    assert "16.00 GiB at its peak, batch-64 64.00" in answer.why
    assert answer.fit.fixed_seconds > 0


def test_without_a_knee_the_largest_is_recommended_and_more_is_asked_for() -> None:
    answer = batches({1: 0.1, 2: 0.1, 4: 0.1})
    assert (answer.recommended, answer.knee) == ("batch-4", None)
    assert "throughput still grows there; measure larger ones" in answer.why
    answer = batches({1: 0.1, 2: 0.1, 4: None})
    assert answer.recommended == "batch-2"
    assert "batch-4 could not be measured" in answer.why


def test_a_knee_within_the_noise_is_only_likely() -> None:
    plan = study("batch-size", batch_variant("1"), batch_variant("2"))

    def trained(trial: Trial) -> dict[str, Any]:
        batch = int(trial.variant.removeprefix("batch-"))
        return run_result([training_point(0.1 * batch * (1 + 0.3 * trial.block * (batch - 1)), batch=batch)])

    answer = answer_sweep(plan, outcomes_of(plan, trained))
    assert answer.recommended == "batch-1"
    assert "likely only, since repeats of batch-2 differ by 23%" in answer.why


def models(figures: dict[str, tuple[float, int | None]]) -> Any:
    """The answer of a model study from step times and parameters."""
    plan = study("model-size", *(model_variant(name) for name in figures))

    def trained(trial: Trial) -> dict[str, Any]:
        seconds, parameters = figures[trial.variant]
        facts = {"parameters": parameters} if parameters else {}
        flop = 6e-12 * 1024 * (parameters or 0)
        return run_result([training_point(seconds, facts=facts, tflop_per_s_per_rank=flop / seconds or None)])

    return answer_sweep(plan, outcomes_of(plan, trained))


def test_the_largest_model_is_recommended_with_its_use_of_the_device() -> None:
    answer = models({"tiny": (0.1, 10**6), "small": (0.4, 10**7), "gpt2": (6.0, 10**8)})
    assert answer.recommended == "gpt2"
    assert "the largest that was trained, 100 M parameters; 1.00 GiB at its peak" in answer.why
    assert "it computes 67% of what small does a second" in answer.why
    assert answer.fit.exponent == pytest.approx(0.889, abs=0.01)


def test_models_of_unknown_size_are_not_ordered() -> None:
    answer = models({"tiny": (0.1, None), "small": (0.4, 10**7)})
    assert (answer.recommended, answer.fit) == (None, None)
    assert "not known" in answer.why


def test_costs_of_batches_and_of_an_epoch() -> None:
    answer = batches({1: 0.1, 2: 0.1}, Costing(price=Price(per_node_hour=3.6, source="given"), epoch_samples=5000))
    cost = answer.rows[1].cost  # 2 samples on each of 2 ranks in 0.1 s: 40 a second, on two nodes
    assert cost.per_1k_samples == pytest.approx(2 * 3.6 / 3600 * 1000 / 40)
    assert cost.per_epoch == pytest.approx(5 * cost.per_1k_samples)
    assert cost.hours_per_epoch == pytest.approx(5000 / 40 / 3600)
    assert batches({1: 0.1, 2: 0.1}).rows[0].cost is None


def scaled(rates: dict[int, float], price: float | None = 0.6, noise: float = 0.0) -> list[str]:
    """The advice of a weak scaling study from samples/s by number of nodes."""
    plan = Study(
        kind="scaling", workload=("train",), variants=scaling_variants(tuple(rates), ("weak",), 8), repeats=3, seed=1
    )

    def trained(trial: Trial) -> dict[str, Any]:
        nodes = plan.variant(trial.variant).facts.nodes
        seconds = 8 * nodes / rates[nodes] * (1 + noise * (trial.block - 1))
        return run_result([training_point(seconds, ranks=nodes)], nodes=[f"n{number}" for number in range(nodes)])

    given = Price(per_node_hour=price, source="given") if price else None
    content = result_of("s", plan, outcomes_of(plan, trained), price=given).to_json()
    return list(content["answer"]["modes"][0]["advice"])


def test_the_seeds_nodes_are_recommended_and_priced() -> None:
    """1.46, 2.80 and 5.50 samples/s: four nodes scale well, and cost 6 % more a sample than one."""
    first, cheapest, fastest = scaled({1: 1.46, 2: 2.80, 4: 5.50})
    assert first == "use 4 nodes: the most measured with at least 75% efficiency (94%)"
    assert cheapest == "cheapest for each sample: 1 node"
    assert fastest == "fastest: 4 nodes, 3.77x as fast for 6% more a sample"


def goal(**given: Any) -> str:
    """What is said of a goal over 1, 2 and 4 nodes that scale all but ideally, at 36 USD a node hour."""
    plan = Study(
        kind="scaling",
        workload=("train",),
        variants=scaling_variants((1, 2, 4), ("weak",), 8),
        repeats=3,
        seed=1,
        settings=Settings(epoch_samples=36_000, **given),
    )

    def trained(trial: Trial) -> dict[str, Any]:
        nodes = plan.variant(trial.variant).facts.nodes
        seconds = 0.8 * (1 + 0.02 * math.log2(nodes) + trial.block * 1e-4)
        return run_result([training_point(seconds, ranks=nodes)], nodes=[f"n{number}" for number in range(nodes)])

    price = Price(per_node_hour=36.0, source="given")
    return str(result_of("s", plan, outcomes_of(plan, trained), price=price).answer.modes[0].advice[-1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"deadline_seconds": 4000}, "36000 samples within 66 min 40 s: 1 node, measured: 60 min 0 s, 36 USD"),
        ({"deadline_seconds": 2000}, "36000 samples within 33 min 20 s: 2 nodes, measured: 30 min 36 s, 36.72 USD"),
        ({"deadline_seconds": 2000, "budget": 36.5}, "no number of nodes measured (up to 4) reaches it, nor does"),
        ({"budget": 36.5}, "36000 samples for at most 36.5 USD: 1 node, measured: 60 min 0 s, 36 USD"),
        ({"deadline_seconds": 600}, "(up to 4) reaches it. EXTRAPOLATED, not measured: 8 nodes would by the fit: "),
        ({"deadline_seconds": 0.5}, "no number of nodes measured (up to 4) reaches it, nor does"),
    ],
)
def test_the_nodes_for_a_goal_are_measured_ones_or_called_extrapolated(given: dict[str, Any], said: str) -> None:
    assert said in goal(**given)


def test_a_goal_needs_what_it_is_of() -> None:
    with pytest.raises(UsageError, match="--deadline needs --epoch-samples"):
        Pricing(deadline_seconds=3600.0)
    with pytest.raises(UsageError, match="--budget needs --price"):
        Pricing(budget=5.0, epoch_samples=10)
    with pytest.raises(UsageError, match="are of 'study scaling'"):
        check_goal("strategy", Pricing(deadline_seconds=3600.0, epoch_samples=10))


def test_nodes_that_scale_badly_are_not_recommended() -> None:
    assert scaled({1: 1.0, 2: 1.1}, price=None) == ["use 1 node: no more of them reach 75% of the ideal throughput"]
    (likely,) = scaled({1: 1.0, 2: 1.52}, price=None, noise=0.2)
    assert not likely.startswith("use") or "2 nodes" in likely


@pytest.mark.parametrize(("slower", "said"), [(0.2, True), (0.1, False)])
def test_what_the_recommended_strategy_saves_is_said_where_it_is_faster_for_certain(slower: float, said: bool) -> None:
    plan = study("strategy", strategy_variant("ddp"), strategy_variant("fsdp"))
    figures = {"ddp": 0.1, "fsdp": slower}

    def trained(trial: Trial) -> dict[str, Any]:
        return run_result([training_point(figures[trial.variant] * (1 + 0.001 * trial.block))])

    price = Price(per_node_hour=36.0, source="given")
    why = str(result_of("s", plan, outcomes_of(plan, trained), price=price).answer.why)
    assert ("of fsdp (50% less)" in why) is said
    assert ("1K samples cost" in why) is said


def test_a_strategy_that_fills_the_device_is_called_tight() -> None:
    plan = study("strategy", strategy_variant("ddp"), strategy_variant("fsdp"))
    figures = {"ddp": (0.1, 72.0), "fsdp": (0.2, 30.0)}

    def trained(trial: Trial) -> dict[str, Any]:
        seconds, gib = figures[trial.variant]
        memory = {"kind": "cuda", "peak_allocated_bytes": gib * GIB, "total_bytes": 80 * GIB}
        return run_result([training_point(seconds, memory=memory)])

    why = result_of("s", plan, outcomes_of(plan, trained)).answer.to_json()["why"]
    assert "fsdp reaches 0.50 of it with 0.42 of its memory" in why
    assert "it leaves 8.00 GiB of the device (10%)" in why
    assert "that is tight: for a larger batch or model measure fsdp as well" in why
