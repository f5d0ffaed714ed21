"""What ``raybench plan`` is told of dropout and of single modules, and tells the program that it prints."""

from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.errors import UsageError
from tests.cli.planning.planned import P5, planned

MODULES = ("--recompute-modules", "moe_act,layernorm")
MEGATRON = ("mixtral-8x7b", *P5, "--program", "megatron-lm")


def cut_by_megatron(plan: dict[str, Any]) -> list[dict[str, Any]]:
    ways = [way for way in plan["ways"] if way["fits"] and way["strategy"] == "zero1"]
    return [way for way in ways if way["pipeline_parallel"] * way["tensor_parallel"] * way["expert_parallel"] > 1]


def refusal(*arguments: str) -> str:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    return str(refused.value)


@pytest.mark.parametrize(("options", "modules"), [(MODULES, ["moe_act", "layernorm"]), ((), [])])
def test_megatron_is_told_the_modules_that_are_computed_again(options: tuple[str, ...], modules: list[str]) -> None:
    ways = cut_by_megatron(planned(*MEGATRON, *options))
    in_part = [way for way in ways if not way["activation_checkpointing"]]
    assert in_part
    for way in in_part:
        told = " ".join(way["launch"])
        assert way["recompute_modules"] == modules
        assert ("--recompute-granularity selective --recompute-modules moe_act layernorm" in told) is bool(modules)
        assert "granularity full" not in told


def test_where_modules_are_too_little_all_is_computed_again() -> None:
    plan = planned("Qwen/Qwen3-235B-A22B", "--nodes", "32", "--node-type", "p5.48xlarge", *MODULES)
    ways = cut_by_megatron(plan)
    assert all(way["activation_checkpointing"] and not way["recompute_modules"] for way in ways)


def test_ways_by_others_than_megatron_compute_no_modules_again() -> None:
    plan = planned("llama-8b", *P5, "--recompute-modules", "mlp")
    assert not any(way["recompute_modules"] for way in plan["ways"] if way["strategy"] != "zero1")
    assert not any(way["recompute_modules"] for way in plan["ways"] if way["tensor_parallel"] == 1)


def test_what_cannot_compute_modules_again_is_refused() -> None:
    assert "plan of adapters cuts none" in refusal("llama-8b", *P5, "--recompute-modules", "mlp", "--method", "lora")
    assert "plan of one GPU" in refusal("gpt2", "--gpu", "A10", "--gpus-per-node", "1", "--recompute-modules", "mlp")
    assert "TRL has none" in refusal("llama-8b", *P5, "--recompute-modules", "mlp", "--program", "trl")
    assert "has no experts" in refusal("llama-8b", *P5, "--recompute-modules", "moe_act")


@pytest.mark.parametrize("program", [(), ("--program", "megatron-lm")])
@pytest.mark.parametrize(("options", "share"), [((), "0"), (("--dropout",), "0.1"), (("--no-dropout",), "0")])
def test_megatron_is_told_the_dropout_that_was_estimated(
    program: tuple[str, ...], options: tuple[str, ...], share: str
) -> None:
    """Its own is 0.1, and a plan of a model without one was started with it."""
    ways = cut_by_megatron(planned("llama-70b", "--nodes", "8", "--node-type", "p5.48xlarge", *program, *options))
    assert ways
    assert all(f"--hidden-dropout {share} --attention-dropout {share}" in way["launch"][1] for way in ways)


def test_dropout_takes_memory_and_raybench_train_has_none() -> None:
    machine = ("llama-8b", "--gpu", "H100")
    without, drops = (
        {(way["strategy"], way["batch_size"]): way for way in planned(*machine, option)["ways"]}
        for option in ("--no-dropout", "--dropout")
    )
    assert any(drops[key]["peak"] > without[key]["peak"] for key in without.keys() & drops.keys())
    assert any(way["command"] for way in without.values())
    assert not any(way["command"] for way in drops.values())
    assert not any("torchtitan" in " ".join(way["launch"]) for way in drops.values())
    assert "the model: with dropout in its config" in " ".join(planned(*machine, "--dropout")["launch"])
    assert "has no --dropout" in refusal(*machine, "--dropout", "--program", "torchtitan")
    assert "dropout" not in " ".join(planned(*machine)["launch"])


def test_adapters_drop_as_asked() -> None:
    """trl's have a dropout of 0.05 unless they are told none; raybench train's have none."""
    machine = ("llama-8b", "--gpu", "H100", "--method", "lora")
    plans = {option: planned(*machine, *option) for option in ((), ("--lora-dropout",), ("--no-lora-dropout",))}
    trl = {option: next(line for line in plan["launch"] if "trl:" in line) for option, plan in plans.items()}
    assert [("--lora_dropout 0" in line) for line in trl.values()] == [False, False, True]
    assert [bool(plan["ways"][0]["command"]) for plan in plans.values()] == [True, False, True]
    of_fsdp = [
        next(way for way in plan["ways"] if way["strategy"] == "fsdp" and not way["activation_checkpointing"])
        for plan in plans.values()
    ]
    assert of_fsdp[2]["peak"] / of_fsdp[2]["batch_size"] < of_fsdp[1]["peak"] / of_fsdp[1]["batch_size"]
    assert "--lora-dropout is of adapters" in refusal("llama-8b", "--gpu", "H100", "--no-lora-dropout")


def test_adapters_stand_where_asked() -> None:
    machine = ("llama-8b", "--gpu", "H100", "--method", "lora")
    some = planned(*machine, "--lora-targets", "q_proj,v_proj")
    assert "--lora-targets q_proj,v_proj" in some["ways"][0]["command"]
    assert any("--lora_target_modules q_proj v_proj" in line for line in some["launch"])
    assert "all-linear" in " ".join(planned(*machine)["launch"])
    assert "--lora-targets is of adapters" in refusal("llama-8b", "--gpu", "H100", "--lora-targets", "q_proj")


@pytest.mark.parametrize(
    ("as_estimate", "as_plan", "method"),
    [
        (("--qlora",), ("--method", "qlora"), "qlora"),
        (("--qlora", "--lora-rank", "8"), ("--method", "qlora", "--lora-rank", "8"), "qlora"),
        (("--lora-rank", "8"), ("--method", "lora", "--lora-rank", "8"), "lora"),
        (("--lora-rank", "8", "--no-qlora"), ("--method", "lora", "--lora-rank", "8"), "lora"),
        (("--qlora", "--method", "qlora"), ("--method", "qlora"), "qlora"),
        (("--no-qlora",), (), "full"),
    ],
)
def test_adapters_are_said_by_the_words_of_estimate_as_well(
    as_estimate: tuple[str, ...], as_plan: tuple[str, ...], method: str
) -> None:
    """--qlora was no option of plan, and a rank alone, which is LoRA to estimate, was refused."""
    gpu = ("--gpu", "H100", "--gpus-per-node", "8")
    said = planned("llama-8b", *gpu, *as_estimate)
    assert said["method"] == method
    assert said == planned("llama-8b", *gpu, *as_plan)
