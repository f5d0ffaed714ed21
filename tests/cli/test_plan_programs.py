"""``raybench plan`` beside what it prints: each way is estimated as the program runs it that is said to start it."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.errors import UsageError
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.ways.way import Way
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from raybench.services.planning.launch import launch_lines
from tests.cli.test_plan_published import is_cut


def planned(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    plan: dict[str, Any] = json.loads(result.stdout)
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
    """The first form's streams take memory of their own; a plan of whole models is of fully_shard."""
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
        if said:  # an estimate may be meant compiled, which a plan's command is not
            assert way["peak"] == alone.peak
            assert 0.999 * way["least_peak"] <= alone.least_peak <= way["least_peak"]
    assert said or any((way["fits"], way["batch_size"]) == (None, 1) for way in ways)


@pytest.mark.parametrize(
    ("stages", "layers", "words"),
    [
        (4, None, "--pipeline-model-parallel-size 4 --use-distributed-optimizer"),
        (4, 126, "size 4 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --use-d"),
        (4, 127, "size 4 --decoder-last-pipeline-num-layers 31 --use-d"),
        (4, 61, "size 4 --decoder-first-pipeline-num-layers 15 --decoder-last-pipeline-num-layers 14 --use-d"),
    ],
)
def test_megatron_is_told_of_stages_with_fewer_layers(stages: int, layers: int | None, words: str) -> None:
    machine = EstimateOptions(model="llama-70b", world_size=16, node_type="p5.48xlarge", strategy="zero1")
    request = estimate_request(replace(machine, pipeline_parallel=stages, layers=layers))
    assert words in launch_lines(Way(estimate=estimate(request), fits=True))[1]


@pytest.mark.parametrize(
    ("experts", "words"),
    [
        ({"expert_parallel": 4}, "--moe-grouped-gemm --use-d"),
        ({"expert_parallel": 8}, "--moe-grouped-gemm --expert-tensor-parallel-size 1 --use-d"),
        (
            {"expert_parallel": 4, "expert_tensor_parallel": 1},
            "--moe-grouped-gemm --expert-tensor-parallel-size 1 --use-d",
        ),
    ],
    ids=["cut as all else", "over tensor ranks too", "whole as asked"],
)
def test_megatron_is_told_of_whole_experts_on_tensor_ranks(experts: dict[str, int], words: str) -> None:
    machine = EstimateOptions(
        model="mixtral-8x7b", world_size=8, node_type="p5.48xlarge", strategy="zero1", tensor_parallel=2, **experts
    )
    assert words in launch_lines(Way(estimate=estimate(estimate_request(machine)), fits=True))[1]


@pytest.mark.parametrize(("gpu", "is_captured"), [("GB200", True), ("B200", False)])
def test_megatron_is_told_to_capture_what_is_told_as_captured(gpu: str, is_captured: bool) -> None:
    machine = EstimateOptions(
        model="mixtral-8x7b",
        world_size=8,
        gpu=gpu,
        gpus_per_node=8,
        strategy="zero1",
        kernels="fused",
        expert_parallel=8,
    )
    told = [launch_lines(Way(estimate=estimate(estimate_request(replace(machine, cuda_graphs=said))), fits=True))[1]
            for said in (None, False, True)]  # fmt: skip
    assert ["--cuda-graph-modules attn moe_router moe_preprocess" in words for words in told] == [
        is_captured, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "program", "words"),
    [
        (
            ("Qwen/Qwen3-235B-A22B", "--nodes", "32", "--sequence-length", "16384", "--program", "megatron-lm"),
            "pretrain_gpt.py",
            "--expert-tensor-parallel-size 1",
        ),
        (
            ("deepseek-ai/DeepSeek-V3", "--nodes", "64"),
            "torchtitan.train",
            "--parallelism.expert_parallel_degree=",
        ),
    ],
)
def test_experts_are_whole_on_tensor_ranks_as_their_programs_have_them(
    asked: tuple[str, ...], program: str, words: str
) -> None:
    """Megatron-LM's recipes of mixtures of small experts; torchtitan has spread experts in no other form."""
    ways = planned(*asked, "--node-type", "p5.48xlarge")["ways"]
    both = [way for way in ways if way["tensor_parallel"] > 1 and way["expert_parallel"] > 1]
    started = [way for way in both if program in way["launch"][0]]
    whole = [way for way in started if way["expert_tensor_parallel"] == 1]
    assert whole
    assert all(words in way["launch"][1] for way in whole)
    assert program == "pretrain_gpt.py" or started == whole


@pytest.mark.parametrize("compiled", ["--compile", "--no-compile"])
def test_what_fits_needs_no_more_than_there_is(compiled: str) -> None:
    """Of a compiled model whose loss nobody says, ways of 42 GiB were told to fit into 39."""
    plan = planned("Qwen/Qwen3-4B", "--gpu", "A100-40GB", "--sequence-length", "4096", compiled)
    assert max(way["peak"] for way in plan["ways"] if way["fits"]) <= plan["device_bytes"]


@pytest.mark.parametrize("model", ["microsoft/phi-2", "Qwen/Qwen2.5-14B"])
@pytest.mark.parametrize("again", [False, True])
def test_where_nobody_says_it_either_form_of_fsdp_is_within(model: str, again: bool) -> None:
    machine = EstimateOptions(
        model=model, world_size=64, gpus_per_node=4, gpu="H100", nics=4, nic_gbit=200.0, sequence_length=256,
        strategy="fsdp", batch_size=2, activation_checkpointing=again,
    )  # fmt: skip
    unsaid = estimate(estimate_request(machine))
    said = estimate(estimate_request(replace(machine, kernels="plain", loss="plain")))
    assert unsaid.least_peak <= said.peak <= unsaid.peak


def _asked(machine: EstimateOptions, way: dict[str, Any]) -> EstimateOptions:
    """What ``raybench estimate`` is told of a way."""
    names = ("strategy", "batch_size", "accumulation", "activation_checkpointing")
    return replace(machine, **{name: way[name] for name in names})


@pytest.mark.parametrize(("samples", "replicas"), [("12", {4, 2, 1}), ("3", {1}), ("16", {8, 4, 2, 1})])
def test_samples_that_the_ranks_do_not_divide_are_of_replicas_of_a_model_that_is_cut(
    samples: str, replicas: set[int]
) -> None:
    """SmolLM3's 576 samples a step on 384 H100 (TP 2), DeepSeek-V3's 15,360 on 2,048 H800: both were refused."""
    plan = planned("llama-8b", "--gpu", "H100", "--samples-per-step", samples)
    degrees = ("tensor_parallel", "context_parallel", "pipeline_parallel")
    found = {8 // math.prod(way[name] for name in degrees) for way in plan["ways"]}
    assert any("nothing but a cut model" in one for one in plan["assumed"]) is (max(replicas) < 8)
    assert found <= replicas
    assert max(found) == max(replicas)


def test_samples_that_nothing_spreads_are_refused_with_the_nearest_numbers() -> None:
    with pytest.raises(UsageError, match=r"is 12; .* the 8 ranks \(nearest: 8 or 16\)"):
        planned("llama-8b", "--gpu", "H100", "--samples-per-step", "12", "--method", "lora")
    with pytest.raises(UsageError, match=r"is 3; .* \(nearest: 8\)"):
        planned("llama-8b", "--gpu", "H100", "--samples-per-step", "3", "--method", "lora")


@pytest.mark.parametrize(
    ("length", "share"),
    [("16384", 0.5), ("4096", 1.0)],  # of shorter samples all fit in another way that is as fast
)
def test_megatron_computes_half_of_the_blocks_again_where_that_is_enough(length: str, share: float) -> None:
    machine = ("--nodes", "8", "--gpu", "A100", "--nics", "8", "--nic-gbit", "200", "--samples-per-step", "64")
    best = planned("Qwen/Qwen2.5-72B", *machine, "--sequence-length", length)["ways"][0]
    assert best["recomputed_share"] == share
    told = " ".join(best["launch"])
    assert (best["activation_checkpointing"] and "zero1" in best["strategy"]) is (share < 1)
    if share < 1:
        chunk = 80 // (best["pipeline_parallel"] * best["virtual_stages"])
        assert f"--recompute-granularity full --recompute-method block --recompute-num-layers {chunk // 2}" in told
    assert ("--recompute-method block" in told) is (share < 1)


def test_llama_3_1_405b_is_cut_as_it_was_trained() -> None:
    """On 16,384 H100 with TP 8 and PP 16 (Llama 3, table 4); NVIDIA's recipe has PP 8 and VPP 8 (Megatron-Bridge).

    TP 4 with CP 2 fills a node as well, and is told to be a twentieth faster.
    """
    machine = ("--gpu", "H100", "--nics", "8", "--nic-gbit", "400", "--sequence-length", "8192")
    ways = planned("llama-405b", *machine, "--nodes", "2048", "--samples-per-step", "2048")["ways"]
    found = [(way["tensor_parallel"], way["pipeline_parallel"], way["virtual_stages"]) for way in ways]
    options = EstimateOptions(
        model="llama-405b", gpu="H100", world_size=16384, nics=8, nic_gbit=400, sequence_length=8192, accumulation=16,
        strategy="zero1", kernels="fused", pipeline_parallel=16, virtual_stages=8,
    )  # fmt: skip
    steps = [
        estimate(estimate_request(replace(options, tensor_parallel=tensor, context_parallel=context)))
        for tensor, context in ((4, 2), (8, 1))
    ]
    assert (steps[1].likely_step_seconds or math.inf) < 1.08 * (steps[0].likely_step_seconds or 0.0)
    assert ways[0]["tensor_parallel"] * ways[0]["context_parallel"] == 8
    assert found[0][1:] in ((8, 8), (16, 8))
    assert "--account-for-embedding-in-pipeline-split" in ways[0]["launch"][1]


@pytest.mark.parametrize(
    ("program", "options", "told"),
    [
        (
            "trl",
            ("--method", "qlora"),
            "--use_peft True --lora_r 16 --lora_target_modules all-linear --load_in_4bit True",
        ),
        ("trl", ("--method", "lora", "--base-dtype", "int8"), "all-linear --load_in_8bit True"),
        ("axolotl", ("--method", "qlora"), "adapter: qlora, lora_r: 16, lora_target_linear: true, load_in_4bit: true"),
        ("axolotl", ("--method", "lora", "--lora-targets", "q_proj,v_proj"), "lora_target_modules: [q_proj, v_proj]"),
        (
            "llama-factory",
            ("--method", "qlora", "--lora-rank", "8"),
            "lora_rank: 8, lora_target: all, quantization_bit: 4",
        ),
        (
            "ms-swift",
            ("--method", "qlora"),
            "--tuner_type lora --lora_rank 16 --target_modules all-linear --quant_method",
        ),
        ("unsloth", ("--method", "qlora"), "LoRA of rank 16 on every linear layer, over a base in 4 bits (nf4)"),
        ("axolotl", ("--method", "lora", "--optimizer", "adamw-8bit"), "beside that: optimizer adamw-8bit"),
    ],
)
def test_a_program_is_told_of_adapters_and_what_else_was_estimated(
    program: str, options: tuple[str, ...], told: str
) -> None:
    """It was told of batches alone: what fits as QLoRA would have trained all parameters."""
    one = ("--gpu", "L40S", "--gpus-per-node", "1", "--sequence-length", "1024", "--program", program)
    lines = " | ".join(planned("llama-8b", *one, *options)["launch"])
    assert told in lines
    assert ("of adapters" in lines) is ("--method" in options)


@pytest.mark.parametrize(
    ("program", "options", "is_told"),
    [
        ("", (), True),  # counted so, and TRL has it only where it is told
        ("trl", ("--base-dtype", "nf4"), True),
        ("trl", (), False),  # the user's choice, and the most is that of fp32 scales
        ("transformers", (), False),
        ("axolotl", (), False),  # by default there
    ],
)
def test_trl_is_told_to_quantize_scales_where_a_plan_counts_on_it(
    program: str, options: tuple[str, ...], is_told: bool
) -> None:
    asked = ("--method", "qlora", "--gpu", "L40S", "--gpus-per-node", "1", *options)
    lines = " ".join(planned("llama-8b", *asked, *(("--program", program) if program else ()))["launch"])
    assert "load_in_4bit" in lines
    assert ("--use_bnb_nested_quant True" in lines) is is_told


@pytest.mark.parametrize(("base", "is_told"), [((), False), (("--base-dtype", "nf4"), True)])
def test_a_program_without_known_words_is_told_of_scales_that_are_quantized(
    base: tuple[str, ...], is_told: bool
) -> None:
    asked = ("--method", "qlora", "--gpu", "L40S", "--gpus-per-node", "1", "--program", "litgpt")
    lines = " ".join(planned("llama-8b", *asked, *base)["launch"])
    assert ("over a base in 4 bits (nf4) with double quantization" in lines) is is_told


@pytest.mark.parametrize(
    ("dtype", "by_file", "by_cut", "gradients"),
    [
        ("fp8", "fp8: linear layers of Transformer Engine", "computation in fp8", "bf16"),
        ("bf16", "", "", "bf16"),
        ("fp16", "", "computation in fp16", "fp16"),
        ("fp32", "", "computation in fp32", "fp32"),
        ("tf32", "computation in tf32", "computation in tf32", "fp32"),
    ],
)
def test_deepspeed_is_told_the_type_where_its_file_has_it_not(
    dtype: str, by_file: str, by_cut: str, gradients: str
) -> None:
    """Of a model that is cut there is no file; gradients are in no type that products alone have."""
    plan = planned("llama-8b", "--gpu", "h100", "--program", "deepspeed", "--dtype", dtype, "--full")
    fitting = [way for way in plan["ways"] if way["launch"]]
    cut = [way["tensor_parallel"] * way["pipeline_parallel"] > 1 for way in fitting]
    assert set(cut) == {True, False}
    for way, of_parts in zip(fitting, cut, strict=True):
        lines, note = " | ".join(way["launch"]), by_cut if of_parts else by_file
        has_any = "computation in" in lines or "fp8" in lines
        assert (note in lines) if note else not has_any
    assert any(f"gradients added up in {gradients}" in one for one in plan["assumed"])


def test_llama_factory_is_told_whether_blocks_are_computed_again() -> None:
    """It does so unless it is told not to, and the line left that to its reader."""
    ways = planned("llama-8b", "--node-type", "p5.48xlarge", "--program", "llama-factory")["ways"]
    told = {way["activation_checkpointing"]: way["launch"][0] for way in ways if way["launch"]}
    assert "disable_gradient_checkpointing: true" in told[False]
    assert "disable_gradient_checkpointing: false" in told[True]
