"""The estimates against a real H200: PyTorch's allocator and events (tests/gpu/trainings/h200.jsonl, torch 2.11).

No constant of an estimate was fitted to these, but how slow products of an odd width are beyond Ampere.
"""

import json
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from raybench.benchmarks.memory import benchmark
from raybench.benchmarks.memory.options import MemoryOptions
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.efficiency import CALIBRATION
from raybench.performance_model.step.work import work_of
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions

FOLDER = Path(__file__).parents[1] / "gpu"
MEASURED = [json.loads(line) for line in (FOLDER / "trainings/h200.jsonl").read_text().splitlines()]
OPTIONS = ("model", "layers", "sequence_length", "optimizer", "checkpoint_activations", "strategy")


def estimated(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, wide_norms: bool) -> int:
    """Bytes, as ``raybench memory`` on that GPU says beside what it measured."""
    monkeypatch.setattr(benchmark, "chosen_dtype", lambda *_: row.get("dtype", "bfloat16"))
    monkeypatch.setattr(benchmark, "has_wide_norms", lambda _: wide_norms)
    options = MemoryOptions(
        **{name: row[name] for name in OPTIONS if name in row},
        batch_sizes=(row["batch_size"],),
        shards=row["shards"] if row["strategy"] == "fsdp" else None,
    )
    context: Any = SimpleNamespace(device=torch.device("cuda"), world_size=1)
    found = benchmark.estimate_of(context, options, row["batch_size"])
    assert found is not None
    return found.allocated


def name_of(row: dict[str, Any]) -> str:
    size = f"{row.get('layers', 'all')} layers, {row['batch_size']} x {row['sequence_length']}"
    again = ", again" if row.get("checkpoint_activations") else ""
    return f"{row['strategy']} {row['model']}, {size}{again}"


@pytest.mark.parametrize("row", MEASURED, ids=name_of)
def test_the_estimate_is_the_allocators_peak(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimated(row, monkeypatch, wide_norms=False) == pytest.approx(row["peak"], rel=0.03)


def test_norms_in_fp32_are_another_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch has them from 2.12 on: 2.11's peak is not taken for that."""
    kept = [row for row in MEASURED if row["strategy"] == "qlora" and not row.get("checkpoint_activations")]
    assert all(estimated(row, monkeypatch, wide_norms=True) > 1.1 * row["peak"] for row in kept)


def step_is_inside(row: dict[str, Any]) -> bool:
    """Whether the median step is inside the bounds of ``raybench estimate --gpu H200``, which know nothing more."""
    adapted = row["strategy"] in ("lora", "qlora")
    options = EstimateOptions(
        model=row["model"],
        layers=row.get("layers"),
        world_size=row["shards"],
        gpus_per_node=row["shards"],
        strategy="fsdp" if row["strategy"] == "fsdp" else "ddp",
        gpu="H200",
        batch_size=row["batch_size"],
        sequence_length=row["sequence_length"],
        dtype="fp32" if row.get("dtype") == "float32" else "bf16",
        optimizer=row.get("optimizer", "adamw"),
        activation_checkpointing=row.get("checkpoint_activations", False),
        lora_rank=16 if adapted else 0,
        qlora=row["strategy"] == "qlora",
    )
    report = estimate(options).report
    low, high = report.step_seconds
    return bool(low <= statistics.median(row["step_seconds"]) <= high)


def test_step_times_are_inside_the_bounds() -> None:
    """GPT-2's in 16 bits too, of whose 50,257 words, an odd number, only slow kernels compute the output layer."""
    assert [name_of(row) for row in MEASURED if not step_is_inside(row)] == []


def test_launches_are_those_of_a_loop_that_waits_for_its_processor() -> None:
    """GPT-2 by a plain loop under autocast, four samples of 512 (``step_parity`` of tests/gpu/training.py)."""
    record = json.loads((FOLDER / "records/nvidia-h200-2026-11-27.json").read_text())
    seconds = record["steps"]["step-parity"]["figures"]["step_seconds"]
    setup = TrainingSetup(batch_size=4, sequence_length=512, compiled=False)
    work = work_of(gpu_for("h200"), preset_named("gpt2"), setup)
    assert CALIBRATION.working_seconds(work) < 0.5 * CALIBRATION.starting_seconds(work)
    assert CALIBRATION.seconds(work) == pytest.approx(statistics.median(seconds["waiting"]["plain"]), rel=0.15)
