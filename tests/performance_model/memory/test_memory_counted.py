"""The estimated peak of a step against all tensors that raybench's training makes in it, on a GPU that is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.benchmarks.training.models.shapes import shape_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import MemoryEstimate, estimate_memory
from raybench.performance_model.setup.training_setup import TrainingSetup

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
RANKS, PER_NODE = 8, 4
SIZES = ("layers", "hidden_size", "heads", "kv_heads", "intermediate_size", "vocabulary")
SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": dict(zip(SIZES, (3, 192, 6, 6, 768, 1500), strict=True)),
    "llama-2-7b": dict(zip(SIZES, (3, 192, 6, 6, 512, 1500), strict=True)),
    "llama-3.2-1b": dict(zip(SIZES, (3, 192, 6, 2, 512, 4000), strict=True)),  # one table for both ends
    "mistral-7b": dict(zip(SIZES, (4, 256, 8, 2, 896, 1000), strict=True)),
}


def case(model: str, strategy: str, *, batch: int = 4, length: int = 128, **options: Any) -> dict[str, Any]:
    chosen = {"dtype": "bfloat16", "batch_size": batch, "sequence_length": length, "overlap_steps": 0, **options}
    if strategy in ("lora", "qlora"):
        chosen.setdefault("lora_rank", 8)
    sizes = {"model": model, **SHAPES[model]}  # which options may change
    return {"strategy": strategy, "ranks": RANKS, "per_node": PER_NODE, "options": {**sizes, **chosen}}


def all_cases() -> list[dict[str, Any]]:
    """Every family, strategy, type and both ways of keeping activations, not each with each, which takes minutes."""
    spreads: list[tuple[str, dict[str, Any]]] = [
        ("ddp", {}), ("fsdp", {}), ("lora", {}), ("fsdp", {"sharding": "grad-op"}), ("qlora", {}),
    ]  # fmt: skip
    found = []
    for number, model in enumerate(SHAPES):
        for place in range(3):
            strategy, options = spreads[(3 * number + place) % len(spreads)]
            kept = (number + place) % 2 > 0
            dtype = "float32" if place == number % 3 and strategy != "qlora" else "bfloat16"
            found.append(case(model, strategy, checkpoint_activations=kept, dtype=dtype, **options))
    found += [
        case("gpt2", "ddp", batch=1, length=16),
        case("mistral-7b", "fsdp", batch=1, length=16),
        case("llama-3.2-1b", "fsdp", batch=1, length=16),
        case("llama-2-7b", "fsdp", batch=1, length=16, vocabulary=9000),
        case("llama-3.2-1b", "ddp", batch=1, length=16, optimizer="sgd"),
        case("llama-2-7b", "ddp", optimizer="sgd"),
        case("llama-2-7b", "fsdp", sharding="hybrid"),
        case("llama-2-7b", "fsdp", accumulate=3),
    ]
    return found


CASES = all_cases()
OF_EVERY_DAY, OTHERS = CASES[::12], [one for number, one in enumerate(CASES) if number % 12]


def name_of(one: dict[str, Any]) -> str:
    options = one["options"]
    plain = ("model", "strategy", *SIZES, "overlap_steps", "checkpoint_activations")
    rest = [f"{key}={value}" for key, value in options.items() if key not in plain]
    kept = ["checkpointing"] if options.get("checkpoint_activations") else []
    return " ".join([options["model"], one["strategy"], *kept, *rest])


def peaks(folder: Path, cases: list[dict[str, Any]]) -> list[int]:
    from tests.performance_model.absent_gpu import build  # imports torch

    try:
        library = build(folder)
    except RuntimeError as error:
        pytest.skip(f"a GPU that is not there cannot be made here: {error}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.performance_model.absent_gpu"], input=json.dumps(cases),
        capture_output=True, text=True, timeout=1200, check=False, cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def estimated(one: dict[str, Any]) -> MemoryEstimate:
    options, strategy = TrainingOptions(**one["options"]), one["strategy"]
    shape, length = shape_of(options)
    sharding = {"full": "fsdp", "grad-op": "fsdp-grad-op", "hybrid": "fsdp-hybrid"}[options.sharding]
    setup = TrainingSetup(
        batch_size=options.batch_size,
        sequence_length=length,
        strategy=sharding if strategy == "fsdp" else "ddp",
        optimizer=options.optimizer,
        compute_bytes=4 if options.dtype == "float32" else 2,
        checkpointing=options.checkpoint_activations,
        bucket_view=True,
        gradients_kept=strategy != "fsdp",
        whole_gradients=options.accumulate > 1,
        lora_rank=options.lora_rank if strategy in ("lora", "qlora") else 0,
        quantized=strategy == "qlora",
    )
    return estimate_memory(shape, setup, Layout(world_size=RANKS, ranks_per_node=PER_NODE))


_MINUTES = [pytest.mark.long, pytest.mark.timeout(1800)]  # several, and more beside others


@pytest.mark.parametrize("cases", [OF_EVERY_DAY, pytest.param(OTHERS, marks=_MINUTES)], ids=["some", "others"])
def test_the_estimated_peak_is_that_of_the_tensors(tmp_path: Path, cases: list[dict[str, Any]]) -> None:
    counted = peaks(tmp_path, cases)
    shares = {name_of(one): estimated(one).allocated / peak for one, peak in zip(cases, counted, strict=True)}
    print("\n".join(f"{share:.3f} {name}" for name, share in shares.items()))
    assert {name: share for name, share in shares.items() if share != pytest.approx(1, rel=0.05)} == {}
