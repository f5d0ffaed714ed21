"""What runs proved: wrong data, missing ranks, shared GPUs and bad losses fail; what was not compared is unknown."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from raybench.benchmarks.messages.combine import point_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.documents.part import part_of
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint, Use
from raybench.documents.run.training.point import TrainingPoint
from raybench.services.selftest import measured
from raybench.services.selftest.check import Outcome, RunReading
from tests.benchmarks.gloo_ranks import Sabotage, points_of, run_ranks
from tests.benchmarks.messages.test_verification import breaking
from tests.reports.sample import point
from tests.services.selftest.machine import (
    UUIDS,
    after,
    cluster,
    collectives,
    driver,
    operation,
    result,
    torch,
)

SAMPLES = (((1e-4, 1e-4),),)


def judged_collectives(*benchmarks: BenchmarkResult, **changes: Any) -> Outcome:
    run = RunReading(result=result(benchmarks, **changes))
    return measured.collectives(after("collectives", run))


def measured_all_reduce(sabotage: Sabotage | None) -> BenchmarkResult:
    """An all_reduce of three real ranks over gloo."""
    spec = BenchmarkSpec(
        name="all_reduce", kind="collective", sizes=(4096,), reduce_op="sum", in_place=True, warmup=0, iterations=1
    )
    heard = run_ranks(3, (spec,), sabotage=sabotage)
    points = (point_of([{rank: points_of(events, 0)[0] for rank, events in enumerate(heard)}]),)
    return operation("all_reduce", points=points)


def test_a_wrong_reduction_of_real_ranks_fails_the_check_and_a_right_one_passes() -> None:
    def one_more(_args: Any, buffers: Any, call: Any) -> Any:
        def operate() -> None:
            call()
            buffers.receive[0] += 1

        return operate

    bad = judged_collectives(*collectives(all_reduce=measured_all_reduce(breaking("all_reduce", one_more))))
    assert (bad.result, bad.seen, bad.figures["wrong_elements"]) == ("failed", "wrong data: all_reduce", 1)
    good = judged_collectives(*collectives(all_reduce=measured_all_reduce(None)))
    assert (good.result, good.figures["wrong_elements"]) == ("passed", 0)


def test_a_nan_of_real_ranks_fails_the_check() -> None:
    def nan(_args: Any, buffers: Any, call: Any) -> Any:
        def operate() -> None:
            call()
            buffers.receive[0] = math.nan

        return operate

    bad = judged_collectives(*collectives(all_reduce=measured_all_reduce(breaking("all_reduce", nan))))
    assert (bad.result, bad.figures["wrong_elements"]) == ("failed", 1)


def test_a_collective_that_is_missing_broke_or_was_not_verified_is_never_passed() -> None:
    missing = [one for one in collectives() if one.name != "broadcast"]
    assert (judged_collectives(*missing).result, "broadcast" in judged_collectives(*missing).seen) == ("failed", True)
    broken = operation("reduce", status="failed", points=(), reason="NCCL error: unhandled system error")
    outcome = judged_collectives(*collectives(reduce=broken))
    assert (outcome.result, outcome.seen) == ("failed", "reduce: NCCL error: unhandled system error")
    unverified = operation("gather", points=(point(1024, samples=SAMPLES, verified=None),))
    assert judged_collectives(*collectives(gather=unverified)).result == "unknown"
    skipped = operation("gather", status="skipped", points=(), reason="gloo has no gather")
    assert judged_collectives(*collectives(gather=skipped)).result == "unknown"
    assert judged_collectives(*collectives()).result == "passed"


def test_ray_fails_where_a_rank_did_not_join() -> None:
    run = RunReading(result=result(collectives()))
    assert measured.ray_cluster(after("collectives", run)).result == "passed"
    where = cluster((UUIDS[0],))
    lost = RunReading(result=result((), where=replace(where, world_size=2)))
    outcome = measured.ray_cluster(after("collectives", lost))
    assert (outcome.result, outcome.seen.startswith("1 of 2 ranks joined")) == ("failed", True)


@pytest.mark.parametrize(
    ("reading", "in_torch", "in_ray", "verdict"),
    [
        ({}, 2, 2, "passed"),
        ({}, 2, 1, "failed"),  # Ray counts fewer than torch
        ({}, 1, 1, "failed"),  # NVML has two, nothing hides one: MIG, or a mask elsewhere
        ({"visible_devices": "0"}, 1, 1, "passed"),  # the user hides one
        ({"nvml_problem": "nvidia-ml-py is not installed", "gpus": ()}, 2, 2, "unknown"),
    ],
)
def test_nvml_torch_and_ray_see_the_same_gpus(
    reading: dict[str, Any], in_torch: int, in_ray: int, verdict: str
) -> None:
    run = RunReading(result=result(collectives(), where=cluster(gpus=in_ray)))
    seen = torch(gpus=torch().gpus[:in_torch])
    assert measured.gpu_count(after("collectives", run, driver=driver(**reading), torch=seen)).result == verdict


def test_each_rank_is_listed_with_what_it_computed_on() -> None:
    run = RunReading(result=result(collectives()))
    listed = [(one.run, one.rank, one.device, one.gpu_uuid) for one in measured.rank_table(after("collectives", run))]
    assert listed == [("collectives", rank, f"cuda:{rank}", uuid) for rank, uuid in enumerate(UUIDS)]
    assert measured.rank_table(after("memory", RunReading(problem="no Ray"))) == ()


@pytest.mark.parametrize(
    ("uuids", "visible", "verdict"),
    [
        (UUIDS, 2, "passed"),
        ((UUIDS[0], UUIDS[0]), 2, "failed"),  # two ranks on one GPU
        ((UUIDS[0],), 2, "failed"),  # a GPU without a rank
        (UUIDS, 1, "failed"),  # masked: NCCL cannot see its peers
        ((UUIDS[0], None), 2, "unknown"),
    ],
)
def test_each_rank_has_a_gpu_of_its_own(uuids: tuple[str | None, ...], visible: int, verdict: str) -> None:
    run = RunReading(result=result(collectives(), where=cluster(uuids, visible=visible)))
    assert measured.rank_devices(after("collectives", run)).result == verdict


def trained(**changes: Any) -> BenchmarkResult:
    content = {
        "label": "ddp tiny",
        "samples_seconds": [0.02, 0.02, 0.02],
        "rank_seconds": [0.02, 0.02],
        "batch_size_per_rank": 2,
        "global_batch_size": 4,
        "tokens_per_sample": 32,
        "flop_per_sample": 1e7,
        "phases_seconds": {},
        "loss": {"steps": [6.2, 6.1, 6.0]},
        "memory": {"kind": "rss", "peak_bytes": 1e8},
        "utilization": {},
        "communication": {},
        "facts": {"dtype": "float32"},
        "verified": True,
        "reference": {"max_relative_difference": 1e-7, "tolerance": 1e-4},
    }
    training = part_of(TrainingPoint, content | changes, "a training")
    return operation("ddp", kind="training", points=(), workload=(training,))


@pytest.mark.parametrize(
    ("changes", "verdict", "said"),
    [
        ({}, "passed", "3 steps on 2 ranks"),
        ({"loss": {"steps": [6.2, None, 6.0]}}, "failed", "a loss is not a number"),
        (
            {"verified": False, "reference": {"max_relative_difference": 0.3, "tolerance": 1e-4}},
            "failed",
            "differ from a single process by 0.3",
        ),
        ({"verified": None, "reference": {"reason": "peft draws its own weights"}}, "unknown", "peft draws"),
        ({"failed": "CUDA out of memory"}, "failed", "CUDA out of memory"),
    ],
)
def test_a_training_is_right_where_it_matches_a_single_process(
    changes: dict[str, Any], verdict: str, said: str
) -> None:
    run = RunReading(result=result((trained(**changes),)))
    outcome = measured.training("ddp")(after("training", run))
    assert (outcome.result, said in outcome.seen) == (verdict, True), outcome.seen


def test_a_training_that_is_not_there_fails() -> None:
    run = RunReading(result=result((), status="failed"))
    assert measured.training("fsdp")(after("training", run)).result == "failed"


def fitted(*pairs: tuple[int, int | None]) -> BenchmarkResult:
    uses = tuple(
        Use(
            batch_size=size,
            fits=True,
            parameters=1,
            gradients=1,
            optimizer_state=1,
            activations=1,
            peak=peak,
            reserved=peak,
            estimate={} if estimate is None else {"allocated": estimate},
        )
        for size, (peak, estimate) in enumerate(pairs, start=1)
    )
    found = MemoryPoint(
        label="memory tiny", uses=uses, largest_batch=len(uses), reached_most=True, limit_bytes=10**10, emulated=False
    )
    return operation("memory", kind="memory", points=(), workload=(found,))


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        (((1040, 1000), (2000, 2000)), "passed"),
        (((1060, 1000), (2000, 2000)), "failed"),
        (((1000, 1000), (1890, 2000)), "failed"),  # the estimate is too high
        (((1000, None),), "unknown"),
        (((1000, 1000), (2000, None)), "unknown"),
        ((), "unknown"),
    ],
)
def test_memory_is_as_estimated_within_five_percent(pairs: tuple[tuple[int, int | None], ...], verdict: str) -> None:
    run = RunReading(result=result((fitted(*pairs),)))
    outcome = measured.memory(after("memory", run))
    assert outcome.result == verdict, outcome.seen
