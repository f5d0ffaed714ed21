"""The estimated peak of adapters against all tensors that transformers and peft make, on a GPU that is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup

pytest.importorskip("torch")
pytest.importorskip("peft")
ROOT = Path(__file__).parents[3]
SIZES = {
    "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 16,
}  # fmt: skip
ATTENTION, ALL = ["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def case(
    vocabulary: int, targets: list[str], *, again: bool, autocast: bool = True, base: str = "bfloat16"
) -> dict[str, Any]:
    """Without targets all is trained, with as many samples as make a block the fullest moment, not the update."""
    sizes = {**SIZES, "vocab_size": vocabulary}
    batch, rank = (2, 8) if targets else (8, 0)
    one = {"sizes": sizes, "batch": batch, "length": 1024, "rank": rank, "targets": targets, "again": again}
    return {**one, "autocast": autocast, "base": base}


# Where the loss is next to nothing a block's backward pass is the fullest moment, whose MLP is frozen or is not.
CASES = [
    case(64, ATTENTION, again=True), case(64, ALL, again=True), case(64, ATTENTION, again=False),
    case(16000, ATTENTION, again=True), case(64, [], again=True), case(64, [], again=False),
    case(64, ATTENTION, again=False, autocast=False), case(16000, ALL, again=True, autocast=False),
    case(64, ATTENTION, again=True, base="float32"), case(64, ALL, again=False, base="float32"),
    case(16000, ATTENTION, again=True, base="float32"), case(16000, ALL, again=False, base="float32"),
]  # fmt: skip


def estimated(one: dict[str, Any]) -> int:
    sizes = one["sizes"]
    model = Transformer(
        name="counted",
        layers=sizes["num_hidden_layers"],
        hidden=sizes["hidden_size"],
        heads=sizes["num_attention_heads"],
        feedforward=sizes["intermediate_size"],
        vocabulary=sizes["vocab_size"],
    )
    setup = TrainingSetup(
        batch_size=one["batch"],
        sequence_length=one["length"],
        checkpointing=one["again"],
        gradients_kept=False,
        autocast=one["autocast"],
        loss="transformers-whole",
        lora_rank=one["rank"],
        lora_targets=tuple(one["targets"]),
        base_bytes=4 if one["base"] == "float32" else 0,
    )
    return estimate_memory(model, setup, Layout(world_size=1, ranks_per_node=1)).allocated


def test_the_estimated_peak_of_adapters_is_that_of_the_tensors(tmp_path: Path) -> None:
    from tests.performance_model.absent_gpu import build  # imports torch

    try:
        library = build(tmp_path)
    except RuntimeError as error:
        pytest.skip(f"a GPU that is not there cannot be made here: {error}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.performance_model.configs.absent_gpu_adapters"], input=json.dumps(CASES),
        capture_output=True, text=True, timeout=600, check=False, cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    peaks = json.loads(done.stdout.splitlines()[-1])
    shares = [estimated(one) / peak for one, peak in zip(CASES, peaks, strict=True)]
    print(shares)
    assert shares == [pytest.approx(1, rel=0.05)] * len(CASES)
