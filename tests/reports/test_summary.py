"""A run in short: summary.json, and the table of a training run with its advice."""

import json
from typing import Any

import pytest

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.communication import Communication
from raybench.documents.run.memory import MemoryPoint, Use
from raybench.documents.run.training.point import TrainingPoint
from raybench.reports.summary import summary_of
from raybench.reports.workloads.table import workload_sections
from tests.reports.sample import run_result, sweep

GIB = 2**30


def trained(strategy: str, seconds: float, gib: float = 12.45, **changes: Any) -> TrainingPoint:
    """Four ranks with 8 samples each, as the seed's training summary has them."""
    values: dict[str, Any] = {
        "label": f"{strategy} gpt2",
        "world_size": 4,
        "launches": ((seconds * 0.95, seconds * 1.05, *(seconds,) * 48),),
        "rank_seconds": (seconds,) * 4,
        "batch_size": 8,
        "tokens_per_sample": 512,
        "flop_per_sample": 1e12,
        "phases": {"forward": seconds / 3, "backward": seconds * 2 / 3},
        "losses": (8.5, 8.2, 7.9),
        "memory": {
            "kind": "cuda", "peak_allocated_bytes": gib * GIB, "mean_allocated_bytes": 12.32 * GIB,
            "peak_reserved_bytes": 13 * GIB, "total_bytes": 80 * GIB,
        },
        "utilization": {"cpu": 0.5, "gpu": 0.9},
        "communication": Communication(),
        "facts": {"gpu": None, "dtype": "float32"},
        "verified": True,
        "check": {},
    }  # fmt: skip
    return TrainingPoint(**(values | changes))


def benchmark(*points: Any, kind: Any = "training", name: str = "ddp") -> BenchmarkResult:
    return BenchmarkResult(name=name, kind=kind, parameters={}, status="complete", workload=points)


def summary_rows(*points: TrainingPoint) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    sections = workload_sections([benchmark(*points)])
    section = next(one for one in sections if one.title == "Training summary")
    return {row[0].text: tuple(cell.text for cell in row[1:]) for row in section.grid.rows}, section.notes


def test_the_seeds_training_summary() -> None:
    rows, notes = summary_rows(trained("ddp", 0.0452))
    assert rows["num_steps"] == ("50",)
    assert rows["avg_step_time (s)"] == ("0.0452",)
    assert (rows["min_step_time (s)"], rows["max_step_time (s)"]) == (("0.0429",), ("0.0475",))
    assert rows["max - min, of the mean"] == ("10%",)
    assert rows["throughput (samples/s)"] == ("707.96",)  # 8 x 4 / 0.0452
    assert rows["throughput (tokens/s)"] == ("362477.88",)
    assert (rows["avg_loss"], rows["final_loss"]) == (("8.2000",), ("7.9000",))
    assert (rows["peak memory allocated (GiB)"], rows["avg memory allocated (GiB)"]) == (("12.450",), ("12.320",))
    assert notes == ()


def test_ddp_or_fsdp_after_one_run() -> None:
    rows, (advice, losses) = summary_rows(trained("ddp", 0.1, gib=30.0), trained("fsdp", 0.15, gib=10.0))
    assert rows["avg_step_time (s)"] == ("0.1000", "0.1500")
    assert advice.startswith("ddp gpt2 is 1.50x as fast as fsdp gpt2, with 3.00 of its memory. One run decides")
    assert losses.startswith("ddp gpt2, fsdp gpt2 reach the same loss")
    _, (tight, _) = summary_rows(trained("ddp", 0.1, gib=75.0), trained("fsdp", 0.15, gib=10.0))
    assert "at 94% of the device it is tight: test both" in tight
    unknown = {"gpu": None}  # of what type the losses are is not recorded: they are not held against each other
    assert summary_rows(trained("ddp", 0.1), trained("lora", 0.05, facts=unknown))[1] == ()


def test_memory_of_a_process_is_not_called_allocated_by_a_device() -> None:
    rows, _ = summary_rows(trained("ddp", 0.1, memory={"kind": "rss", "peak_bytes": GIB, "mean_bytes": GIB / 2}))
    assert rows["peak memory of the process (GiB)"] == ("1.000",)
    assert rows["avg memory of the process (GiB)"] == ("0.500",)
    assert not [metric for metric in rows if "allocated" in metric or "reserved" in metric]


def test_the_seeds_json_of_communication_training_and_memory() -> None:
    use = Use(
        batch_size=4, fits=True, parameters=100, gradients=100, optimizer_state=200, activations=50, peak=450,
        reserved=450,
    )  # fmt: skip
    memory = MemoryPoint(
        label="memory small", uses=(use,), largest_batch=4, reached_most=False, limit_bytes=500, emulated=True
    )
    failed = BenchmarkResult(name="fsdp", kind="training", parameters={}, status="failed", reason="rank 1 died")
    result = run_result(
        sweep(), sweep("all_gather"), sweep("all_gather", in_place=True), benchmark(trained("ddp", 0.1)),
        benchmark(memory, kind="memory", name="memory"), failed,
    )  # fmt: skip
    content = json.loads(json.dumps(summary_of(result)))
    assert content["name"].endswith("_4gpu")
    assert (content["world_size"], content["timestamp"]) == (4, "2026-11-21T01:43:34+00:00")
    assert content["config"]["benchmark_iters"] == 20
    assert set(content["results"]) == {"communication", "training", "memory"}
    communication = content["results"]["communication"]
    assert list(communication) == ["all_reduce", "all_gather", "all_gather float32 sum in place"]
    largest = communication["all_reduce"]["sizes"][-1]
    assert largest["busbw_gb_per_s"] == pytest.approx(largest["message_bytes"] / largest["time_ms"] / 1e6 * 1.75)
    assert content["results"]["training"]["ddp gpt2"]["samples_per_s"] == 320
    assert content["results"]["memory"]["memory small"]["batch_sizes"]["4"]["activations_bytes"] == 50
    assert content["not_measured"] == {"fsdp": "rank 1 died"}


@pytest.mark.parametrize(
    ("reserved", "emulated", "share", "said"),
    [(500, False, 0.1, True), (470, False, 0.0426, False), (500, True, 0.1, False), (0, False, None, False)],
)
def test_memory_in_pieces_is_a_share_and_from_a_tenth_on_worth_a_word(
    reserved: int, emulated: bool, share: float | None, said: bool
) -> None:
    use = Use(
        batch_size=4, fits=True, parameters=100, gradients=100, optimizer_state=200, activations=50, peak=450,
        reserved=reserved,
    )  # fmt: skip
    point = MemoryPoint(
        label="memory small", uses=(use,), largest_batch=4, reached_most=False, limit_bytes=500, emulated=emulated
    )
    assert use.to_json()["fragmentation_share"] == (None if share is None else pytest.approx(share, abs=1e-4))
    told = [text for text in point.warnings if "expandable_segments:True joins its pieces" in text]
    assert bool(told) == said
    assert not said or told[0].startswith("at batch 4, 10% of what the allocator holds was never in use at once")


def test_devices_are_named_where_nodes_name_them() -> None:
    assert summary_of(run_result())["config"]["device"] == "GPU"


def test_memory_of_a_process_is_said_to_be_that_in_table_and_summary() -> None:
    rss = trained("ddp", 0.1, memory={"kind": "rss", "peak_bytes": GIB, "mean_bytes": GIB / 2})
    for point, cell, words in (
        (rss, "1.000 rss", "resident memory of the rank's process (RSS), no device's"),
        (trained("ddp", 0.1), "12.450", "memory of the device"),
    ):
        table = next(one for one in workload_sections([benchmark(point)]) if one.title == "Training")
        assert table.grid.rows[0][table.grid.headings.index("peak (GiB)")].text == cell
        assert any("(RSS), and no device's" in note for note in table.notes) == ("rss" in cell)
        assert summary_of(run_result(benchmark(point)))["results"]["training"]["ddp gpt2"]["memory"]["is"] == words


def test_a_training_that_was_cut_is_said_to_be_a_part_wherever_it_is_shown() -> None:
    launches = ((0.1,) * 7,)
    cut = trained("ddp", 0.1, launches=launches, complete=False, steps_asked=20, verified=None)
    sections = {one.title: one for one in workload_sections([benchmark(cut, trained("fsdp", 0.2))])}
    assert sections["Training"].grid.rows[0][0].text == "ddp gpt2 (partial)"
    assert sections["Training"].grid.rows[1][0].text == "fsdp gpt2"
    assert sections["Training summary"].grid.rows[0][1].text == "7 of 20"
    assert sections["Training summary"].notes == ()  # no advice from half a run
    assert cut.warnings[0] == "partial: the run ended after 7 of 20 timed steps"
    told = summary_of(run_result(benchmark(cut)))["results"]["training"]["ddp gpt2"]
    assert (told["steps"], told["steps_asked"], told["complete"]) == (7, 20, False)
    all_steps = trained("ddp", 0.1, launches=((0.1,) * 20,), complete=False, steps_asked=20)
    assert "after the 20 timed steps, before what follows them was through" in all_steps.warnings[0]
