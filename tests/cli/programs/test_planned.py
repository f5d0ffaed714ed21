"""``raybench plan --program``: its ways are tried and no others, and its command is printed."""

import pytest

from tests.cli.programs.asked import PLAN, planned


@pytest.mark.parametrize(
    ("program", "strategies", "lacking", "start"),
    [
        ("torchtitan", {"ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid"}, "torchtitan has no zero1", "torchtitan.train"),
        ("megatron-lm", {"ddp", "zero1"}, "Megatron-LM has no zero2", "pretrain_gpt.py"),
        ("transformers", {"ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op", "fsdp-hybrid"},
         "transformers has no pipeline parallelism", "train.py"),
    ],
)  # fmt: skip
def test_a_plan_tries_what_the_program_has_and_prints_its_command(
    program: str, strategies: set[str], lacking: str, start: str
) -> None:
    found = planned(*PLAN, "--program", program)
    assert found["program"] == program
    assert {way["strategy"] for way in found["ways"]} <= strategies
    assert any(one.startswith(f"not tried: {lacking}") for one in found["assumed"])
    assert start in found["launch"][0]
    assert not any(way["command"] for way in found["ways"])
    tried = {way["strategy"] for way in planned(*PLAN)["ways"]}
    assert program == "transformers" or tried > {way["strategy"] for way in found["ways"]}


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("ddp", "--parallelism.data_parallel_replicate_degree=16 --parallelism.data_parallel_shard_degree=1"),
        ("fsdp-hybrid", "--parallelism.data_parallel_replicate_degree=2 --parallelism.data_parallel_shard_degree=8"),
        ("fsdp-grad-op", "--parallelism.fsdp_reshard_after_forward=never"),
    ],
)
def test_torchtitan_is_told_how_replicas_share(strategy: str, words: str) -> None:
    found = planned("Qwen/Qwen3-0.6B", *PLAN[1:], "--program", "torchtitan", "--full")
    starts = {way["strategy"]: way["launch"] for way in found["ways"] if way["fits"]}
    assert words in starts[strategy][1]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("nanotron", "nanotron (zero1, TP 2): tokens.micro_batch_size="),
        ("colossalai", "no command of Colossal-AI is known here; tell it fsdp, a micro-batch of "),
    ],
)
def test_without_a_command_a_plan_says_what_the_program_is_to_be_told(program: str, words: str) -> None:
    assert planned(*PLAN, "--program", program)["launch"][-1].startswith(words)


def test_a_model_that_torchtitan_has_no_configuration_of_is_said() -> None:
    found = planned("mistral-7b", *PLAN[1:], "--program", "torchtitan")
    assert "torchtitan 0.3 has no configuration of" in found["launch"][1]
