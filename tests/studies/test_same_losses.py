"""Whether what trains the same thing reaches the same loss: in a run of several strategies, and over a study."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from raybench.benchmarks.training.same_losses import loss_findings
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.result import RunResult
from raybench.documents.study.plan import Kind, Study, Trial
from raybench.documents.study.result import StudyResult
from raybench.reports.study.view import study_sections
from raybench.services.study_variants import variants_of
from raybench.studies.result import result_of
from tests.studies.sample import outcomes_of, run_result, training_benchmark, training_point

FACTS = {"dtype": "float32", "parameters": 158016, "data": "spiral"}


def trained(label: str, losses: Sequence[float], **changes: Any) -> dict[str, Any]:
    loss = {"first": losses[0], "last": losses[-1], "steps": list(losses)}
    facts = {**FACTS, **changes.pop("facts", {})}
    return training_point(0.1, steps=len(losses), label=label, loss=loss, facts=facts, **changes)


def of_run(*points: dict[str, Any], hook: str = "none") -> tuple[BenchmarkResult, ...]:
    found = run_result([])
    found["benchmarks"] = [
        training_benchmark([point], name=point["label"].split()[0], parameters={"comm_hook": hook}) for point in points
    ]
    return RunResult.of_json(found, "the result").benchmarks


def study(kind: Kind, subject: Mapping[str, Any], points: Mapping[str, dict[str, Any]]) -> StudyResult:
    plan = Study(kind=kind, workload=("train",), variants=tuple(variants_of(kind, subject)), repeats=1, seed=2)

    def made(trial: Trial) -> dict[str, Any]:
        point = points[trial.variant]
        ranks = point["global_batch_size"] // point["batch_size_per_rank"]
        return run_result([point], nodes=[f"node{rank}" for rank in range(ranks)])

    return result_of(f"{kind}-1", plan, outcomes_of(plan, made))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ((2.0, 1.0, 0.50), []),
        ((2.01, 1.0, 0.50), []),  # within what rounding makes
        ((2.0, 1.1, 0.6), []),  # begins alike: unknown, and no fault
        ((2.3, 1.0, 0.50), ["losses-differ"]),
    ],
)
def test_strategies_of_a_run_that_are_apart_from_the_first_step_on_are_found(
    other: tuple[float, ...], found: list[str]
) -> None:
    benchmarks = of_run(trained("ddp mlp", (2.0, 1.0, 0.5)), trained("fsdp mlp", other))
    assert [one.rule for one in loss_findings(benchmarks)] == found


@pytest.mark.parametrize(
    "second",
    [
        trained("lora mlp", (3.0, 1.0, 0.5)),  # another training
        trained("fsdp mlp", (3.0, 1.0, 0.5), batch=16),  # another global batch
        trained("fsdp mlp", (3.0, 0.5)),  # other steps
        trained("fsdp mlp", (3.0, 1.0, 0.5), facts={"dtype": "bfloat16"}),
        trained("fsdp mlp", (float("nan"), 1.0, 0.5)),  # which another rule tells of
    ],
)
def test_what_trains_something_else_is_not_compared(second: dict[str, Any]) -> None:
    assert not [*loss_findings(of_run(trained("ddp mlp", (2.0, 1.0, 0.5)), second))]


def test_gradients_that_are_sent_rounded_have_losses_of_their_own() -> None:
    points = (trained("ddp mlp", (2.0, 0.5)), trained("fsdp mlp", (3.0, 0.5)))
    assert [*loss_findings(of_run(*points))]
    assert not [*loss_findings(of_run(*points, hook="powersgd"))]


@pytest.mark.parametrize(
    ("other", "verdict", "exit_code", "said"),
    [
        ((2.0, 0.501), "same", 0, "reach the same loss: apart by at most 0.20%"),
        ((2.0, 0.6), "unknown", 0, "begin with the same loss and end 18.2% apart"),
        ((2.5, 0.5), "different", 1, "apart by 22.2% from the first timed step on"),
    ],
)
def test_a_study_judges_the_losses_of_its_strategies(
    other: tuple[float, ...], verdict: str, exit_code: int, said: str
) -> None:
    points = {"ddp": trained("ddp mlp", (2.0, 0.5)), "fsdp": trained("fsdp mlp", other)}
    found = study("strategy", {"strategies": "ddp,fsdp"}, points)
    (losses,) = found.losses
    assert (losses.verdict, found.exit_code == 1) == (verdict, exit_code == 1)
    assert said in losses.text
    section = study_sections(found)[-1]
    assert (section.title, section.notes) == ("The same loss", (losses.text,))
    assert any(said in text for text in (*found.problems, *found.remarks)) == (verdict != "same")
    assert StudyResult.of_json(found.to_json(), "it").losses == found.losses


def test_strong_scaling_reaches_one_loss_on_any_number_of_ranks() -> None:
    subject = {"nodes": "1,2", "mode": "strong", "batch_size": 16}
    learned = {"strong-1": trained("ddp mlp", (2.0, 0.5), batch=16, ranks=1),
               "strong-2": trained("ddp mlp", (2.0, 0.5), batch=8, ranks=2)}  # fmt: skip
    names = [variant.name for variant in variants_of("scaling", subject)]
    points = dict(zip(names, learned.values(), strict=True))
    (losses,) = study("scaling", subject, points).losses
    assert (losses.verdict, [*losses.last_losses]) == ("same", names)
    drawn = {name: {**point, "facts": {**FACTS, "data": None}} for name, point in points.items()}
    assert not study("scaling", subject, drawn).losses  # random samples are drawn by rank


def test_a_type_that_is_faster_is_recommended_with_its_validation_loss() -> None:
    def point(dtype: str, seconds: float, loss: float) -> dict[str, Any]:
        held = {"step": 2, "epoch": 1.0, "loss": loss, "accuracy": 0.9, "samples": 10}
        made = trained("ddp mlp", (2.0, loss), facts={"dtype": dtype}, validation=[{**held, "loss": 2.0}, held])
        return {**made, "samples_seconds": [seconds] * 2, "rank_seconds": [seconds] * 2}

    points = {"fp32": point("float32", 0.1, 0.5), "bf16": point("bfloat16", 0.05, 0.51)}
    plan = Study(
        kind="precision",
        workload=("train",),
        variants=tuple(variants_of("precision", {"dtypes": "fp32,bfloat16"})),
        repeats=5,
        seed=2,
    )
    found = result_of("precision-1", plan, outcomes_of(plan, lambda trial: run_result([points[trial.variant]])))
    assert found.answer.recommended == "bf16"
    assert "it reaches 2.00 of the throughput of fp32" in found.answer.why
    assert "validation loss 0.5100 against 0.5000 (+2.00%)" in found.answer.why
    assert not found.losses
    assert study_sections(found)[0].title == "Precision"
