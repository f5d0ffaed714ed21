"""What a plan prints to start a program: words that it takes, of the release that is said, for what was estimated."""

import json
from typing import Any

import pytest

from tests.cli.programs.asked import planned, told

P5 = ("--node-type", "p5.48xlarge")
ON_32 = ("llama-70b", "--nodes", "4", *P5)
GPT2 = ("gpt2", "--gpu", "A100-80GB", "--gpus-per-node", "8")
LLAMA = ("llama-8b", "--gpu", "H100", "--gpus-per-node", "8")


def strategies(plan: dict[str, Any]) -> set[str]:
    return {way["strategy"] for way in plan["ways"]}


def test_deepspeed_s_third_stage_is_a_way_of_a_program_that_has_it() -> None:
    """A 70B model by DeepSpeed on 32 H100 was told a pipeline, and by DeepSpeed-Chat that nothing fits."""
    plan = planned(*ON_32, "--program", "deepspeed")
    best = plan["ways"][0]
    assert (best["strategy"], best["fits"]) == ("zero3", True)
    file = json.loads(next(line for line in plan["launch"] if "zero.json" in line).partition(": ")[2])
    assert file["zero_optimization"] == {"stage": 3}
    assert file["train_micro_batch_size_per_gpu"] == best["batch_size"]
    assert file["gradient_accumulation_steps"] == best["accumulation"]
    each = ("--batch-size", f"{best['batch_size']}", "--gradient-accumulation-steps", f"{best['accumulation']}")
    whole = ("--program", "deepspeed", "--strategy", "zero3", "--world-size", "32", *P5, "--activation-checkpointing")
    alone = told("--model", "llama-70b", *whole, *each)
    assert alone["memory"]["fits"] is True
    assert best["peak"] == pytest.approx(alone["memory"]["peak"], rel=0.05)
    least, most = alone["tokens_per_second"]
    assert least <= best["tokens_per_second"][0] < best["tokens_per_second"][1] <= most


@pytest.mark.parametrize("program", [(), ("--program", "torchtitan"), ("--program", "nanotron")])
def test_the_third_stage_is_no_way_of_others(program: tuple[str, ...]) -> None:
    """FSDP stands for full shards where no program is named."""
    assert "zero3" not in strategies(planned(*LLAMA, *program))


def test_the_first_two_stages_are_left_where_they_are_better() -> None:
    plan = planned(*LLAMA, "--program", "deepspeed")
    assert plan["ways"][0]["strategy"] == "zero2"
    assert "zero3" in strategies(plan)


@pytest.mark.parametrize("samples", [512, 1024])
def test_nanogpt_is_told_the_micro_batches_of_all_ranks(samples: int) -> None:
    """Its train.py divides them by the ranks; a plan said to choose them "so that a step has so many samples"."""
    plan = planned(*GPT2, "--program", "nanogpt", "--samples-per-step", f"{samples}")
    words = dict(word.removeprefix("--").split("=") for word in plan["launch"][-1].split() if "=" in word)
    assert int(words["batch_size"]) * int(words["gradient_accumulation_steps"]) == samples
    assert int(words["gradient_accumulation_steps"]) % 8 == 0


@pytest.mark.parametrize(("program", "has_it"), [("nanogpt", False), ("gpt-neox", True)])
def test_activations_are_computed_again_by_programs_that_can(program: str, has_it: bool) -> None:
    """nanoGPT's model.py has no checkpoint."""
    assert any(way["activation_checkpointing"] for way in planned(*GPT2, "--program", program)["ways"]) is has_it


@pytest.mark.parametrize(
    ("program", "samples", "is_said"),
    [("fms-fsdp", "256", True), ("fms-fsdp", "16", False), ("llm-foundry", "256", False)],
)
def test_a_program_without_accumulation_says_what_a_step_of_it_is(program: str, samples: str, is_said: bool) -> None:
    plan = planned(*LLAMA, "--program", program, "--samples-per-step", samples)
    said = [line for line in plan["launch"] if "accumulates no gradients: a step there is of" in line]
    assert bool(said) is is_said
    once = plan["ways"][0]["batch_size"] * 8
    assert all(line.endswith(f"of {once} samples") for line in said)


@pytest.mark.parametrize(
    ("program", "word", "other"),
    [
        ("trl==0.9.6", "--max_seq_length", "--max_length"),
        ("trl==0.15.2", "--max_seq_length", "--max_length"),
        ("trl==0.16", "--max_length", "--max_seq_length"),
        ("trl", "--max_length", "--max_seq_length"),
    ],
)
def test_the_length_is_told_by_its_name_in_the_release(program: str, word: str, other: str) -> None:
    """trl/trainer/sft_config.py of 0.15 has no max_length."""
    line = planned(*LLAMA, "--program", program, "--method", "lora")["launch"][0]
    assert f"{word} 4096" in line
    assert other not in line


@pytest.mark.parametrize(
    ("release", "words", "others"),
    [
        ("0.1.0", ("--job.config_file torchtitan/models/llama3/train_configs/llama3_8b.toml", "--training.compile",
                   "--activation_checkpoint.mode=none"), ("--module", "--compile.enable", "activation-checkpoint:")),
        ("0.2.2", ("--job.config_file torchtitan/models/llama3/train_configs/llama3_8b.toml", "--compile.enable",
                   "--activation_checkpoint.mode=none"), ("--module", "--training.compile", "activation-checkpoint:")),
        ("0.3", ("--module llama3 --config llama3_8b", "--compile.enable", "activation-checkpoint:none"),
         ("--job.config_file", "--activation_checkpoint.mode")),
    ],
)  # fmt: skip
def test_torchtitan_is_told_in_the_words_of_the_release(
    release: str, words: tuple[str, ...], others: tuple[str, ...]
) -> None:
    line = planned(*LLAMA, "--program", f"torchtitan=={release}")["launch"][1]
    assert line.startswith(f"torchtitan {release}")
    assert all(word in line for word in words)
    assert not any(word in line for word in others)


@pytest.mark.parametrize(("release", "has_file"), [("0.2.2", True), ("0.1.0", False)])
def test_a_model_that_an_older_torchtitan_has_no_file_of_is_said(release: str, has_file: bool) -> None:
    plan = planned("Qwen/Qwen3-32B", "--nodes", "4", *P5, "--program", f"torchtitan=={release}")
    assert ("models/qwen3/train_configs/qwen3_32b.toml" in plan["launch"][1]) is has_file
    assert ("beside a file of your own (--job.config_file)" in plan["launch"][1]) is not has_file


@pytest.mark.parametrize(
    ("model", "gpu", "kernel"),
    [
        ("gpt-oss-20b", "H100", "kernels-community/vllm-flash-attn3"),
        ("gpt-oss-20b", "H20", "kernels-community/vllm-flash-attn3"),
        ("gpt-oss-20b", "A100-80GB", "eager"),
        ("gpt-oss-20b", "B200", "eager"),
        ("llama-8b", "H100", "flash_attention_2"),
        ("llama-8b", "A100-80GB", "flash_attention_2"),
    ],
)
def test_gpt_oss_is_started_with_a_kernel_that_has_its_sinks(model: str, gpu: str, kernel: str) -> None:
    plan = planned(model, "--gpu", gpu, "--gpus-per-node", "8", "--method", "lora")
    assert any(line.endswith(f" --attn_implementation {kernel}") for line in plan["launch"] + plan["ways"][0]["launch"])


@pytest.mark.parametrize(("gpu", "is_stored"), [("A100-80GB", True), ("H100", False)])
def test_attention_with_sinks_is_planned_as_it_is_started(gpu: str, is_stored: bool) -> None:
    """57 of 79 GiB were told of A100s, by FlashAttention-2, which has no sinks: eager stores all scores."""
    asked = ("gpt-oss-20b", "--gpu", gpu, "--method", "lora")
    plan, flash, stored = (planned(*asked, *one) for one in ((), ("--flash-attention",), ("--no-flash-attention",)))
    peaks, quick, slow = (_kept_by_fsdp(one) for one in (plan, flash, stored))
    assert slow > 1.3 * quick
    assert (peaks > 1.3 * quick) is is_stored
    assert any("scores of attention are stored" in one for one in plan["assumed"]) is is_stored
    assert ("--packing True" in plan["launch"][-1]) is not is_stored
    assert plan["launch"][-1].count("--max_length 4096") == 1
    kernel = "flex_attention" if is_stored else "kernels-community/vllm-flash-attn3"
    assert flash["launch"][-1].endswith(f" --attn_implementation {kernel}")


def _kept_by_fsdp(plan: dict[str, Any]) -> float:
    """Bytes of a sample's activations, which are kept, over FSDP's shards."""
    return next(
        float(way["peak"]) / way["batch_size"]
        for way in plan["ways"]
        if way["strategy"] == "fsdp" and not way["activation_checkpointing"]
    )


@pytest.mark.parametrize(
    ("model", "gpu", "kernel"),
    [
        ("gpt-oss-20b", "A100-80GB", "eager"),
        ("gpt-oss-20b", "H100", "kernels-community/vllm-flash-attn3"),
        ("llama-8b", "A100-80GB", ""),
    ],
)
def test_a_whole_model_with_sinks_is_told_how_to_attend(model: str, gpu: str, kernel: str) -> None:
    plan = planned(model, "--gpu", gpu, "--nodes", "4")
    lines = [line for way in plan["ways"] if "| transformers: " in (line := " | ".join(way["launch"]))]
    assert lines
    for line in lines:
        assert (f"attn_implementation={kernel}" in line) if kernel else ("attn_implementation" not in line)


@pytest.mark.parametrize(
    ("model", "release", "dtype", "words"),
    [
        ("llama-405b", "0.3", "bf16", "without Float8LinearConverter, which that"),
        ("llama-405b", "0.3", "fp8", ""),
        ("llama-405b", "0.2.2", "bf16", 'without converters = ["float8"], which that'),
        ("llama-405b", "0.2.2", "fp8", ""),
        ("llama-70b", "0.3", "bf16", ""),
        ("llama-70b", "0.3", "fp8", "with Float8LinearConverter among its converters"),
        ("llama-70b", "0.2.2", "fp8", " --model.converters=quantize.linear.float8 "),
        ("llama-70b", "0.1.0", "fp8", " --model.converters=float8 "),
        ("llama-70b", "0.1.0", "bf16", ""),
    ],
)
def test_torchtitan_computes_in_the_type_that_was_estimated(model: str, release: str, dtype: str, words: str) -> None:
    """Its configuration of Llama's 405B is in fp8, and no other one is."""
    machine = ("--nodes", "64", "--node-type", "p5en.48xlarge")
    plan = planned(model, *machine, "--program", f"torchtitan=={release}", "--dtype", dtype)
    assert plan["ways"][0]["fits"]
    said = " ".join(plan["launch"])
    assert words in said
    assert ("onverter" in said) is bool(words)


def test_a_plan_without_a_program_says_so_too() -> None:
    plan = planned("llama-70b", "--nodes", "64", *P5, "--dtype", "fp8")
    assert plan["launch"][-1] == "torchtitan: with Float8LinearConverter among its converters"
    assert "onverter" not in " ".join(planned("llama-70b", "--nodes", "64", *P5)["launch"])


@pytest.mark.parametrize(("dtype", "is_said"), [("fp16", True), ("bf16", False)])
def test_another_type_than_bf16_stands_beside_a_program_s_words(dtype: str, is_said: bool) -> None:
    plan = planned(*LLAMA, "--program", "axolotl", "--dtype", dtype)
    assert ("Axolotl, beside that: computation in fp16" in plan["launch"]) is is_said


@pytest.mark.parametrize(("program", "is_apart"), [("deepspeed-chat", True), ("llama-factory", False)])
def test_what_the_words_of_a_program_do_not_say_stands_beside_them(program: str, is_apart: bool) -> None:
    plan = planned(*ON_32, "--program", program)
    assert plan["ways"][0]["activation_checkpointing"] is True
    assert any(line.endswith("beside that: activations computed again") for line in plan["launch"]) is is_apart


@pytest.mark.parametrize(("samples", "fits"), [(32, True), (64, True), (256, False)])
def test_one_micro_batch_a_step_needs_no_whole_gradients(samples: int, fits: bool) -> None:
    """LitGPT adds them up over several: 61 of 79 GiB with one were told to be too large, whole gradients among them."""
    plan = planned(*ON_32, "--program", "litgpt", "--samples-per-step", f"{samples}")
    assert bool(plan["ways"][0]["fits"]) is fits
    assert fits or "--samples-per-step 32 (fsdp, recomputed: " in plan["reason"]
    assert all(way["peak"] > plan["device_bytes"] for way in plan["ways"] if way["fits"] is False)


def test_all_samples_of_a_rank_at_once_are_a_way_where_several_micro_batches_do_not_fit() -> None:
    asked = ("llama-70b", "--nodes", "8", *P5, "--program", "litgpt", "--samples-per-step", "128")
    best = planned(*asked)["ways"][0]
    assert (best["fits"], best["batch_size"], best["accumulation"]) == (True, 2, 1)


def test_litgpt_cuts_no_model_that_it_trains() -> None:
    """litgpt/generate/tp.py generates; litgpt/finetune/lora.py has tensor_parallel_size 1."""
    assert all(way["tensor_parallel"] == 1 for way in planned(*LLAMA, "--program", "litgpt")["ways"])
