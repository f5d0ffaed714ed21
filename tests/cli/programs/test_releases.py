"""``--program NAME==VERSION``: a release has its own facts, and a plan's command is of it."""

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.errors import UsageError
from tests.cli.programs.asked import ON_64, PLAN, planned, told


def test_a_release_is_in_the_document_and_in_what_is_taken() -> None:
    found = told(*ON_64, "--program", "transformers==4.35.2")
    assert found["program"] == "transformers==4.35.2"
    assert found["basis"]["program"] == "transformers 4.35.2"
    assert found["basis"]["flash attention"].startswith("no, as transformers 4.35.2 has it by default (transformers/")
    assert "scores of attention stored" in found["taken"]


def test_what_is_no_release_ends_with_2_and_says_how_one_is_written() -> None:
    result = CliRunner().invoke(estimate, [*ON_64, "--program", "transformers>=4.35"])
    assert isinstance(result.exception, UsageError)
    assert "transformers==4." in str(result.exception)


@pytest.mark.parametrize(
    ("program", "word"), [("transformers==4.45", "transformers 4.45: --per"), ("trl==0.9.6", "TRL 0.9.6 (")]
)
def test_a_plans_command_names_the_release(program: str, word: str) -> None:
    found = planned(*PLAN, "--program", program)
    assert found["program"] == program
    assert any(line.startswith(word) for line in found["launch"])
    assert not any("tp_size" in line for way in found["ways"] for line in way["launch"])  # from 4.56 on


@pytest.mark.parametrize(("release", "is_told"), [("4.39", False), ("4.40", True), ("4.46", False), ("5.2", True)])
def test_a_plan_tells_the_trainer_to_reduce_each_where_it_heeds_that(release: str, is_told: bool) -> None:
    options = ("--gpu", "A100", "--gpus-per-node", "8", "--samples-per-step", "256", "--sequence-length", "4096")
    found = planned("llama-13b", *options, "--program", f"transformers=={release}")
    sharded = [way for way in found["ways"] if way["strategy"] == "fsdp" and way["accumulation"] > 1 and way["launch"]]
    whole = [way for way in sharded if way["tensor_parallel"] == way["context_parallel"] == 1]
    assert whole
    assert {any("sync_each_batch" in line for line in way["launch"]) for way in whole} == {is_told}


@pytest.mark.parametrize(("release", "has_it"), [("4.35", False), ("4.36", True)])
def test_a_plan_names_no_flash_attention_where_stored_scores_were_estimated(release: str, has_it: bool) -> None:
    """``--attn_implementation`` is of 4.36, and 4.35's own attention stores its scores."""
    options = ("--method", "lora", "--gpus-per-node", "8", "--gpu", "A100", "--sequence-length", "2048")
    found = planned("llama-2-7b", *options, "--program", f"transformers=={release}")
    assert any("attn_implementation" in line for line in found["launch"]) is has_it
