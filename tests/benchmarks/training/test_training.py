"""Real gloo ranks train: what each strategy must give, and that a broken one is found out."""

import dataclasses
import gzip
import importlib
import json
import math
import platform
import re
import sys
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from raybench.benchmarks.base import UnsupportedError
from raybench.benchmarks.events import BenchmarkFinished, Event, RankFailed, WorkloadMeasured
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training import benchmark, hook, reference, step, strategies, usage  # noqa: F401 - imported once, before the forks
from raybench.benchmarks.training.combine import own_and_wait, training_point
from raybench.benchmarks.training.models.shapes import shape_of
from raybench.benchmarks.training.models.trainable import trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import Check, Exposure, TrainingRecord
from raybench.documents.run.training.point import TrainingPoint
from tests.benchmarks.gloo_ranks import run_ranks
from tests.benchmarks.training.test_parts import safetensors

QUICK: dict[str, Any] = {"sequence_length": 16, "batch_size": 2, "steps": 4, "warmup_steps": 1, "overlap_steps": 0}


def spec(name: str, **options: Any) -> BenchmarkSpec:
    return BenchmarkSpec(name=name, kind="training", sizes=(), options=TrainingOptions(**{**QUICK, **options}))


def records(events: list[list[Event]]) -> dict[int, TrainingRecord]:
    failures = [event for heard in events for event in heard if isinstance(event, RankFailed)]
    assert failures == []
    measured = [event for heard in events for event in heard if isinstance(event, WorkloadMeasured)]
    return {event.rank: event.record for event in measured}


def trained(name: str, ranks: int = 2, sabotage: Any = None, **options: Any) -> TrainingPoint:
    plan = spec(name, **options)
    return training_point([records(run_ranks(ranks, [plan], sabotage=sabotage))], plan, ranks)


def skipped(name: str, **options: Any) -> str | None:
    events = run_ranks(1, [spec(name, **options)])
    return next(event.skipped for event in events[0] if isinstance(event, BenchmarkFinished))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("ddp", {}, marks=pytest.mark.long),  # every day in a real run: tests/cli/test_train_run.py
        ("ddp", {"model": "mlp", "sequence_length": None, "accumulate": 3}),
        pytest.param("ddp", {"model": "cnn", "sequence_length": None, "optimizer": "sgd"}, marks=pytest.mark.long),
        pytest.param(
            "ddp",
            {"model": "gpt2", "layers": 2, "hidden_size": 32, "heads": 4, "intermediate_size": 64, "vocabulary": 97},
            marks=pytest.mark.long,
        ),
        ("ddp", {"dtype": "bfloat16", "checkpoint_activations": True}),
        pytest.param("fsdp", {"accumulate": 2, "reduce_each": True}, marks=pytest.mark.long),
        ("fsdp", {"sharding": "grad-op", "accumulate": 2, "dtype": "bfloat16", "comm_hook": "fp16"}),
        ("lora", {"lora_rank": 4}),
        ("qlora", {"lora_rank": 4}),
    ],
)
def test_ranks_train_as_one_process_would(name: str, options: dict[str, Any]) -> None:
    point = trained(name, **{**QUICK, **options})
    assert point.verified is True, point.check
    assert len(point.check["losses"]) == len(point.check["expected_losses"]) == 3
    steps = point.samples_seconds
    assert len(steps) == 4
    batch = QUICK["batch_size"] * options.get("accumulate", 1)
    assert point.samples_per_s == pytest.approx(batch * 2 / (sum(steps) / 4))
    assert point.mfu is None
    assert "CPU" in str(point.peak_reason)
    assert {"data", "forward", "backward", "optimizer"} <= set(point.phases)
    # phases are the mean over ranks, as the ranks' own steps are; a step of the result is its slowest rank's
    assert sum(point.phases.values()) == pytest.approx(sum(point.rank_seconds) / 2)


def no_synchronisation(rank: int) -> None:
    strategies.Replica.synchronising = lambda self, _: self._wrapped.no_sync()


def same_data(rank: int) -> None:
    real = step.batch_of
    step.batch_of = lambda trainable, options, _, number: real(trainable, options, 0, number)


@pytest.mark.parametrize("sabotage", [no_synchronisation, same_data])
def test_a_fault_in_training_is_found(sabotage: Any) -> None:
    point = trained("ddp", sabotage=sabotage)
    assert point.verified is False
    assert point.wrong is not None
    assert "differ from a single process" in point.wrong


def test_bytes_of_a_step_are_those_of_the_parameters() -> None:
    parameters = 158016
    ddp = trained("ddp", overlap_steps=1).communication
    assert ddp.wire_bytes == pytest.approx(ddp.expected_bytes, rel=0.01)
    assert ddp.wire_bytes == pytest.approx(4 * parameters, rel=0.01)
    fsdp = trained("fsdp", overlap_steps=1).communication
    assert fsdp.wire_bytes == pytest.approx(fsdp.expected_bytes, rel=0.01)
    outer = 2 * 512 * 64 + 64  # embeddings and the last norm stay gathered; the rest is gathered twice, reduced once
    assert fsdp.wire_bytes == pytest.approx((3 * (parameters - outer) + 2 * outer) * 4 / 2, rel=0.01)


@pytest.mark.long  # every day those of another hook, bucket by bucket, below
def test_bytes_of_a_step_are_halved_by_rounding_gradients() -> None:
    point = trained("ddp", overlap_steps=1, comm_hook="bf16")
    assert point.verified is True, point.check
    found = point.communication
    assert found.wire_bytes == found.expected_bytes == 2 * 158016


def averaged_alone(rank: int) -> None:
    """Every rank keeps its own gradients, as if nothing came through the network."""
    powersgd = importlib.import_module("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")

    def kept(_: Any, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    powersgd.powerSGD_hook = kept


def test_gradients_of_a_low_rank_are_sent_bucket_by_bucket() -> None:
    """Four buckets of 1 MiB: with several under way at once, gloo's messages of one meet those of another."""
    wide: dict[str, Any] = {"model": "mlp", "hidden_dims": (512,) * 6, "sequence_length": None, "bucket_mib": 1}
    point = trained("ddp", **wide, comm_hook="powersgd", powersgd_rank=2, overlap_steps=2)
    alone = trained("ddp", sabotage=averaged_alone, **wide, comm_hook="powersgd", powersgd_rank=2)
    assert point.losses[-1] == pytest.approx(alone.losses[-1], rel=0.2)
    assert point.losses != alone.losses
    assert (point.verified, "approximates" in str(point.check_reason)) == (None, True)
    found = point.communication
    assert found.expected_bytes is not None
    assert found.expected_bytes < 0.05 * 4 * (point.parameter_count or 0)
    assert (found.wire_bytes, found.exposed["profiler"]) == (None, None)
    assert found.exposed["differencing"] is not None


def test_shards_have_no_low_rank() -> None:
    with pytest.raises(UnsupportedError, match=r"in parts \(reduce_scatter\)"):
        hook.reduce_dtype(TrainingOptions(comm_hook="powersgd"))


def test_what_the_device_lacks_is_skipped_with_the_reason() -> None:
    assert "float8 needs a GPU" in str(skipped("ddp", dtype="float8"))
    assert "transformers" in str(skipped("lora", model="mlp", sequence_length=None))
    assert "hybrid" in str(skipped("fsdp", sharding="hybrid"))


@pytest.mark.long  # every day their memory: tests/performance_model, and shards of all ranks above
def test_hybrid_shards_stay_within_their_node() -> None:
    point = trained("fsdp", ranks=4, sabotage=two_ranks_a_node, sharding="hybrid", overlap_steps=1)
    assert point.verified is True
    assert point.communication.wire_bytes == pytest.approx(point.communication.expected_bytes, rel=0.01)
    assert (point.communication.exposed["replay"] or 0.0) > 0.0


def two_ranks_a_node(rank: int) -> None:
    torch.set_num_threads(1)
    real, count = strategies.mesh_of, benchmark.step_traffic
    strategies.mesh_of = lambda context, options: real(_with_ranks(context), options)
    benchmark.step_traffic = lambda context, *rest: count(_with_ranks(context), *rest)


def _with_ranks(context: Any) -> Any:
    return dataclasses.replace(context, ranks_on_node=2)


@pytest.mark.parametrize("dtype", ["float16"])
def test_float16_is_scaled(dtype: str) -> None:
    assert trained("ddp", dtype=dtype).verified is True


def test_float16_is_compared_with_a_process_that_scales_as_well() -> None:
    """Gradients of many samples vanish without it: 3e-4 of the norm here, 0.9 % with 2048 tokens."""
    point = trained("ddp", ranks=1, dtype="float16", model="mlp", sequence_length=None, batch_size=4096, steps=1)
    assert point.check["max_relative_difference"] < 1e-5


def nothing_held_at_the_check(_: int) -> None:
    """Fail where the model that was timed is still there when the check builds its own."""
    real, models = benchmark._trainer, []

    def build(*arguments: Any) -> step.Trainer:
        held = sum(parameter() is not None for parameter in models)
        if held:
            raise RuntimeError(f"{held} of {len(models)} parameters are still held")
        made = real(*arguments)
        models.extend(weakref.ref(parameter) for parameter in made.strategy.plain.parameters())
        return made

    benchmark._trainer = build


@pytest.mark.parametrize("name", [pytest.param("ddp", marks=pytest.mark.long), "fsdp"])
def test_the_model_that_was_timed_has_gone_before_the_check_builds_one(name: str) -> None:
    """On a GPU both do not fit where the first fills the memory."""
    assert trained(name, ranks=1, sabotage=nothing_held_at_the_check).verified is True


def test_nvml_is_loaded_before_steps_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: asked.append(device) or 40)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    used = usage.Usage(SimpleNamespace(device=torch.device("cuda", 0)))
    assert len(asked) == 1
    assert used.utilization()["gpu"] is None, "what it said before the steps is not of them"
    used.sample_gpu()
    assert used.utilization()["gpu"] == 0.4


def slow_third_rank(rank: int) -> None:
    torch.set_num_threads(1)
    real = step.Trainer._update

    def late(self: step.Trainer, *, norm: bool) -> Any:
        time.sleep(0.3 if rank == 2 else 0.0)  # 0.1 s was too little: half a millisecond of a neighbour's was named too
        return real(self, norm=norm)

    step.Trainer._update = late


@pytest.mark.alone  # four ranks on two processors: what runs beside them holds up one of the others as well
@pytest.mark.parametrize("sharding", [pytest.param("full", marks=pytest.mark.long), "grad-op"])
def test_a_slow_rank_among_shards_is_named(sharding: str) -> None:
    little = {"model": "mlp", "sequence_length": None}  # next to the sleep its work is nothing, on busy cores too
    point = trained("fsdp", ranks=4, sabotage=slow_third_rank, sharding=sharding, steps=24, **little)
    assert [one.rank for one in point.stragglers] == [2]
    assert point.straggler_reason is None


def test_few_steps_of_shards_name_nobody_and_say_so() -> None:
    point = trained("fsdp", ranks=3, model="mlp", sequence_length=None)
    assert (point.stragglers, point.straggler_reason) == ((), "it takes 20 steps or more; raise --steps")


def record_of(collectives: float, gpu: str | None) -> TrainingRecord:
    return TrainingRecord(
        label="fsdp tiny", stamps=(1.0, 2.0), phases={"forward": (0.4, 0.4), "backward": (0.6, 0.6)}, losses=(1.0, 1.0),
        memory={}, utilization={}, exposure=Exposure(), check=Check(), facts={"gpu": gpu},
        collectives=(collectives, collectives),
    )  # fmt: skip


@pytest.mark.parametrize(("gpu", "own", "wait"), [(None, (0.9, 0.7), (0.1, 0.3)), ("H100", (1.0, 0.8), (0.0, 0.2))])
def test_own_time_of_shards(gpu: str | None, own: tuple[float, float], wait: tuple[float, float]) -> None:
    """On a GPU only what one rank's collectives take longer than another's is waiting: the rest may be hidden."""
    mine, waiting = own_and_wait({0: record_of(0.1, gpu), 1: record_of(0.3, gpu)})
    assert [mine[rank] for rank in (0, 1)] == [pytest.approx([one, one]) for one in own]
    assert [waiting[rank] for rank in (0, 1)] == [pytest.approx([one, one]) for one in wait]


def by_peft() -> None:
    """Skip, saying why, where peft is not installed; imported once, before the forks."""
    pytest.importorskip("peft", reason="peft is not installed: pip install 'raybench[peft]'")


def trained_shapes(**options: Any) -> list[tuple[int, ...]]:
    chosen = TrainingOptions(**{**QUICK, "lora_rank": 4, **options})
    model = trainable_of(chosen).build()
    strategies.prepare(model, "lora", torch.device("cpu"), chosen, "float32")
    return sorted(tuple(one.shape) for one in model.parameters() if one.requires_grad)


def test_adapters_by_peft_are_as_many_and_as_large_as_ours() -> None:
    by_peft()
    ours, theirs = trained_shapes(), trained_shapes(adapter="peft")
    assert theirs == ours
    formula = shape_of(TrainingOptions(model="tiny"))[0].lora_parameters(4)
    assert sum(math.prod(shape) for shape in theirs) == formula


def test_ranks_train_by_peft_as_one_process_would() -> None:
    by_peft()
    point = trained("lora", adapter="peft", lora_rank=4, overlap_steps=1)
    assert point.verified is True, point.check
    assert str(point.facts["adapter"]).startswith("peft 0.")
    assert point.communication.wire_bytes == pytest.approx(point.communication.expected_bytes, rel=0.01)
    own = trained("lora", lora_rank=4, warmup_steps=0)
    same = trained("lora", lora_rank=4, warmup_steps=0, adapter="peft")
    assert own.facts["adapter"] == "raybench"
    assert same.losses[0] == pytest.approx(own.losses[0], rel=1e-5)  # both begin as the base: B is zero
    assert same.losses[-1] == pytest.approx(own.losses[-1], rel=1e-2)


def test_a_four_bit_base_by_bitsandbytes_needs_a_gpu() -> None:
    by_peft()
    assert "qlora by bitsandbytes needs a CUDA GPU, and this is a CPU" in str(skipped("qlora", adapter="peft"))


def no_peft(rank: int) -> None:
    sys.modules["peft"] = None


def test_without_peft_it_is_said_what_to_install() -> None:
    (events,) = run_ranks(1, [spec("lora", adapter="peft")], sabotage=no_peft)
    reason = next(event.skipped for event in events if isinstance(event, BenchmarkFinished))
    assert "--adapter peft needs peft" in str(reason)
    assert "pip install 'raybench[peft]'" in str(reason)


@pytest.mark.parametrize("name", [pytest.param("ddp", marks=pytest.mark.long), "fsdp"])
def test_real_weights_are_trained_from_a_folder(name: str, tmp_path: Path) -> None:
    """The first step's loss is that of the folder's weights on both ranks' samples."""
    options = TrainingOptions(**QUICK)
    trainable = trainable_of(options)
    model = trainable.build()
    source = {key: torch.randn(one.shape) * 0.05 for key, one in model.named_parameters()}
    safetensors(tmp_path / "model.safetensors", source)
    model.load_state_dict(source, strict=False)
    batches = [step.batch_of(trainable, options, rank, 0) for rank in range(2)]
    with torch.no_grad():
        expected = sum(float(model(*batch)) for batch in batches) / 2
    point = trained(name, weights=str(tmp_path), warmup_steps=0)
    assert point.losses[0] == pytest.approx(expected, rel=1e-5)
    assert point.verified is True
    assert trained(name, warmup_steps=0).losses[0] != pytest.approx(expected, rel=1e-3)


def test_weights_that_a_node_lacks_are_said_with_its_name() -> None:
    (events,) = run_ranks(1, [spec("ddp", weights="/no/such/folder")])
    (failed,) = [event for event in events if isinstance(event, RankFailed)]
    said = f"UsageError: --weights /no/such/folder cannot be read on {platform.node()} (No such file or directory); "
    assert failed.error.startswith(said + "every node needs that folder")


@pytest.mark.long  # every day the trace of one: test_profile.py
def test_two_strategies_keep_both_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYBENCH_RANK_FOLDER", str(tmp_path))
    little = {"model": "mlp", "sequence_length": None, "profile": True, "overlap_steps": 1}
    run_ranks(2, [spec("ddp", **little), spec("fsdp", **little)])
    kept = sorted(path.name for path in tmp_path.iterdir())
    # as torch_tb_profiler's consts.WORKER_PATTERN finds them
    workers = [re.fullmatch(r"(.*?)(\.\d+)\.pt\.trace\.json(?:\.gz)?", name) for name in kept]
    assert [one and one[1] for one in workers] == [
        f"trace-rank-{n}-{kind}" for n in range(2) for kind in ("ddp", "fsdp")
    ]
    assert all(json.loads(gzip.decompress((tmp_path / name).read_bytes()))["traceEvents"] for name in kept)


def test_a_trace_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYBENCH_RANK_FOLDER", str(tmp_path / "no-such-folder"))
    point = trained("ddp", model="mlp", sequence_length=None, profile=True, overlap_steps=1)
    assert "the trace of rank 0 could not be written: see logs/output-rank-0.log" in point.communication.remarks
    assert point.verified is True
