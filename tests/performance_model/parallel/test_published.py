"""Step times of cut models against published runs: where they are in the bounds, and how far the middle is."""

import csv
import math
from pathlib import Path
from statistics import median

import pytest

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

NICS = {"H100": 400.0, "A100": 200.0}
with (Path(__file__).parent / "published.csv").open() as file:
    ROWS = list(csv.DictReader(file))


def estimated(row: dict[str, str]) -> Estimate:
    sizes = {name: int(row[name]) for name in ("layers", "hidden", "heads") if row[name]}
    return estimate(
        estimate_request(
            EstimateOptions(
                model=row["model"],
                **sizes,
                feedforward=4 * sizes["hidden"] if sizes else None,
                gpu=row["gpu"],
                nics=8,
                nic_gbit=NICS[row["gpu"]],
                gpus_per_node=8,
                world_size=int(row["world_size"]),
                sequence_length=int(row["sequence_length"]),
                strategy=row["strategy"],
                tensor_parallel=int(row["tensor"]),
                pipeline_parallel=int(row["pipeline"]),
                virtual_stages=int(row["virtual_stages"]),
                context_parallel=int(row["context"]),
                batch_size=int(row["batch_size"]),
                accumulation=int(row["accumulation"]),
                dtype=row["dtype"],
                activation_checkpointing=row["recompute"] == "full",
                selective_checkpointing=row["recompute"] == "selective",
                kernels="fused" if row["kernels"] else None,
                loss="fused" if row["kernels"] else None,
                compile=row["source"].startswith("torchtitan") and row["dtype"] == "fp8",
                power_limit=500 if row["source"].startswith("torchtitan") else None,
            )
        )
    )


def rates(row: dict[str, str]) -> tuple[float, float, float]:
    """Low, published, high: tokens a second and GPU."""
    bounds = estimated(row).tokens_per_second
    assert bounds is not None
    ranks = int(row["world_size"])
    return bounds[0] / ranks, float(row["tokens_per_second_per_gpu"]), bounds[1] / ranks


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['source']} {row['model']} {row['world_size']}")
def test_each_is_within_a_factor_of_the_middle(row: dict[str, str]) -> None:
    low, published, high = rates(row)
    print(f"{low:.0f} {published:.0f} {high:.0f}")
    assert math.sqrt(low * high) / published == pytest.approx(1, rel=0.6)


def test_most_are_within_the_bounds_and_none_is_favoured() -> None:
    found = [rates(row) for row in ROWS]
    within = sum(low <= published <= high for low, published, high in found)
    assert within >= 0.85 * len(found)
    middles = [math.sqrt(low * high) / published for low, published, high in found]
    assert median(middles) == pytest.approx(1, abs=0.1)


def test_memory_of_what_ran_is_not_refused() -> None:
    """torchtitan's GPUs have 96 GB; what its allocator had reserved is above what it had handed out."""
    for row in ROWS:
        if row["memory_gib"]:
            found = estimated(row)
            assert found.least_memory.peak / 2**30 < float(row["memory_gib"])
            assert found.memory.peak / 2**30 > 0.6 * float(row["memory_gib"])
