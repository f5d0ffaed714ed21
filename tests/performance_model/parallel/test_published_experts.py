"""Step times of models with experts against published trainings, which their bounds are from.

``../published/experts.csv``; what each source is stands in the README beside it.
"""

import csv
import math
from statistics import median
from typing import Any

import pytest

from raybench.performance_model.estimate import Estimate, estimate
from raybench.services.estimate import EstimateOptions, estimate_request
from tests.performance_model.published_run import FOLDER

with (FOLDER / "experts.csv").open() as file:
    ROWS = list(csv.DictReader(file))


# GPUs of a domain of NVLink: of the 72 of an NVL72 as many as divide a world's power of two.
_DOMAINS = {"GB200": 64, "GB300": 64}


def estimated(row: dict[str, str]) -> Estimate:
    cut: dict[str, Any] = {f"{name}_parallel": int(row[name]) for name in ("tensor", "pipeline", "expert")}
    return estimate(
        estimate_request(
            EstimateOptions(
                model=row["model"],
                **cut,
                virtual_stages=int(row["virtual_stages"]),
                gpu=row["gpu"],
                nics=8,
                nic_gbit=400,
                gpus_per_node=min(int(row["world_size"]), _DOMAINS.get(row["gpu"], 8)),
                world_size=int(row["world_size"]),
                sequence_length=int(row["sequence_length"]),
                strategy=row["strategy"],
                batch_size=int(row["batch_size"]),
                accumulation=int(row["accumulation"]),
                dtype=row["dtype"],
                activation_checkpointing=row["recompute"] == "full",
                kernels="fused",
                loss="fused",
            )
        )
    )


def test_the_bounds_of_experts_are_those_of_what_was_published() -> None:
    """Rows are of four makers' software."""
    faster, outside = [], []
    for row in ROWS:
        bounds = estimated(row).tokens_per_second
        assert bounds is not None
        published = float(row["tokens_per_second_per_gpu"]) * int(row["world_size"])
        faster.append(published / math.sqrt(bounds[0] * bounds[1]))
        if not bounds[0] <= published <= bounds[1]:
            outside.append((row["source"], row["gpu"]))
    assert len(outside) <= 2
    assert ("Megatron-Bridge 26.02", "B200") in outside  # experts over eight nodes
    assert median(faster) == pytest.approx(1, abs=0.06)


def test_a_dense_model_has_narrower_bounds_and_says_so() -> None:
    dense = {**ROWS[0], "model": "Qwen/Qwen3-8B", "expert": "1"}
    for row, words, most in ((ROWS[0], "models with experts", 3.5), (dense, "published trainings on H100", 2.2)):
        efficiency = estimated(row).efficiency
        assert words in efficiency.source
        assert efficiency.high / efficiency.low < most
