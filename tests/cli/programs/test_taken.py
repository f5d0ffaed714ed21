"""What a program decides is taken as it has it, what is said wins, and what it leaves open stays so."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.performance_model.estimate.estimate import estimate as estimated
from raybench.performance_model.programs.program import Program
from raybench.performance_model.programs.table import PROGRAMS
from raybench.performance_model.request.taken import (
    checked,
    most_taken,
    taken_in_short,
    what_is_taken,
    with_program,
)
from raybench.reports.terminal.comment import comment
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from tests.cli.programs.asked import ON_64, model_of, told


def test_what_a_program_has_is_taken_with_the_file_that_says_so() -> None:
    """Compiled by torchtitan, kernels are fused, and the loss is at most: as if each had been said."""
    found = told(*ON_64, "--program", "torchtitan", "--compile")
    assert found["program"] == "torchtitan"
    assert found["basis"]["loss"].startswith("at most fused, as torchtitan has it (torchtitan/")
    said = told(*ON_64, "--compile", "--kernels", "fused", "--loss", "fused", "--no-masked-attention")
    (fast, slow), (least, most) = found["step_seconds"], said["step_seconds"]
    assert fast == pytest.approx(least, rel=0.05)  # but for the loss and the optimizer
    assert most < slow < 1.25 * most  # by torchtitan's own published step times
    assert found["memory"]["likely_peak"] <= said["memory"]["peak"]
    of_release = told(*ON_64, "--program", "torchtitan==0.2", "--compile")["memory"]
    assert of_release["peak"] <= said["memory"]["peak"] < found["memory"]["peak"]  # not compiled before 0.1


def test_without_a_program_nothing_is_taken() -> None:
    found = told(*ON_64)
    assert found["program"] is None
    assert "loss" not in found["basis"]
    shown = CliRunner().invoke(estimate, list(ON_64)).output
    assert "--program NAME says them at once" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (("--loss", "plain"), "loss"),
        (("--kernels", "plain"), "kernels"),
        (("--masked-attention",), "attention with a mask"),
        (("--reduce-dtype", "bf16"), "gradients reduced in"),
        (("--parameter-dtype", "bf16"), "weights stored in"),
        (("--reduce-each",), "each micro-batch reduced"),
    ],
)
def test_what_the_user_says_wins(option: tuple[str, ...], name: str) -> None:
    program = ("--program", "torchtitan", "--compile", "--gradient-accumulation-steps", "2")
    assert name in told(*ON_64, *program)["basis"]
    assert name not in told(*ON_64, *program, *option)["basis"]


def test_what_a_program_leaves_to_its_users_stays_open() -> None:
    """Liger is on or off: with transformers memory lies between the two, and the loss follows what is said."""
    options = EstimateOptions(strategy="fsdp", gpu="h100", world_size=8, program="transformers")
    request = with_program(estimate_request(options))
    assert (request.kernels_known, request.loss_known, request.setup.loss) == (False, False, "transformers")
    found = estimated(request)
    assert found.least_peak < found.peak
    for kernels, loss in (("plain", "transformers"), ("fused", "chunked")):
        said = with_program(estimate_request(EstimateOptions(program="transformers", kernels=kernels, gpu="h100")))
        assert (said.setup.loss, said.loss_known) == (loss, True)


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_where_nobody_says_the_strategy_is_one_that_the_program_has(program: Program, ranks: int) -> None:
    options = EstimateOptions(gpu="h100", world_size=ranks, program=program.name, model=model_of(program))
    request = with_program(checked(estimate_request(options)))
    assert request.setup.strategy in program.strategies
    assert (
        what_is_taken(request)["strategy"] == f"{request.setup.strategy}, the usual one of {program.title} (--strategy)"
    )
    assert f"has it: {request.setup.strategy} (no --strategy)" in taken_in_short(request)
    said = with_program(estimate_request(replace(options, strategy=request.setup.strategy)))
    assert (said.setup, "strategy" in what_is_taken(said)) == (request.setup, False)


@pytest.mark.parametrize(
    ("program", "said", "is_slowest"),
    [
        ("transformers", ("--kernels", "plain", "--no-native-attention"), True),
        ("transformers", ("--kernels", "fused"), False),
        ("torchtitan --no-compile", ("--kernels", "plain", "--loss", "plain", "--no-native-attention"), True),
    ],
)
def test_bounds_hold_for_what_the_program_leaves_open_and_for_no_more(
    program: str, said: tuple[str, ...], is_slowest: bool
) -> None:
    """Its loss is no other than what takes most of it: bounds were those of every loss that there is."""
    asked = (*ON_64, "--program", *program.split())
    whole, found = told(*asked), told(*asked, *said)
    assert ("--kernels" in whole["not_said"]) > ("--kernels" in found["not_said"])
    (fast, slow), (least, most) = found["step_seconds"], whole["step_seconds"]
    assert least <= fast <= slow <= most
    assert (slow == pytest.approx(most)) is is_slowest


@pytest.mark.parametrize("program", ["megatron-lm", "megatron-bridge"])
def test_single_modules_are_computed_again_by_megatrons_programs(program: str) -> None:
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "zero1", "--program", program)
    again = told(*asked, "--recompute-modules", "mlp")
    assert again["memory"]["activations"] < told(*asked)["memory"]["activations"]


def test_a_range_with_kernels_and_loss_said_is_of_what_programs_keep() -> None:
    asked = ["--gpu", "H100", "--strategy", "fsdp", "--kernels", "fused", "--loss", "chunked", "--batch-size", "3"]
    shown = " ".join(CliRunner().invoke(estimate, asked).output.replace("#", "").split())
    assert "as programs keep less or more for their backward pass, a GPU has 79.11 GiB; say --program, or" in shown
    assert "heaviest" not in shown


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_what_was_taken_is_not_cut_on_a_screen(program: Program, method: str) -> None:
    """Three rows of 80 columns had the first facts, whichever they were, and "..."."""
    adapters = {} if method == "full" else {"lora_rank": 8, "qlora": method == "qlora"}
    for strategy in program.strategies if method in program.methods else ():
        options = EstimateOptions(program=program.name, strategy=strategy, activation_checkpointing=True, **adapters)
        line = most_taken(with_program(estimate_request(options)))
        assert len(list(comment(line, 80))) <= 3
        options = replace(options, accumulation=4, strategy=None)
        assert len(list(comment(most_taken(with_program(estimate_request(options))), 80))) <= 3


def test_a_screen_says_what_was_taken() -> None:
    shown = " ".join(CliRunner().invoke(estimate, [*ON_64, "--program", "torchtitan", "--no-compile"]).output.split())
    assert "as torchtitan has it: loss at most plain, " in shown
    assert "each micro-batch reduced, ...: --full" in shown
    assert "compiled" not in shown  # by who asks, and not by torchtitan
    whole = " ".join(CliRunner().invoke(estimate, [*ON_64, "--program", "torchtitan", "--full"]).output.split())
    assert "no, as torchtitan has it (torchtitan/models/common/attention.py, is_causal)" in whole
    assert "has it:" not in " ".join(CliRunner().invoke(estimate, list(ON_64)).output.split())


GPT2 = ("--model", "gpt2", "--gpu", "H100", "--world-size", "1", "--batch-size", "12", "--sequence-length", "1024")


@pytest.mark.parametrize(
    ("options", "vocabulary"),
    [
        (("--program", "nanogpt"), 50304),
        (("--program", "megatron-lm"), 50304),
        (("--program", "megatron-lm", "--world-size", "8", "--tp", "4"), 50688),
        (("--program", "nanogpt", "--vocabulary", "50257"), 50257),
        (("--program", "nanogpt", "--vocabulary", "50304"), 50304),
        (("--program", "transformers"), 50257),
        ((), 50257),
    ],
)
def test_a_vocabulary_is_padded_as_its_program_pads_it(options: tuple[str, ...], vocabulary: int) -> None:
    found = told(*GPT2, *options)
    hidden, padded = 768, vocabulary - 50257
    assert found["model"]["parameters"] == 124_439_808 + hidden * padded
    is_taken = "vocabulary padded to a multiple of" in found["basis"]
    assert is_taken is (padded > 0 and "--vocabulary" not in options)


def test_an_odd_vocabulary_takes_longer_than_a_padded_one() -> None:
    odd, padded = (told(*GPT2, "--program", "nanogpt", *more) for more in (("--vocabulary", "50257"), ()))
    assert padded["step_seconds"][1] < 0.95 * odd["step_seconds"][1]
    llama = ("--model", "llama-3.1-8b", "--gpu", "H100", "--program", "megatron-lm", "--tp", "8")
    assert "vocabulary padded to a multiple of" in told(*llama)["basis"]  # 128,256 is 1,002 x 128
    assert "vocabulary padded to a multiple of" not in told(*llama[:-1], "2")["basis"]
