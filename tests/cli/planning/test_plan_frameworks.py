"""Ways that ``raybench plan`` has other frameworks run: estimated as those run them, and told what was estimated."""

from typing import Any

import pytest

from tests.cli.planning.answered import answer
from tests.cli.planning.planned import P5, planned

_CUTS = ("tensor", "context", "pipeline", "expert")


def _cut_of(way: dict[str, Any]) -> tuple[Any, ...]:
    degrees = (way[f"{kind}_parallel"] for kind in _CUTS)
    return (*degrees, way["virtual_stages"], way["batch_size"], way["activation_checkpointing"])


def _of_megatron(plan: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    ways = (way for way in plan["ways"] if any("pretrain_gpt.py" in line for line in way["launch"]))
    return {_cut_of(way): way for way in ways if way["fits"]}


@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-32B", "mixtral-8x7b"])
def test_a_way_that_megatron_lm_starts_is_estimated_as_with_that_program(model: str) -> None:
    """It was with a loss on logits in bf16, which Megatron-LM has not: what was told to fit took more.

    Named it pads the vocabulary too: 512 of 152,064 words more over eight tensor ranks, some 0.02 %.
    """
    unnamed, named = (_of_megatron(planned(model, *P5, *more)) for more in ((), ("--program", "megatron-lm")))
    both = unnamed.keys() & named.keys()
    assert len(both) >= 2
    for cut in both:
        assert unnamed[cut]["peak"] == pytest.approx(named[cut]["peak"], rel=5e-4)
        assert unnamed[cut]["tokens_per_second"] == pytest.approx(named[cut]["tokens_per_second"], rel=5e-4)


def test_what_is_said_of_another_program_s_loss_is_not_megatron_lm_s() -> None:
    plain, said = (_of_megatron(planned("Qwen/Qwen2.5-32B", *P5, *more)) for more in ((), ("--loss", "chunked")))
    assert any(said[cut]["peak"] == plain[cut]["peak"] for cut in said.keys() & plain.keys())


def test_megatron_lm_is_told_of_an_adam_in_8_bits() -> None:
    """Its own has moments in fp32: what was told to fit would have run out of memory."""
    ways = _of_megatron(planned("Qwen/Qwen2.5-32B", *P5, "--optimizer", "adamw-8bit"))
    assert ways
    assert all("--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8" in way["launch"][1] for way in ways.values())


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_megatron_lm_shards_no_sgd(optimizer: str) -> None:
    """Its distributed optimizer takes Adam alone."""
    assert not _of_megatron(planned("llama-8b", *P5, "--optimizer", optimizer))


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (P5, True),
        (("--nodes", "4", "--node-type", "a3-megagpu-8g"), False),
        (("--nodes", "4", "--node-type", "BM.GPU.MI300X.8"), False),
    ],
)
def test_sagemaker_is_named_on_machines_of_aws_alone(machine: tuple[str, ...], told: bool) -> None:
    """An MI300X of Oracle's was told to be started by it."""
    plan = planned("meta-llama/Llama-4-Scout-17B-16E", *machine)
    lines = [line for way in plan["ways"] for line in way["launch"]]
    assert any("SageMaker" in line for line in lines) is told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--optimizer", "adamw-8bit"), "--optim adamw_bnb_8bit"),
        (("--kernels", "fused"), "--use_liger_kernel True"),
        ((), "--bf16 True"),
    ],
)
def test_a_model_that_accelerate_cuts_is_trained_with_what_was_estimated(options: tuple[str, ...], told: str) -> None:
    """Its Trainer was told of the batch alone, and Megatron-LM of what --program transformers cuts with ZeRO-1."""
    machine = ("--node-type", "p5.48xlarge", "--sequence-length", "65536", "--program", "transformers")
    ways = planned("qwen2.5-7b", *machine, *options)["ways"]
    cut = [way["launch"] for way in ways if way["tensor_parallel"] * way["context_parallel"] > 1]
    assert cut
    assert all("--parallelism_config_cp_size" in lines[0] for lines in cut)
    assert all(told in lines[1] for lines in cut)


def test_shards_of_a_cut_model_reduce_each_micro_batch_where_the_command_says_so() -> None:
    """accelerate adds up whole gradients by itself: its command for TP 4 took an eighth more than was told to fit."""
    ways = planned("qwen3-30b-a3b", "--node-type", "p5.48xlarge", "--program", "transformers")["ways"]
    way = next(way for way in ways if way["fits"] and way["tensor_parallel"] == 4)
    assert '"sync_each_batch":true' in way["launch"][1]
    asked = ("--model", "qwen3-30b-a3b", "--node-type", "p5.48xlarge", "--program", "transformers", "--tp", "4")
    asked += ("--strategy", "fsdp", "--batch-size", f"{way['batch_size']}", "--activation-checkpointing")
    asked += ("--gradient-accumulation-steps", f"{way['accumulation']}")
    each, whole = answer(*asked, "--reduce-each"), answer(*asked, code=3)
    assert way["peak"] == pytest.approx(each["memory"]["peak"], rel=0.01)
    assert whole["memory"]["peak"] > 1.1 * way["peak"]
    torchtitan = planned("llama-70b", "--nodes", "2", "--node-type", "p5.48xlarge")["ways"][0]["launch"]
    assert "torchtitan" in torchtitan[1]
    assert "sync_each_batch" not in torchtitan[1]  # it reduces each by itself


def test_a_model_is_planned_alike_by_each_of_its_names() -> None:
    """torchtitan had Llama 3.1 by the name of its preset alone: on the Hub it had neither its ways nor its command."""
    machine = ("--nodes", "8", "--node-type", "p5.48xlarge")
    names = ("llama-70b", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.3-70B-Instruct")
    plans = [planned(name, *machine)["ways"] for name in names]
    ways = [[(_cut_of(way), way["selective_checkpointing"], way["peak"]) for way in plan] for plan in plans]
    assert ways[0] == ways[1] == ways[2]
    assert any("--config llama3_70b" in "".join(way["launch"]) for way in plans[2])
    shorter = planned("llama-70b", *machine, "--vocabulary", "131072")["ways"]
    assert not any("--config llama3_70b" in "".join(way["launch"]) for way in shorter)
