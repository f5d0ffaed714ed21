"""``raybench plan`` beside what it prints: each way is estimated as the program runs it that is said to start it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.performance_model.estimate import estimate
from raybench.services.estimate import EstimateOptions, estimate_request
from tests.cli.test_plan_published import is_cut


def planned(*arguments: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).stdout)
    return plan


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("full", {"fsdp": "--fsdp_version 2 --fsdp_reshard_after_forward true --fsdp_auto",
                  "fsdp-grad-op": "--fsdp_version 2 --fsdp_reshard_after_forward false --fsdp_auto",
                  "fsdp-hybrid": "_dp_replicate_size 2 --parallelism_config_dp_shard_size 8"}),
        ("lora", {"fsdp": "--use_fsdp --fsdp_sharding_strategy FULL_SHARD --fsdp_auto"}),
    ],
)  # fmt: skip
def test_fsdp_is_started_in_the_form_that_was_estimated(method: str, words: dict[str, str]) -> None:
    """The first form's streams take memory of their own; a plan of whole models is of fully_shard, as raybench train."""
    plan = planned("Qwen/Qwen2.5-7B", "--nodes", "2", "--node-type", "p5.48xlarge", "--method", method)
    starts = {way["strategy"]: way["launch"][0] for way in plan["ways"] if way["fits"] and not is_cut(way)}
    assert all(word in starts[strategy] for strategy, word in words.items())


@pytest.mark.parametrize("said", [{"kernels": "fused", "loss": "fused"}, {}])
def test_a_way_fits_where_an_estimate_of_it_does(said: dict[str, Any]) -> None:
    """A single sample that an estimate is too near to tell of was told to be too large."""
    options: dict[str, Any] = {"model": "deepseek-ai/DeepSeek-V2-Lite", "gpu": "A100-40GB", "gpus_per_node": 4} | said
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))][1:]
    plan = planned(*words, "--nodes", "2", "--nics", "4", "--nic-gbit", "200", "--sequence-length", "1024")
    machine = EstimateOptions(**options, world_size=8, nics=4, nic_gbit=200.0, sequence_length=1024)
    ways = [way for way in plan["ways"] if not is_cut(way)]
    for way in ways:
        alone = estimate(estimate_request(_asked(machine, way)))
        assert way["fits"] == alone.fits
        assert not said or (way["peak"], way["least_peak"]) == (alone.peak, alone.least_peak)
    assert said or any((way["fits"], way["batch_size"]) == (None, 1) for way in ways)


def _asked(machine: EstimateOptions, way: dict[str, Any]) -> EstimateOptions:
    """What ``raybench estimate`` is told of a way."""
    names = ("strategy", "batch_size", "accumulation", "activation_checkpointing")
    return replace(machine, **{name: way[name] for name in names})
