"""What would make a run fit: it does, and nothing milder would."""

from dataclasses import replace

import pytest

from raybench.performance_model.layout import Layout
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.nearest.fit import Fitting, nearest_fit
from raybench.performance_model.programs.table import program_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

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


@pytest.mark.parametrize(("peak", "fits"), [(None, False), (1, True)])
def test_a_run_that_its_program_refuses_fits_in_no_memory(peak: int | None, fits: bool) -> None:
    """Its peak was the largest integer there is, which is below what has no limit."""
    run = Fitting(model=preset_named("gpt2"), setup=SETUP, layout=ALONE, peak_of=lambda _: peak)
    assert run.fits(float("inf")) is fits
    assert (nearest_fit(run, float("inf")) is not None) is fits


def test_what_nothing_makes_fit_has_no_answer() -> None:
    assert nearest_fit(Fitting(model=preset_named("llama-405b"), setup=SETUP, layout=ALONE), 16 * GIB) is None


def test_a_run_with_selective_checkpointing_that_does_not_fit_is_told_what_does() -> None:
    """Full checkpointing replaces it: both at once are no setup, and the answer was an error."""
    setup = TrainingSetup(batch_size=8, sequence_length=8192, strategy="fsdp", selective=True)
    run = Fitting(model=preset_named("llama-8b"), setup=setup, layout=Layout(world_size=8, ranks_per_node=8))
    found = nearest_fit(run, 80 * 2**30)
    assert found is not None
    assert found.run.memory.peak <= 80 * 2**30


_CLUSTER = EstimateOptions(world_size=8, gpu="a100-80gb", batch_size=2, accumulation=2)
_ALONE = EstimateOptions(world_size=1, gpus_per_node=1, gpu="a100-80gb")
_H100 = EstimateOptions(world_size=8, gpu="H100")
_STAGED = replace(_H100, program="megatron-lm", model="llama-70b")
# What a model is cut by where sharding, recomputation and smaller micro-batches are not enough.
CUT = (
    (
        replace(_H100, program="torchtitan", sequence_length=65_536),
        "--activation-checkpointing --tensor-parallel 4 --gradient-accumulation-steps 4",
    ),
    (
        _STAGED,
        (
            "--strategy zero1 --activation-checkpointing --tensor-parallel 8 --pipeline-parallel 2 "
            "--gradient-accumulation-steps 4 --world-size 32"
        ),
    ),
    (
        replace(_STAGED, tensor_parallel=4, pipeline_parallel=2, virtual_stages=5),
        "--strategy zero1 --activation-checkpointing --tensor-parallel 8 --world-size 32",
    ),
    (
        replace(_H100, world_size=64, program="megatron-lm", model="mixtral-8x7b", strategy="zero1"),
        "--tensor-parallel 2 --expert-parallel 8 --gradient-accumulation-steps 2",
    ),
    (
        replace(_H100, model="llama-405b", kernels="fused", loss="fused"),
        "--strategy fsdp --activation-checkpointing --tensor-parallel 4 --world-size 128",
    ),
    (
        replace(_H100, program="nanogpt", gpu="A10", model="gpt2-xl"),
        "--program transformers --strategy fsdp",
    ),
)


@pytest.mark.parametrize(("options", "told"), CUT)
def test_a_model_is_cut_as_people_do_where_nothing_milder_makes_it_fit(options: EstimateOptions, told: str) -> None:
    assert " ".join(estimate(options).report.memory.nearest_options) == told


_QLORA = replace(_H100, gpu="RTX 4090", model="llama-70b", lora_rank=16, qlora=True, strategy="fsdp", batch_size=4)
_AGAIN = "--activation-checkpointing"
# What people do instead of a cut of the model, or of leaving what they train with.
AS_PEOPLE_DO = (
    (
        replace(_H100, gpu="RTX 4090", model="llama-8b", world_size=4, strategy="zero3", activation_checkpointing=True),
        "--cpu-offload optimizer",
    ),
    (replace(_H100, gpu="a100-40gb", strategy="zero2", activation_checkpointing=True), "--strategy zero3"),
    (
        replace(_H100, model="google/gemma-3-27b-pt", strategy="fsdp", sequence_length=8192,
                activation_checkpointing=True),
        "--kernels fused --loss chunked",
    ),
    (
        replace(_ALONE, gpu="RTX 4090", model="meta-llama/Llama-3.2-1B", batch_size=8, sequence_length=4096),
        f"--kernels fused --loss fused {_AGAIN} --optimizer adamw-8bit --batch-size 2 --gradient-accumulation-steps 4",
    ),
    (
        replace(_H100, model="mixtral-8x7b", world_size=16, strategy="zero1", expert_parallel=8,
                sequence_length=4096),
        "--activation-checkpointing --pipeline-parallel 2 --gradient-accumulation-steps 2",
    ),
    (
        replace(_ALONE, gpu="RTX 4090", model="llama-8b", batch_size=2, sequence_length=4096, program="torchtune"),
        "--activation-checkpointing --lora-rank 16",
    ),
    (
        replace(_H100, gpu="L40S", world_size=4, model="Qwen/Qwen2.5-32B", batch_size=2, sequence_length=3840,
                lora_rank=16, qlora=True, strategy="ddp", program="trl==0.25"),
        "--kernels fused",
    ),
    (
        replace(_H100, model="llama-70b", world_size=16, sequence_length=8192, tensor_parallel=4, pipeline_parallel=4,
                accumulation=16, program="nemo"),
        "--strategy zero1 --activation-checkpointing --world-size 32",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("options", "told"), AS_PEOPLE_DO)
def test_the_nearest_is_what_those_do_who_train_with_it(options: EstimateOptions, told: str) -> None:
    assert " ".join(estimate(options).report.memory.nearest_options) == told


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_base_in_4_bits_is_cut_by_nobody(ranks: int) -> None:
    words = " ".join(estimate(replace(_QLORA, world_size=ranks)).report.memory.nearest_options)
    assert "--world-size" in words
    assert "-parallel" not in words


def test_an_optimizer_that_no_node_has_room_for_is_not_put_on_its_cpus() -> None:
    words = [
        " ".join(estimate(replace(_H100, model=model, strategy="zero3")).report.memory.nearest_options)
        for model in ("llama-70b", "llama-405b")
    ]
    assert ["--cpu-offload" in one for one in words] == [True, False]


@pytest.mark.parametrize("program", ["megatron-lm", "torchtitan", None])
def test_a_cut_is_over_the_fewest_gpus_and_ranks_and_keeps_the_samples_of_a_step(program: str | None) -> None:
    asked = replace(_H100, world_size=16, model="llama-70b", program=program, accumulation=4)
    words = " ".join(estimate(asked).report.memory.nearest_options).split()
    told = _changed(asked, list(words))
    if told.world_size == asked.world_size:
        assert _samples(told) == _samples(asked)
    assert estimate(told).report.memory.fits
    if told.tensor_parallel > 1:
        half = replace(told, tensor_parallel=told.tensor_parallel // 2, accumulation=max(1, told.accumulation // 2))
        assert estimate(half).report.memory.fits is not True


def _samples(options: EstimateOptions) -> int:
    cut = options.tensor_parallel * options.pipeline_parallel * options.context_parallel
    return options.world_size // cut * options.batch_size * options.accumulation


@pytest.mark.parametrize(
    "options",
    [
        replace(_CLUSTER, program="transformers"),
        replace(_CLUSTER, program="raybench"),
        replace(_CLUSTER, program="nemo-automodel"),
        replace(_CLUSTER, strategy="fsdp"),
        replace(_CLUSTER, world_size=16, strategy="zero1", model="llama-70b"),
        replace(_ALONE, strategy="zero3"),
        replace(_ALONE, strategy="fsdp", gpu="RTX 4090", program="trl"),
        replace(_ALONE, gpu="RTX 4090"),
        replace(
            _ALONE,
            gpu="RTX 4090",
            model="llama-7b",
            batch_size=8,
            lora_rank=16,
            qlora=True,
            program="unsloth",
            activation_checkpointing=False,
        ),
        replace(
            _ALONE, gpu="RTX 4090", model="llama-70b", sequence_length=2048, lora_rank=16, qlora=True, program="unsloth"
        ),
        EstimateOptions(model="llama-70b", gpu="A100", activation_checkpointing=True),
        EstimateOptions(
            model="llama-8b",
            gpu="H100",
            strategy="fsdp",
            batch_size=16,
            reduce_each=False,  # whole gradients, once there are several micro-batches
            kernels="plain",
            loss="plain",
            activation_checkpointing=True,
        ),
        *(one for one, _ in (*CUT, *AS_PEOPLE_DO)),
    ],
    ids=lambda options: " ".join(filter(None, (options.program, options.strategy, options.gpu, options.model))),
)
def test_what_is_told_to_fit_has_that_peak_when_it_is_asked_for(options: EstimateOptions) -> None:
    """Of another strategy other facts of the program hold, and what nobody says takes most another way."""
    memory = estimate(options).report.memory
    assert memory.nearest_options
    told = estimate(_changed(options, " ".join(memory.nearest_options).split())).report.memory
    assert told.peak == memory.nearest_peak
    assert told.fits


@pytest.mark.parametrize(
    ("gpu", "memory", "is_told"), [("A100", None, True), ("A100", "80G", False), ("H100", None, False)]
)
def test_of_a_name_of_two_sizes_the_nearest_says_which_where_one_is_too_small(
    gpu: str, memory: str | None, is_told: bool
) -> None:
    """An A100 has 80 GB or 40; what fits into the first alone was told to fit, and asked for again was left open."""
    options = EstimateOptions(model="llama-1b", gpu=gpu, memory=memory, batch_size=16, activation_checkpointing=True)
    nearest = estimate(options).report.memory.nearest_options
    assert nearest
    assert ("--memory 80G" in nearest) is is_told


def test_more_gpus_are_not_told_where_the_program_has_not_the_strategy() -> None:
    asked = estimate_request(replace(_ALONE, strategy="fsdp"))
    for name, told in ((None, True), ("nanogpt", False)):
        program = program_named(name) if name else None
        run = Fitting(model=asked.model, setup=asked.setup, layout=asked.layout, program=program)
        found = nearest_fit(run, asked.sure_bytes)
        assert found is not None
        assert any("--world-size" in option for option in found.options)
        assert (found.options[0] == "--program transformers") is not told  # nanoGPT shards nothing


@pytest.mark.parametrize(
    ("program", "ranks", "stages", "strategy"),
    [("megatron-lm", 4, 4, "zero1"), ("nemo", 8, 1, "zero1"), ("gpt-neox", 4, 1, "zero2"), ("gpt-neox", 4, 4, "zero1")],
)
def test_a_program_without_fsdp_is_told_what_it_has(program: str, ranks: int, stages: int, strategy: str) -> None:
    """Megatron-LM was told of recomputation and an 8-bit optimizer, and nothing of its distributed optimizer."""
    options = EstimateOptions(
        model="llama-70b",
        gpu="H100",
        world_size=128,
        tensor_parallel=ranks,
        pipeline_parallel=stages,
        program=program,
        kernels="fused",
    )
    memory = estimate(replace(options, activation_checkpointing=stages == 1)).report.memory
    assert memory.nearest_options == (f"--strategy {strategy}",)


def _changed(options: EstimateOptions, words: list[str]) -> EstimateOptions:
    """With options of the command line."""
    fields = {"--gradient-accumulation-steps": "accumulation"}
    switches = ("--activation-checkpointing", "--qlora")
    while words:
        word = words.pop(0)
        value = word in switches or words.pop(0)
        name = fields.get(word, word.removeprefix("--").replace("-", "_"))
        options = replace(options, **{name: int(value) if str(value).isdigit() else value})
    return options
