"""How ``raybench plan`` says that a way is started, and that it was estimated as that program runs it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.ways.way import Way
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from raybench.services.planning.launch import launch_lines
from tests.cli.planning.planned import P5, planned
from tests.cli.test_plan_published import QWEN


@pytest.mark.parametrize(
    ("options", "strategy", "told"),
    [
        (["--parameter-dtype", "bf16"], "fsdp", "dtype=torch.bfloat16"),
        (["--optimizer-dtype", "bf16"], "fsdp", "--optim adamw_anyprecision --optim_args momentum_dtype=bfloat16,"),
        (
            ["--parameter-dtype", "bf16"],
            "zero2",
            '"bf16_master_weights_and_grads": true, "bf16_optimizer_states": true',
        ),
        (["--offload-activations"], "fsdp", "--activation_offloading True"),
        (["--method", "lora", "--base-dtype", "int8"], "ddp", "--load_in_8bit True"),
    ],
)
def test_what_is_stored_otherwise_is_told_to_the_program_and_raybench_train_is_not_asked(
    options: list[str], strategy: str, told: str
) -> None:
    for given, is_told in ((options, True), (options[:2] if "--method" in options else [], False)):
        ways = planned("llama-8b", "--gpu", "a100", *given)["ways"]
        way = next(way for way in ways if way["strategy"] == strategy and way["fits"] is not False)
        assert (told in " ".join(way["launch"])) is is_told
        assert bool(way["command"]) is (not is_told and strategy != "zero2")
        assert not is_told or not any(way["tensor_parallel"] * way["pipeline_parallel"] > 1 for way in ways)


def test_a_preset_with_another_vocabulary_is_trained_by_its_name() -> None:
    best = planned("llama-8b", "--gpu", "H100", "--vocabulary", "131072")["ways"][0]
    assert "--model llama-8b " in best["command"]
    assert "--vocabulary 131072" in best["command"]


def test_one_node_meets_nobody_and_several_meet_at_the_first() -> None:
    alone = planned("gpt2", "--gpu", "T4", "--gpus-per-node", "1")["launch"][0]
    assert alone == "torchrun --standalone --nproc-per-node 1 train.py"
    assert "--nnodes 4 --rdzv-backend c10d --rdzv-endpoint NODE0:29500" in planned("gpt2", *P5)["launch"][0]


def test_what_does_not_fit_is_not_started() -> None:
    result = CliRunner().invoke(command, ["small", "--gpu", "H100", "--gpus-per-node", "1", "--memory", "600M"])
    assert result.exit_code == 1
    assert "nothing fits: nothing else that was tried does" in " ".join(result.stdout.replace("#", " ").split())
    assert "start it" not in result.stdout
    assert planned("small", "--gpu", "H100", "--gpus-per-node", "1", "--memory", "600M", code=1)["nearest"] == []


def test_the_commands_that_start_the_best_are_whole(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    plan = planned(str(tmp_path), *P5, "--sequence-length", "2048")  # where recomputation is as fast
    best = plan["ways"][0]
    assert (best["strategy"], best["activation_checkpointing"]) == ("fsdp", True)
    options = parsed(best["command"])
    assert options["model"] == str(tmp_path)
    assert (options["batch_size"], options["accumulate"]) == (best["batch_size"], best["accumulation"])
    assert options["checkpoint_activations"]
    start, trainer = plan["launch"]
    assert start.startswith("accelerate launch --num_machines 4 --num_processes 32 ")
    assert "--fsdp_activation_checkpointing true" in start
    assert "checkpointing" not in trainer  # transformers' Trainer ends where both are told to compute again


def started(strategy: str, **options: Any) -> str:
    """What starts such a way on two p5 nodes."""
    request = estimate_request(EstimateOptions(strategy=strategy, world_size=16, node_type="p5.48xlarge", **options))
    return "\n".join(launch_lines(Way(estimate=estimate(request), fits=True)))


@pytest.mark.parametrize(
    ("strategy", "options", "words"),
    [
        ("zero2", {}, ['deepspeed, as zero.json: {"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "tr']),
        ("zero1", {}, ["--bf16 True", "--deepspeed zero.json"]),
        ("zero1", {"dtype": "fp8"}, ['"bf16": {"enabled": true}', "fp8: linear layers of Transformer Engine or "]),
        ("fsdp", {"dtype": "fp8"}, ["--mixed_precision bf16", "--bf16 True", "fp8: linear layers"]),
        ("fsdp", {"optimizer": "paged-adamw"}, ["--optim paged_adamw_32bit"]),
        ("fsdp", {"optimizer": "paged-adamw-8bit"}, ["--optim paged_adamw_8bit"]),
        ("fsdp", {"lora_rank": 8, "qlora": True}, ["--bnb_4bit_quant_storage bfloat16 --dtype bfloat16"]),
        ("zero1", {"tensor_parallel": 2}, ["pretrain_gpt.py", "Megatron-LM, beside the model's own", " --bf16"]),
        ("zero1", {"tensor_parallel": 2, "overlap": True}, ["er --overlap-grad-reduce --overlap-param-gather "]),
        ("zero1", {"tensor_parallel": 2, "dtype": "fp16", "optimizer": "sgd"}, [" --fp16 --optimizer sgd"]),
        ("fsdp", {"tensor_parallel": 2}, ["torchtitan 0.3: --module llama3 --config llama3_8b ", "checkpoint:none"]),
        ("fsdp", {"selective_checkpointing": True}, ["torchtitan.train", "_degree=1 ", "point:selective"]),
        ("fsdp", {"selective_checkpointing": True, "compile": True}, [" --compile.enable activation-checkpoint:sel"]),
        ("fsdp", {"tensor_parallel": 2, "compile": False}, [" --compile.no-enable activation-checkpoint:none"]),
        ("fsdp", {"tensor_parallel": 2, "model": "mistral-7b"}, ["_config_dp_shard_size 8 ", "_tp_size 2 "]),
        ("fsdp", {"expert_parallel": 2, "model": "mixtral-8x7b"}, ["smp: '{\"expert_parallel_degree\": 2, "]),
    ],
)  # fmt: skip
def test_what_starts_a_way_is_what_the_program_of_today_takes(
    strategy: str, options: dict[str, Any], words: list[str]
) -> None:
    """Each was loaded by accelerate 1.15, transformers 5.24, trl 1.16, deepspeed 0.19, torchtitan 0.3 (2026-11)."""
    said = started(strategy, **options)
    assert all(word in said for word in words), said
    assert ("--bnb_4bit_quant_storage" in said) == ("qlora" in options)
    assert said.count("--fp16") == (options.get("dtype") == "fp16")


@pytest.mark.parametrize(
    ("arguments", "width", "packed"),
    [
        (
            ("mistral-7b", "--method", "qlora", "--gpus-per-node", "1", "--gpu", "A10", "--sequence-length", "2048"),
            1.95,
            True,
        ),
        (("Qwen/Qwen2.5-32B", "--method", "lora", "--nodes", "2", "--node-type", "p5.48xlarge"), 1.75, True),
        (("llama-8b", "--method", "qlora", "--gpus-per-node", "1", "--gpu", "H100", "--masked-attention"), 1.85, False),
        (("llama-8b", "--method", "lora", "--gpus-per-node", "1", "--gpu", "V100"), 9.0, False),  # no FlashAttention-2
    ],
)
def test_adapters_are_estimated_as_what_is_printed_trains_them(
    arguments: tuple[str, ...], width: float, packed: bool
) -> None:
    plan = planned(*arguments)
    low, high = plan["ways"][0]["tokens_per_second"]
    assert high / low <= width
    assert ("--packing True --attn_implementation flash_attention_2" in plan["launch"][-1]) is packed
    assert any("samples are packed" in one for one in plan["assumed"]) is packed


def test_a_command_trains_what_was_planned_or_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN | {"_name_or_path": "gpt2"}))
    assert "--model gpt2" not in planned(str(tmp_path), *P5)["ways"][0]["command"]
    adapted = ("--method", "qlora", "--lora-rank", "64", "--gpus-per-node", "2", "--gpu", "H100")
    plan = planned("llama-70b", *adapted)
    assert [way["command"] for way in plan["ways"] if way["strategy"] != "ddp"] == [""] * (len(plan["ways"]) - 2)
    command_words = next(way["command"] for way in plan["ways"] if way["strategy"] == "ddp")
    assert parsed(command_words)["lora_rank"] == 64
    assert "--lora_r 64" in plan["launch"][-1]
    assert "--load_in_4bit True" in plan["launch"][-1]


def parsed(line: str) -> dict[str, Any]:
    """Options of a ``raybench train`` line."""
    from raybench.cli.train import command as train

    raybench, name, *words = shlex.split(line)
    assert (raybench, name) == ("raybench", "train")
    return train.make_context("train", words).params


def test_a_longer_table_of_positions_is_said_and_nothing_that_has_none_is_told_to_train_it() -> None:
    """``raybench train`` refused what was printed."""
    for length, told in ((1024, False), (2048, True)):
        plan = planned("gpt2", "--gpu", "H100", "--sequence-length", f"{length}")
        assert any(f"a table of {length}" in line for line in plan["assumed"]) is told
        assert bool(plan["ways"][0]["command"]) is not told


@pytest.mark.parametrize(("options", "method"), [((), "full"), (("--method", "lora"), "lora")])
def test_what_is_not_qlora_may_be_said(options: tuple[str, ...], method: str) -> None:
    assert planned("llama-8b", "--gpu", "h100", "--no-qlora", *options)["method"] == method
