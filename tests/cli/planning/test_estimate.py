"""``raybench estimate``: figures by hand, verdicts by exit code."""

from pathlib import Path
from typing import Any

import pytest

from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.bounds import forward_share
from tests.cli.planning.answered import FSDP, answer, refusal


def test_an_estimate_has_every_figure() -> None:
    estimate = answer(*FSDP, "--no-compile", "--epoch-samples", "1000000")
    assert estimate["schema"] == "raybench.estimate/1"
    assert estimate["nodes"] == 8
    assert estimate["memory"]["fits"] is True
    assert estimate["unknown"] == []
    low, high = estimate["step_seconds"]
    assert 0 < low < high
    assert estimate["tokens_per_second"][1] == pytest.approx(64 * 4096 / low)
    assert estimate["samples_per_second"][0] == pytest.approx(64 / high)
    flops, peak = estimate["model"]["flops_per_token"], 989.4e12
    assert estimate["mfu"][1] == pytest.approx(estimate["tokens_per_second"][1] * flops / 64 / peak)
    assert estimate["mfu"][1] < 0.67  # with fused kernels, which nobody rules out
    cost = estimate["cost"]
    assert cost["per_hour"] == pytest.approx(8 * 55.04)
    assert cost["per_epoch"][0] == pytest.approx(1000 * cost["per_1k_samples"][0])
    assert cost["per_million_tokens"][1] == pytest.approx(8 * 55.04 / 3600 * 1e6 / estimate["tokens_per_second"][0])


@pytest.mark.parametrize(
    ("options", "published", "code"),
    [
        (("--model", "llama-8b"), 2973, 3),  # tight, where kernels and loss may be any
        (("--model", "llama-8b", "--kernels", "fused", "--loss", "fused"), 2973, 0),
        (("--model", "llama-70b", "--activation-checkpointing"), 331, 0),
    ],
)
def test_what_64_a100_are_published_to_reach_is_within_the_estimate(
    options: tuple[str, ...], published: float, code: int
) -> None:
    """Tokens a second and GPU: torchtitan, docs/performance.md, Llama 3 with FSDP2."""
    shape = ("--world-size", "64", "--strategy", "fsdp", "--batch-size", "1", "--sequence-length", "8192")
    estimate = answer(*options, *shape, "--node-type", "p4de.24xlarge", code=code)
    low, high = estimate["tokens_per_second"]
    assert low < 64 * published < high
    assert high < (2.4 if code == 0 else 3.2) * low, (
        "or it would say little"
    )  # 3: it may fill the GPU, and wait for that
    assert "A100" in estimate["efficiency"]["source"]


def test_a_model_that_does_not_fit_ends_with_1() -> None:
    estimate = answer("--model", "llama-70b", "--gpu", "H100", code=1)
    assert estimate["memory"]["fits"] is False
    assert estimate["memory"]["largest_batch_size"] == 0
    assert answer("--model", "llama-70b", "--gpu", "H100", "--memory", "2000G")["memory"]["fits"] is True


def test_without_a_gpu_time_is_unknown_and_traffic_is_not() -> None:
    estimate = answer("--model", "gpt2", "--world-size", "8", "--node-gb-per-s", "10")
    assert estimate["step_seconds"] is None
    assert estimate["mfu"] is None
    assert estimate["memory"]["fits"] is None
    assert estimate["communication"]["message_bytes"] == 4 * 124_439_808
    assert estimate["communication"]["seconds"] == pytest.approx(4 * 124_439_808 * 1.75 / 10e9, rel=0.01)
    assert len(estimate["unknown"]) == 3


def test_a_type_without_units_has_no_mfu() -> None:
    estimate = answer("--model", "gpt2", "--gpu", "V100", "--dtype", "bf16")
    assert estimate["mfu"] is None
    assert "V100 SXM2 32GB has no peak for bf16; give --dtype fp16" in estimate["unknown"][0]
    suited = answer("--model", "gpt2", "--gpu", "V100")  # by itself the type that the GPU has
    assert suited["mfu"] is not None
    assert suited["step_seconds"] == answer("--model", "gpt2", "--gpu", "V100", "--dtype", "fp16")["step_seconds"]


def test_fp8_makes_nothing_faster_on_a_gpu_without_it() -> None:
    estimate = answer("--model", "gpt2", "--gpu", "A100", "--dtype", "fp8")
    assert (estimate["step_seconds"], estimate["mfu"]) == (None, None)
    assert "has no peak for fp8; give --dtype bf16" in estimate["unknown"][0]


def test_an_optimizer_on_the_cpu_says_what_it_takes_with_one_thread_a_rank() -> None:
    """chenyaofo's gist: LLaMA-7B on 8 A800, a step of 15.3 s took 35.4 s with ZeRO-2's optimizer on the CPUs."""
    machine = ("--model", "llama-7b", "--gpu", "a100-80gb", "--world-size", "8", "--strategy", "zero2")
    basis = answer(*machine, "--cpu-offload", "optimizer")["basis"]
    assert "with one thread a rank, as torchrun starts it, 19 s: set OMP_NUM_THREADS" in basis["optimizer on the CPU"]
    assert "optimizer on the CPU" not in answer(*machine)["basis"]


def test_scores_that_are_stored_take_time() -> None:
    """nanoGPT's README: 250 ms for 12 x 1024 tokens on an A100 without compiler, of a time before FlashAttention."""
    asked = ("--model", "gpt2", "--gpu", "A100-SXM4-40GB", "--world-size", "1", "--batch-size", "12", "--no-compile")
    low, high = answer(*asked, "--no-flash-attention", code=0)["step_seconds"]
    assert low < 0.250 < high
    assert answer(*asked)["step_seconds"][1] < 0.7 * high


def test_what_fused_kernels_keep_is_between_two_figures() -> None:
    """NVIDIA runs it so on 64 H100, 1602 tokens/s each (Megatron-Bridge 25.11): what fits is not refused."""
    machine = ("--world-size", "64", "--node-type", "ND96isr_H100_v5")
    cut = "--strategy zero1 --tp 4 --pp 8 --vpp 5 --sequence-length 8192 --accumulation 64"
    asked = ("--model", "llama-70b", *machine, *f"{cut} --dtype fp8 --kernels fused --loss fused".split())
    memory = answer(*asked, code=3)["memory"]
    assert (memory["fits"], memory["least_peak"] < memory["device_bytes"] < memory["peak"]) == (None, True)
    sixteen = answer(*asked[:-5], "bf16", *asked[-4:], code=3)["memory"]  # no 8-bit inputs: too near to tell
    assert sixteen["least_peak"] > memory["least_peak"]
    narrow = answer(*asked, "--reduce-dtype", "bf16", code=3)["memory"]
    assert narrow["gradients"] * 2 == pytest.approx(memory["gradients"], abs=8)


def test_the_least_memory_is_never_more_than_the_most() -> None:
    memory = answer("--model", "gpt2", "--world-size", "16", "--tp", "2", "--node-type", "p5.48xlarge")["memory"]
    assert memory["least_peak"] <= memory["peak"]


def test_own_prices_replace_the_list(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("name,usd_per_node_hour,date,source\np5.48xlarge,20,2026-11-01,our contract\nbad,lots,,\n")
    cost = answer(*FSDP, "--prices", str(path))["cost"]
    assert cost["per_hour"] == 160
    assert "2026-11-01, our contract" in cost["source"]
    assert "no line 'p4d.24xlarge'" in refusal("--node-type", "p4d.24xlarge", "--prices", str(path))
    assert "cannot be read" in refusal(*FSDP, "--prices", str(tmp_path / "none.csv"))
    assert "needs --node-type" in refusal("--gpu", "H100", "--prices", str(path))


def test_recomputation_and_frozen_weights_move_theforward_share() -> None:
    """2 of 8 operations with recomputation, 2 of 4 with a frozen base: forward gathers hide behind less or more."""
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8)) == pytest.approx(1 / 3)
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8, checkpointing=True)) == 0.25
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8, lora_rank=8)) == 0.5


def test_the_update_of_8_bit_states_moves_their_bytes() -> None:
    """Per parameter: weight twice, gradient once, each state twice."""
    common = ("--gpu", "H100", "--world-size", "1", "--model", "gpt2", "--efficiency", "1")
    steps = {name: answer(*common, "--optimizer", name)["step_seconds"][0] for name in ("sgd", "adamw", "adamw-8bit")}
    each = 124_439_808 / 3.35e12
    assert steps["adamw"] - steps["sgd"] == pytest.approx(16 * each)
    assert steps["adamw-8bit"] - steps["sgd"] == pytest.approx(4 * (1 + 4 / 256) * each)


def test_accumulation_under_fsdp_reduces_each_micro_batch_unless_told() -> None:
    """All shards are reduced in each, as most people train; or whole gradients of 4 bytes are held until the last."""
    common = (*FSDP, "--accumulation", "4", "--activation-checkpointing")
    each, last, one = answer(*common), answer(*common, "--reduce-last"), answer(*FSDP, "--activation-checkpointing")
    parameters = last["model"]["parameters"]

    def reduced(estimate: dict[str, Any]) -> float:
        messages = estimate["communication"]["messages"]
        return sum(m["message_bytes"] * m["count"] for m in messages if m["operation"] == "reduce_scatter")

    assert reduced(each) == 4 * reduced(last) == 4 * reduced(one)
    assert last["memory"]["buffers"] - each["memory"]["buffers"] == pytest.approx(4 * parameters)
    assert each["memory"]["buffers"] == one["memory"]["buffers"]


@pytest.mark.parametrize(
    "cut",
    [
        ("--model", "deepseek-v3", "--world-size", "2048", "--strategy", "fsdp", "--ep", "64", "--pp", "16"),
        ("--model", "llama-70b", "--world-size", "64", "--strategy", "zero1", "--tp", "4", "--pp", "4", "--vpp", "5"),
    ],
)
def test_a_pipeline_idles_for_no_more_than_the_step(cut: tuple[str, ...]) -> None:
    """It was told to idle for 3.7 s at least of a step of 1.8 s at least."""
    estimate = answer(*cut, "--node-type", "DGX H100")
    bubble, step, computed = (estimate[f"{name}_seconds"] for name in ("pipeline_bubble", "step", "computation"))
    assert 0 < bubble[0] < bubble[1]
    assert all(idle + least <= 1.01 * whole for idle, least, whole in zip(bubble, computed, step, strict=True))


@pytest.mark.parametrize("words", [("--dropout", "0.1"), ("--dropout=.1",), ("--dropout", "1e-1")])
def test_dropout_may_be_the_rate_that_programs_are_given(words: tuple[str, ...]) -> None:
    """Megatron-LM's --hidden-dropout: masks are as large whatever the rate; 0 drops nothing."""
    drops, whole = (answer(*FSDP, option)["memory"] for option in ("--dropout", "--no-dropout"))
    assert answer(*FSDP, *words)["memory"] == drops != whole == answer(*FSDP, "--dropout", "0")["memory"]


def test_a_rate_is_less_than_one() -> None:
    assert "--lora-dropout is 1.5; as a rate it is at least 0 and less than 1" in refusal("--lora-dropout", "1.5")
    assert "--dropout is -1e-1; as a rate it is at least 0" in refusal("--dropout", "-1e-1")
    assert "--dropout is nan; as a rate it is at least 0" in refusal("--dropout=nan")
    assert "'--dropout' does not take a value" in refusal("--dropout=much")
