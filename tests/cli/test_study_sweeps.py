"""``raybench study batch-size`` and ``model-size`` as a user runs them: real training, gone on with, priced, shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import raybench

pytestmark = pytest.mark.cluster
TRAINING = (
    "--nodes", "2", "--address", "local", "--sequence-length", "16", "--steps", "3", "--warmup-steps", "1",
    "--overlap-steps", "0", "--no-verify", "--quiet",
)  # fmt: skip


def content_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "study.json").read_text())
    return content


@pytest.mark.long
def test_batches_are_compared_gone_on_with_and_priced(tmp_path: Path) -> None:
    sizes = ("study", "batch-size", "--batch-sizes", "1,8", "--repeats", "1", "--output-dir", str(tmp_path))
    done = raybench(*sizes, *TRAINING, seconds=200)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    again = raybench(
        "study",
        "batch-size",
        "--resume",
        str(folder),
        "--repeats",
        "2",
        "--price",
        "0.6",
        "--quiet",
        "--full",
        seconds=200,
    )
    assert again.returncode == 0, again.stderr
    content = content_of(folder)
    assert len(content["trials"]) == 4
    answer = content["answer"]
    assert [row["batch_size_per_rank"] for row in answer["rows"]] == [1, 8]
    for row in answer["rows"]:
        assert row["blocks"] == 2
        assert row["samples_per_s"] == pytest.approx(2 * row["batch_size_per_rank"] / row["step_seconds"])
        assert row["cost"]["per_1k_samples"] == pytest.approx(2 * 0.6 * 1000 / row["samples_per_s"] / 3600)
        assert row["memory_bytes"] > 1_000_000
    assert answer["recommended"] in ("batch-1", "batch-8")
    assert f"use {answer['recommended']}: {answer['why']}"[:40] in again.stdout
    assert "fit: time/step =" in again.stdout
    assert "cost per 1K samples" in again.stdout
    assert "Throughput over the batch" in (folder / "study.html").read_text()


@pytest.mark.long
def test_models_are_compared(tmp_path: Path) -> None:
    options = ("study", "model-size", "--models", "mlp,cnn", "--repeats", "1", "--output-dir", str(tmp_path))
    without_length = [word for word in TRAINING if word not in ("--sequence-length", "16")]
    done = raybench(*options, *without_length, "--batch-size", "2", seconds=200)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    answer = content_of(folder)["answer"]
    assert [(row["variant"], row["parameters"] > 0) for row in answer["rows"]] == [("mlp", True), ("cnn", True)]
    assert answer["recommended"] == "cnn"
    assert answer["fit"]["exponent"] > 0
    assert "use cnn: the largest that was trained" in done.stdout


@pytest.mark.long
def test_one_run_holds_communication_training_and_memory(tmp_path: Path) -> None:
    config = tmp_path / "run.yml"
    config.write_text(
        "suite: all_reduce,all_gather,reduce_scatter,send_recv,ddp,fsdp,memory\n"
        "training:\n  sequence-length: 16\n  batch-size: 2\n  steps: 3\n  overlap-steps: 1\n"
        "memory:\n  model: tiny\n  batch-sizes: [1, 2]\n  most-batch: 2\n"
    )
    places = ("--nodes", "2", "--address", "local", "--output-dir", str(tmp_path / "runs"), "--config", str(config))
    done = raybench("run", *places, "--sizes", "4K:64K:16", "--iters", "2", "--quiet", "--full", seconds=200)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    results = summary["results"]
    assert {"all_reduce", "all_gather", "reduce_scatter", "send_recv"} <= set(results["communication"])
    assert [row["message_bytes"] for row in results["communication"]["all_reduce"]["sizes"]] == [4096, 65536]
    assert set(results["training"]) == {"ddp tiny", "fsdp tiny"}
    assert results["memory"]["memory tiny"]["batch_sizes"]["2"]["activations_bytes"] > 0
    assert (summary["world_size"], summary["config"]["device"]) == (2, "CPU")
    assert "Training summary" in done.stdout
    assert "raybench study strategy repeats them" in " ".join(done.stdout.split()).replace("# ", "")
