"""What would make a run fit: it does, and nothing milder would."""

from dataclasses import replace

import pytest

from raybench.performance_model.layout import Layout
from raybench.performance_model.nearest_fit import Fitting, nearest_fit
from raybench.performance_model.presets import preset_named
from raybench.performance_model.training_setup import TrainingSetup

GIB = 2**30
EIGHT = Layout(world_size=8, ranks_per_node=8)
ALONE = Layout(world_size=1, ranks_per_node=8)
SETUP = TrainingSetup(batch_size=4, sequence_length=2048)


@pytest.mark.parametrize(
    ("model", "layout", "memory", "options"),
    [
        ("llama-8b", EIGHT, 100, ("--strategy fsdp",)),
        ("llama-8b", EIGHT, 80, ("--kernels fused --loss fused", "--strategy fsdp")),
        ("llama-13b", EIGHT, 40, ("--strategy fsdp", "--activation-checkpointing")),
        ("gpt2", EIGHT, 9, ("--kernels fused --loss fused",)),
        ("gpt2", EIGHT, 6, ("--batch-size 1 --gradient-accumulation-steps 4",)),
        ("llama-7b", ALONE, 80, ("--lora-rank 16",)),
        ("llama-7b", ALONE, 22, ("--activation-checkpointing", "--lora-rank 16")),
        ("llama-7b", ALONE, 11, ("--activation-checkpointing", "--lora-rank 16 --qlora")),
    ],
)
def test_the_mildest_change_is_named(model: str, layout: Layout, memory: int, options: tuple[str, ...]) -> None:
    found = nearest_fit(Fitting(model=preset_named(model), setup=SETUP, layout=layout), memory * GIB)
    assert found is not None
    assert found.options == options
    assert found.run.memory.peak <= memory * GIB


def test_more_nodes_are_the_fewest() -> None:
    run = Fitting(model=preset_named("llama-70b"), setup=SETUP, layout=EIGHT)
    found = nearest_fit(run, 80 * GIB)
    assert found is not None
    ranks = found.run.layout.world_size
    assert f"--world-size {ranks}" in found.options
    fewer = replace(found.run, layout=replace(EIGHT, world_size=ranks // 2))
    assert fewer.memory.peak > 80 * GIB


def test_samples_of_a_step_stay_as_many() -> None:
    run = Fitting(model=preset_named("gpt2"), setup=replace(SETUP, batch_size=96), layout=EIGHT, accumulation=3)
    found = nearest_fit(run, 24 * GIB)
    assert found is not None
    assert found.run.setup.batch_size * found.run.accumulation == 96 * 3


def test_a_model_too_large_for_one_gpu_is_shared_by_several() -> None:
    setup = replace(SETUP, lora_rank=16, quantized=True, parameter_bytes=2, loss="transformers", batch_size=1)
    found = nearest_fit(Fitting(model=preset_named("llama-70b"), setup=setup, layout=ALONE), 24 * GIB)
    assert found is not None
    assert found.options[-1] == f"--strategy fsdp --world-size {found.run.layout.world_size}"
    assert found.run.memory.peak <= 24 * GIB


def test_what_nothing_makes_fit_has_no_answer() -> None:
    assert nearest_fit(Fitting(model=preset_named("llama-405b"), setup=SETUP, layout=ALONE), 16 * GIB) is None


def test_a_run_with_selective_checkpointing_that_does_not_fit_is_told_what_does() -> None:
    """Full checkpointing replaces it: both at once are no setup, and the answer was an error."""
    setup = TrainingSetup(batch_size=8, sequence_length=8192, strategy="fsdp", selective=True)
    run = Fitting(model=preset_named("llama-8b"), setup=setup, layout=Layout(world_size=8, ranks_per_node=8))
    found = nearest_fit(run, 80 * 2**30)
    assert found is not None
    assert found.run.memory.peak <= 80 * 2**30
