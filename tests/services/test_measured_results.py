"""``--result`` of a train or memory: figures of the very setting take the estimate's place, and no others do."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.training.options import TrainingOptions
from raybench.cli.estimate import command as estimate
from raybench.cli.planning.plan import command as plan
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint, Use
from raybench.errors import UsageError
from tests.reports.sample import cluster, point, run_result, sweep
from tests.reports.test_summary import GIB, trained

H100 = "NVIDIA H100 80GB HBM3"
RUN = "20261121-014334-a1b2"
ASKED = ("--model", "gpt2", "--gpu", "H100", "--world-size", "8", "--batch-size", "8", "--sequence-length", "1024")
ALONE = ("--model", "gpt2", "--gpu", "H100", "--world-size", "1", "--batch-size", "8", "--sequence-length", "1024")


def training(
    *,
    options: dict[str, Any] | None = None,
    status: Any = "complete",
    gpu: Any = H100,
    ranks: int = 8,
    name: str = "ddp",
    **changes: Any,
) -> BenchmarkResult:
    own = TrainingOptions(**({"model": "gpt2", "batch_size": 8, "sequence_length": 1024} | (options or {})))
    facts = {"gpu": gpu, "dtype": "bfloat16"}
    per_rank = own.batch_size * own.accumulate
    known = {"world_size": ranks, "batch_size": per_rank, "tokens_per_sample": own.sequence_length, "facts": facts}
    return BenchmarkResult(
        name=name,
        kind="training",
        parameters={"strategy": name, **own.parameters()},
        status=status,
        workload=(trained("ddp", 0.2, **(known | {"rank_seconds": (0.2,) * ranks} | changes)),),
    )


def memory(sizes: dict[int, float | None], *, limit: float = 78.0, gpu: str = H100, **options: Any) -> Any:
    """``sizes``: GiB by batch size; None: it ran out of memory."""
    own = MemoryOptions(**({"model": "gpt2", "sequence_length": 1024, "dtype": "bfloat16"} | options))
    uses = tuple(
        Use(
            batch_size=size, fits=gib is not None, parameters=1, gradients=1, optimizer_state=1, activations=1,
            peak=int((gib or 0) * GIB), reserved=int((gib or 0) * GIB), estimate={"allocated": 10 * GIB},
        )
        for size, gib in sizes.items()
    )  # fmt: skip
    found = MemoryPoint(
        label="memory gpt2", uses=uses, largest_batch=max(sizes), reached_most=False, limit_bytes=int(limit * GIB),
        emulated=False,
    )  # fmt: skip
    parameters = own.parameters()
    return BenchmarkResult(name="memory", kind="memory", parameters=parameters, status="complete", workload=(found,))


def written(folder: Path, *benchmarks: BenchmarkResult, ranks: int = 8, gpu: str = H100, **changes: Any) -> str:
    where = cluster(1, ranks, emulated=changes.pop("emulated", False)).to_json()
    where["nodes"][0]["facts"]["gpus"] = [{"name": gpu}]
    content = run_result(*benchmarks).to_json() | {"cluster": where} | changes
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(content))
    return str(path)


def told(*options: str, command: Any = estimate) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*options, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_training_of_the_very_setting_takes_the_estimates_place(tmp_path: Path) -> None:
    path = written(tmp_path, training(options={"model_name": "Team/Same-Shape"}))
    before, after = told(*ASKED), told(*ASKED, "--result", path)
    low, high = after["step_seconds"]
    assert low <= 0.2 <= high
    assert after["tokens_per_second"] == pytest.approx([64 * 1024 / high, 64 * 1024 / low])
    (one,) = after["measured"]
    assert (one["taken"], one["run_id"]) == (["step time", "peak memory", "whether it fits"], RUN)
    assert one["estimated_step_seconds"] == before["step_seconds"]
    context = before["memory"]["context"]
    assert (after["memory"]["peak"], after["memory"]["least_peak"]) == (
        13 * GIB + context,
        pytest.approx(12.45 * GIB + context),
    )
    assert after["memory"]["fits"] is True
    assert before["measured"] == []
    text = CliRunner().invoke(estimate, [*ASKED, "--result", path]).stdout
    verdict = " ".join(text.replace("#", " ").split())[:600]
    assert f"step time, peak memory, whether it fits measured by run {RUN}" in verdict
    assert "nothing was measured" not in text


@pytest.mark.parametrize(
    ("benchmark", "run", "why"),
    [
        ({"options": {"batch_size": 4}}, {}, "1 x 4 samples a rank, asked 1 x 8"),
        ({"options": {"accumulate": 2}}, {}, "2 x 8 samples a rank, asked 1 x 8"),
        ({"options": {"sequence_length": 512}}, {}, "sequence length 512, asked 1024"),
        ({"options": {"checkpoint_activations": True}}, {}, "activation checkpointing on, asked off"),
        ({"options": {"layers": 6}}, {}, "model gpt2 in other sizes"),
        ({"options": {"layers": 6, "model_name": "Team/Small"}}, {}, "model Team/Small, asked of gpt2"),
        ({"options": {"sharding": "grad-op"}, "name": "fsdp"}, {}, "strategy fsdp-grad-op, asked ddp"),
        ({"facts": {"gpu": H100, "dtype": "float16"}}, {}, "dtype float16, asked bfloat16"),
        ({"ranks": 4}, {"ranks": 4}, "4 ranks, asked 8"),
        ({"gpu": "NVIDIA A100-SXM4-80GB"}, {"gpu": "NVIDIA A100-SXM4-80GB"}, "measured on NVIDIA A100"),
    ],
)
def test_a_training_of_another_setting_corrects_the_step_and_nothing_else(
    tmp_path: Path, benchmark: dict[str, Any], run: dict[str, Any], why: str
) -> None:
    before, found = told(*ASKED), told(*ASKED, "--result", written(tmp_path, training(**benchmark), **run))
    (one,), (own,) = found["measured"], found["own_runs"]
    assert (one["taken"], one["corrects"], why in one["why_not"]) == ([], True, True), one["why_not"]
    assert (own["text"], own["step_seconds"]) == (f"run {RUN}", pytest.approx(0.2))
    assert found["uncorrected_step_seconds"] == before["step_seconds"]
    slower = own["step_seconds"] > own["told_seconds"]
    low, high = (after > alone for after, alone in zip(found["step_seconds"], before["step_seconds"], strict=True))
    assert (low, high) in ((slower, slower), (True, False)), (own, found["step_seconds"], before["step_seconds"])
    assert found["memory"] == before["memory"]


@pytest.mark.parametrize(("seconds", "odd"), [(0.1, False), (5.0, True), (0.001, True)])
def test_a_result_that_no_other_training_explains_is_remarked_on(tmp_path: Path, seconds: float, odd: bool) -> None:
    """A step that took 89 times as long took the estimate's place, and corrected nothing, without a word."""
    took = {"launches": ((seconds,) * 50,), "rank_seconds": (seconds,) * 8}
    same = written(tmp_path, training(**took))
    other = written(tmp_path, training(options={"batch_size": 4}, **took))
    planned = ("gpt2", "--gpu", "H100", "--gpus-per-node", "8", "--samples-per-step", "64")
    for asked, command in ((ASKED, estimate), (planned, plan)):
        (one,) = told(*asked, "--result", same, command=command)["measured"]
        assert (one["taken"][0], one["is_odd"]) == ("step time", odd)
        assert (
            "than nearly all trainings are" in CliRunner().invoke(command, [*asked, "--result", same]).stdout
        ) is odd
        (one,) = told(*asked, "--result", other, command=command)["measured"]
        assert one["corrects"] is not odd
        assert ("times what is told of it" in one["why_not"]) is odd


def test_a_result_is_of_the_machine_that_is_asked_about_where_its_gpu_is(tmp_path: Path) -> None:
    asked = (*ASKED[:2], "--strategy", "ddp", *ASKED[4:], "--node-gb-per-s", "1")
    h100 = written(tmp_path, training(options={"batch_size": 4}))
    a100 = "NVIDIA A100-SXM4-80GB"
    other = written(tmp_path, training(gpu=a100, options={"batch_size": 4}), gpu=a100)

    def the_told(path: str, *links: str) -> float:
        (own,) = told(*asked[:4], "--gpu", "H100", *asked[4:-2], *links, "--result", path)["own_runs"]
        return float(own["told_seconds"])

    assert the_told(h100, *asked[-2:]) > 2 * the_told(h100)
    assert the_told(other, *asked[-2:]) == the_told(other)


@pytest.mark.parametrize("lacking", [("--gpu", "H100", "--efficiency", "0.4"), ()])
def test_where_no_step_time_can_be_corrected_none_is_said_to_be(tmp_path: Path, lacking: tuple[str, ...]) -> None:
    path = written(tmp_path, training(options={"batch_size": 4}))
    found = told("--model", "gpt2", *lacking, "--sequence-length", "1024", "--result", path)
    assert (found["own_runs"], found["measured"][0]["corrects"]) == ([], False)
    assert found["uncorrected_step_seconds"] is None
    if lacking:
        planned = told("gpt2", *lacking, "--sequence-length", "1024", "--result", path, command=plan)
        assert (planned["own_runs"], planned["measured"][0]["corrects"]) == ([], False)


def test_copies_of_a_result_correct_as_one(tmp_path: Path) -> None:
    paths = [written(tmp_path, training(options={"batch_size": 4})) for _ in range(2)]
    once = told(*ASKED, "--result", paths[0])
    twice = told(*ASKED, "--result", paths[0], "--result", paths[1])
    assert twice["step_seconds"] == once["step_seconds"]
    assert len(twice["own_runs"]) == 1


@pytest.mark.parametrize(
    ("benchmark", "run", "why"),
    [
        ({"options": {"comm_hook": "bf16"}}, {}, "gradients sent by the hook bf16"),
        ({}, {"gpu": "NVIDIA H200"}, "measured on NVIDIA H200, asked of H100"),
        ({"gpu": None}, {}, "measured on a CPU"),
        ({}, {"emulated": True}, "emulated"),
        ({}, {"status": "partial"}, "a partial run"),
        ({"complete": False}, {}, "a partial run"),
        ({"status": "failed"}, {}, "the run failed"),
        ({"verified": False, "check": {"max_relative_difference": 1.0, "tolerance": 0.1}}, {}, "failed verification"),
    ],
)
def test_another_machine_or_state_is_not_used(
    tmp_path: Path, benchmark: dict[str, Any], run: dict[str, Any], why: str
) -> None:
    found = told(*ASKED, "--result", written(tmp_path, training(**benchmark), **run))
    (one,) = found.pop("measured")
    assert (one["taken"], one["corrects"], why in one["why_not"]) == ([], False, True), one["why_not"]
    before = told(*ASKED)
    assert found == {key: value for key, value in before.items() if key != "measured"}


def test_a_memory_run_decides_what_fits(tmp_path: Path) -> None:
    before = told(*ALONE)
    found = told(*ALONE, "--result", written(tmp_path, memory({4: 20.0, 8: 60.0}), ranks=1))
    assert before["memory"]["fits"] is found["memory"]["fits"] is True
    assert found["memory"]["peak"] == 60 * GIB + before["memory"]["context"]
    assert found["measured"][0]["memory_ratios"] == {"4": 2.0, "8": 6.0}
    assert found["step_seconds"] == before["step_seconds"]
    tight = written(tmp_path, memory({8: 79.0}, limit=79.1), ranks=1)
    assert told(*ALONE, "--result", tight)["memory"]["fits"] is True  # on such a GPU it did
    smaller = told(*ALONE, "--memory", "40G", "--result", tight)["memory"]
    assert (smaller["fits"], smaller["largest_batch_size"]) == (False, None)
    full = (*ALONE, "--result", written(tmp_path, memory({4: 40.0, 8: None}), ranks=1))
    result = CliRunner().invoke(estimate, full)
    assert result.exit_code == 1
    assert "ran out of memory" in result.stdout
    assert "largest batch" not in result.stdout


@pytest.mark.parametrize(
    ("sizes", "changes", "asked", "why"),
    [
        ({4: 20.0}, {}, ALONE, "batch sizes 4, asked 8"),
        ({8: 20.0}, {}, ASKED, "one rank without DDP, asked ddp on 8 ranks"),
        ({8: 20.0}, {}, (*ALONE, "--accumulation", "2"), "1 micro-batch a step, asked 2"),
        ({8: 20.0}, {"strategy": "fsdp", "shards": 64}, (*ASKED, "--strategy", "fsdp"), "64 shards, asked 8"),
        ({8: None}, {"limit": 20.0}, ALONE, "no figure"),  # refused by a limit, not by the device
    ],
)
def test_memory_of_another_setting_is_shown_and_not_used(
    tmp_path: Path, sizes: dict[int, float | None], changes: dict[str, Any], asked: tuple[str, ...], why: str
) -> None:
    path = written(tmp_path, memory(sizes, **changes), ranks=1)
    found, before = told(*asked, "--result", path), told(*asked)
    assert why in found["measured"][0]["why_not"]
    assert found["memory"] == before["memory"]
    if why.startswith("batch sizes"):
        assert found["measured"][0]["memory_ratios"] == {"4": 2.0}
        assert "2.00 at batch size 4, not applied" in CliRunner().invoke(estimate, [*asked, "--result", path]).stdout


def test_results_of_several_kinds_are_taken_together(tmp_path: Path) -> None:
    links = written(tmp_path, sweep("all_reduce", points=(point(8), point(2**30, seconds=0.01))))
    paths = (links, written(tmp_path, training(memory={"kind": "rss"})), written(tmp_path, memory({8: 3.0})))
    options = [word for path in paths for word in ("--result", path)]
    found = told(*ASKED, *options)
    assert any("measured by run" in text for text in found["basis"].values())
    assert [one["taken"] for one in found["measured"]] == [["step time"], []]
    with pytest.raises(UsageError, match="has an all_reduce as well"):
        told(*ASKED, "--result", links, "--result", links)
    other = written(tmp_path, sweep("all_gather", points=(point(8),)))
    with pytest.raises(UsageError, match="no measured all_reduce, train or memory"):
        told(*ASKED, "--result", other)


def test_a_plans_way_has_what_was_measured_of_it(tmp_path: Path) -> None:
    asked = ("gpt2", "--gpu", "H100", "--sequence-length", "1024", "--samples-per-step", "64")
    before = told(*asked, command=plan)
    way = next(one for one in before["ways"] if one["strategy"] == "ddp" and not one["activation_checkpointing"])
    own = {"batch_size": way["batch_size"], "accumulate": way["accumulation"]}
    path = written(tmp_path, training(options=own))
    found = told(*asked, "--result", path, command=plan)
    (one,) = found["measured"]
    assert (one["way"], one["taken"][0]) == ("ddp", "step time")
    marked = [way for way in found["ways"] if way["measured_by"]]
    assert [(way["strategy"], way["activation_checkpointing"]) for way in marked] == [("ddp", False)]
    assert marked[0]["tokens_per_second"][1] == pytest.approx(64 * 1024 / one["step_seconds"][0])
    assert found["ways"][0] != marked[0]  # 0.2 s is far slower than what the others are expected to take
    far = told(*asked, "--result", written(tmp_path, training(options={"batch_size": 3})), command=plan)
    assert (far["measured"][0]["way"], far["measured"][0]["taken"], far["measured"][0]["corrects"]) == ("ddp", [], True)
    assert [one["step_seconds"] for one in far["own_runs"]] == [pytest.approx(0.2)]
    fastest = {
        (way["strategy"], way["activation_checkpointing"]): way["tokens_per_second"][1] for way in before["ways"]
    }
    best = far["ways"][0]
    assert best["tokens_per_second"][1] < fastest[best["strategy"], best["activation_checkpointing"]]
    text = CliRunner().invoke(plan, [*asked, "--result", path]).stdout
    assert f"measured by run {RUN} of ddp" in text
    assert "ddp (measured)" in text
    assert "raybench plan, measured of ddp: step time" in text


def test_a_result_of_full_shards_by_pytorch_stands_where_torchtitan_s_would(tmp_path: Path) -> None:
    """They may fit, torchtitan's do: that way alone was there, and what was measured was of another setting."""
    asked = ("llama-8b", "--node-type", "p5.48xlarge", "--sequence-length", "8192")
    (way,) = (one for one in told(*asked, command=plan)["ways"] if one["strategy"] == "fsdp" and "none" in str(one))
    options = {"model": "llama-8b", "batch_size": 1, "sequence_length": 8192, "accumulate": way["accumulation"]}
    took = {"launches": ((4.0,) * 50,), "rank_seconds": (4.0,) * 8}
    path = written(tmp_path, training(name="fsdp", options={**options, "reduce_each": True}, **took))
    found = told(*asked, "--result", path, command=plan)
    (one,) = found["measured"]
    assert (one["way"], one["taken"][0]) == ("fsdp", "step time")
    (own,) = (way for way in found["ways"] if way["measured_by"])
    assert own["fits"]
    assert own["command"].startswith("raybench train")


def test_a_plan_takes_fewer_samples_where_a_memory_run_was_refused(tmp_path: Path) -> None:
    asked = ("gpt2", "--gpu", "H100", "--gpus-per-node", "1", "--sequence-length", "1024", "--samples-per-step", "8")
    found = told(*asked, "--result", written(tmp_path, memory({4: 3.0, 8: None}), ranks=1), command=plan)
    plain = next(way for way in found["ways"] if not way["activation_checkpointing"])
    assert (plain["batch_size"], plain["accumulation"], plain["fits"], plain["measured_by"]) == (4, 2, True, [])
    assert "did not fit with 1 x 8 samples a rank" in found["measured"][0]["why_not"]


def test_shards_that_reduce_last_are_no_shards_that_reduce_each_time(tmp_path: Path) -> None:
    path = written(tmp_path, training(name="fsdp", options={"accumulate": 2}))
    asked = (*ASKED, "--strategy", "fsdp", "--accumulation", "2", "--result", path)
    assert "--reduce-last" in told(*asked)["measured"][0]["why_not"]
    assert told(*asked, "--reduce-last")["measured"][0]["taken"][0] == "step time"
    each = written(tmp_path, training(name="fsdp", options={"accumulate": 2, "reduce_each": True}))
    asked = (*asked[:-1], each)
    assert told(*asked)["measured"][0]["taken"][0] == "step time"
    assert "--reduce-each" in told(*asked, "--reduce-last")["measured"][0]["why_not"]


@pytest.mark.parametrize("name", ["memory-6cd7514", "training-a0b1ea6"])
def test_recorded_runs_of_emulated_nodes_say_nothing_of_a_gpu(name: str) -> None:
    path = Path(__file__).parents[1] / "documents" / "samples" / f"{name}.json"
    (one,) = told(*ASKED, "--result", str(path))["measured"]
    assert (one["taken"], one["why_not"]) == ([], "emulated: no device's own figures")
