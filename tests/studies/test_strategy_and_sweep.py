"""Which strategy to use, and where larger batches stop to help."""

import random
from typing import Any

import pytest

from raybench.documents.study.plan import Study, Trial, Variant
from raybench.errors import UsageError
from raybench.services.study_variants import variants_of
from raybench.studies.result import result_of
from raybench.studies.strategy import answer_strategy, strategy_variant
from raybench.studies.sweep import answer_sweep, batch_variant, knee_of, model_variant
from tests.studies.sample import outcomes_of, run_result, training_benchmark, training_point

GIB = 2**30


def study(kind: str, *variants: Variant, repeats: int = 5) -> Study:
    return Study(kind=kind, workload=("train",), variants=variants, repeats=repeats, seed=2)


def strategies(figures: dict[str, tuple[float, float] | str], *, noise: float = 0.004) -> Any:
    """An answer from seconds and GiB of each strategy, or the reason for which it failed."""
    plan = study("strategy", *(strategy_variant(name) for name in figures))

    def trained(trial: Trial) -> dict[str, Any]:
        made = figures[trial.variant]
        if isinstance(made, str):
            failed = [training_benchmark([], name="train", status="failed", reason=made)]
            return run_result([], status="failed", benchmarks=failed)
        source = random.Random(trial.number)
        point = training_point(
            made[0] * source.lognormvariate(0, noise), memory={"peak_allocated_bytes": made[1] * GIB}
        )
        return run_result([point])

    return answer_strategy(plan, outcomes_of(plan, trained))


def test_the_fastest_is_recommended_where_nothing_is_as_fast() -> None:
    answer = strategies({"ddp": (0.1, 30), "fsdp": (0.1515, 10)})
    assert (answer.recommended, answer.certain) == ("ddp", True)
    assert "ddp is fastest, with 30.00 GiB at its peak; fsdp reaches 0.66 of it" in answer.why


def test_one_alone_is_not_called_the_fastest() -> None:
    answer = strategies({"ddp": (0.1, 30)})
    assert answer.why.startswith("ddp is the only one that was measured, with 30.00 GiB at its peak")


def test_memory_decides_between_strategies_that_are_alike() -> None:
    answer = strategies({"ddp": (0.1, 30), "fsdp": (0.102, 10), "fsdp-grad-op": (0.2, 5)})
    assert answer.recommended == "fsdp"
    assert "fsdp is as fast as ddp (0.98 of it) and needs less memory, with 10.00 GiB" in answer.why


def test_memory_that_hardly_differs_does_not_decide() -> None:
    answer = strategies({"ddp": (0.1, 30), "fsdp": (0.102, 29.5)}, noise=0.001)
    assert (answer.recommended, answer.certain) == ("ddp", True)


def in_blocks(seconds: dict[str, tuple[float, ...]]) -> Any:
    """An answer from the seconds of each repeat; fsdp needs a third of ddp's memory."""
    plan = study("strategy", *(strategy_variant(name) for name in seconds), repeats=len(seconds["ddp"]))

    def trained(trial: Trial) -> dict[str, Any]:
        memory = {"peak_allocated_bytes": (10 if trial.variant == "fsdp" else 30) * GIB}
        return run_result([training_point(seconds[trial.variant][trial.block], memory=memory)])

    return answer_strategy(plan, outcomes_of(plan, trained))


def test_a_wide_interval_is_not_called_as_fast() -> None:
    answer = in_blocks({"ddp": (0.1, 0.1, 0.1, 0.1, 0.1), "fsdp": (0.07, 0.2, 0.12, 0.09, 0.15)})
    assert (answer.recommended, answer.certain) == ("fsdp", False)
    assert "fsdp shows no significant difference in speed from ddp (" in answer.why
    assert ", 95 % interval 0." in answer.why


def test_of_two_repeats_the_faster_is_taken_for_the_fastest() -> None:
    """Two repeats give an interval that holds everything: that is no reason to call 0.7x as fast."""
    answer = in_blocks({"ddp": (0.2, 0.15), "fsdp": (0.2, 0.33)})
    assert (answer.recommended, answer.certain) == ("ddp", False)
    assert "ddp is fastest" in answer.why
    assert "as fast as" not in answer.why


def test_without_an_interval_it_is_only_likely() -> None:
    plan = study("strategy", strategy_variant("ddp"), strategy_variant("fsdp"), repeats=1)
    seconds = {"ddp": 0.1, "fsdp": 0.2}
    answer = answer_strategy(plan, outcomes_of(plan, lambda one: run_result([training_point(seconds[one.variant])])))
    assert (answer.recommended, answer.certain) == ("ddp", False)


def test_what_does_not_fit_is_said_and_not_recommended() -> None:
    answer = strategies({"ddp": "out of memory on rank 0", "fsdp": (0.15, 10)})
    assert answer.recommended == "fsdp"
    assert "ddp could not be measured (out of memory on rank 0)" in answer.why
    assert answer.rows[0].failed == "out of memory on rank 0"
    assert "ddp: out of memory on rank 0" in answer.remarks


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        ("rank 1 raised OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "complete", 0),
        ("it hung", "partial", 3),
    ],
)
def test_what_does_not_fit_is_an_answer_and_what_hangs_is_none(reason: str, status: str, code: int) -> None:
    """The first repeat of ddp fails; nobody tries the others."""
    plan = study("strategy", strategy_variant("ddp"), strategy_variant("fsdp"))

    def trained(trial: Trial) -> dict[str, Any] | None:
        if trial.variant == "fsdp":
            return run_result([training_point(0.2)])
        finding = {"rule": "rank-failed", "severity": "critical", "summary": reason}
        return run_result([], status="failed", benchmarks=[], findings=[finding]) if trial.block == 0 else None

    result = result_of("s", plan, outcomes_of(plan, trained))
    assert (result.status, result.exit_code) == (status, code)
    remarks = result.to_json()["remarks"]
    assert any("ddp does not fit into memory" in remark for remark in remarks) is (code == 0)
    assert any("trial 00" in remark for remark in remarks) is (code == 3)


def test_a_study_in_which_nothing_fits_is_not_clean() -> None:
    plan = study("strategy", strategy_variant("ddp"))
    finding = {"rule": "rank-failed", "severity": "critical", "summary": "CUDA out of memory"}
    made = outcomes_of(plan, lambda _: run_result([], status="failed", benchmarks=[], findings=[finding]))
    assert (result_of("s", plan, made).status, result_of("s", plan, made).exit_code) == ("failed", 3)


def test_adapters_are_told_from_training_it_all() -> None:
    assert any("another training" in remark for remark in strategies({"ddp": (0.1, 30), "lora": (0.05, 8)}).remarks)
    assert strategies({"lora": (0.1, 30), "qlora": (0.2, 8)}).remarks == ()


def test_nothing_measured_recommends_nothing() -> None:
    answer = strategies({"ddp": "no", "fsdp": "no"})
    assert (answer.recommended, answer.why) == (None, "nothing was measured")


def test_wrong_losses_are_never_recommended() -> None:
    plan = study("strategy", strategy_variant("ddp"), strategy_variant("fsdp"))
    seconds = {"ddp": 0.1, "fsdp": 0.2}
    outcomes = outcomes_of(
        plan, lambda trial: run_result([training_point(seconds[trial.variant], verified=trial.variant == "fsdp")])
    )
    result = result_of("s", plan, outcomes)
    assert result.answer.to_json()["recommended"] == "fsdp"
    assert result.exit_code == 1
    assert "ddp: its results were wrong" in result.answer.remarks


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(UsageError, match="no strategy to compare named 'zero'; there are: ddp, fsdp"):
        strategy_variant("zero")


@pytest.mark.parametrize(
    ("points", "knee"),
    [
        ([(1, 10.0), (2, 19.0), (4, 36.0), (8, 37.0), (16, 37.5)], 4),
        ([(1, 10.0), (2, 20.0), (4, 40.0)], None),
        ([(1, 10.0), (4, 11.0)], 1),  # 5 % a doubling
        ([(1, 10.0), (4, 13.0)], None),  # 14 % a doubling
        ([(1, 10.0), (2, 10.1), (4, 20.0)], None),  # it gains again
        ([(1, 10.0)], None),
    ],
)
def test_the_knee_is_where_doubling_stops_to_help(points: list[tuple[int, float]], knee: int | None) -> None:
    assert knee_of(points) == knee


def test_a_batch_study_orders_by_batch_and_names_the_knee() -> None:
    plan = study("batch-size", batch_variant("16"), batch_variant("4"), batch_variant("64"), repeats=3)
    overhead_seconds, sample_seconds = 0.01, 0.01

    def trained(trial: Trial) -> dict[str, Any]:
        batch = int(trial.variant.removeprefix("batch-"))
        seconds = overhead_seconds + batch * sample_seconds
        return run_result([training_point(seconds, batch=batch, memory={"peak_bytes": batch * GIB})])

    answer = answer_sweep(plan, outcomes_of(plan, trained))
    assert [row.variant for row in answer.rows] == ["batch-4", "batch-16", "batch-64"]
    assert [row.memory_bytes for row in answer.rows] == [4 * GIB, 16 * GIB, 64 * GIB]
    assert (answer.best, answer.knee) == ("batch-64", "batch-4")
    assert any("beyond batch 4 a rank" in remark for remark in answer.remarks)


def test_a_single_batch_says_nothing_about_larger_ones() -> None:
    plan = study("batch-size", batch_variant("4"))
    answer = answer_sweep(plan, outcomes_of(plan, lambda _: run_result([training_point(0.1)])))
    assert (answer.recommended, answer.knee) == ("batch-4", None)
    assert answer.why.startswith("it is the only one that was measured: nothing to compare it with")
    two = study("batch-size", batch_variant("4"), batch_variant("8"))
    rate = {"batch-4": 4, "batch-8": 8}
    grown = answer_sweep(two, outcomes_of(two, lambda one: run_result([training_point(0.1, batch=rate[one.variant])])))
    assert grown.why.startswith("throughput still grows there; measure larger ones")


def test_width_and_depth_of_an_mlp_are_a_model() -> None:
    variant = model_variant("mlp-64x3")
    assert (variant.name, variant.arguments) == ("mlp-64x3", ("--model", "mlp", "--hidden-dims", "64,64,64"))
    for text in ("mlp-0x3", "mlp-64", "mlp-64x0", "mlp-64x3x2"):
        with pytest.raises(UsageError, match="model"):
            variants_of("model-size", {"models": text})


def test_models_keep_their_order_and_have_no_knee() -> None:
    plan = study("model-size", model_variant("small"), model_variant("tiny"), repeats=3)
    seconds = {"small": 0.5, "tiny": 0.1}
    answer = answer_sweep(plan, outcomes_of(plan, lambda trial: run_result([training_point(seconds[trial.variant])])))
    assert [row.variant for row in answer.rows] == ["small", "tiny"]
    assert (answer.best, answer.knee) == ("tiny", None)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5", "٣"])
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a batch size"):
        batch_variant(text)
