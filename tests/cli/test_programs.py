"""``--program``: what a program decides is taken as it has it, and what it has not is not tried."""

import json
from dataclasses import replace
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.cli.planning.plan import command as plan
from raybench.errors import UsageError
from raybench.performance_model.estimate import estimate as estimated
from raybench.performance_model.programs.program import LOSSES, Fact, Program, every_name
from raybench.performance_model.programs.table import PROGRAMS, program_named
from raybench.performance_model.programs.taken import (
    checked,
    most_taken,
    refused,
    taken_in_short,
    what_is_taken,
    with_program,
)
from raybench.performance_model.training_setup import Loss, TrainingSetup
from raybench.reports.terminal.comment import comment
from raybench.services.estimate import EstimateOptions, estimate_request

ON_64 = ("--model", "llama-8b", "--world-size", "64", "--node-type", "p5.48xlarge", "--strategy", "fsdp")
PLAN = ("llama-8b", "--nodes", "2", "--node-type", "p5.48xlarge")


def told(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(estimate, [*arguments, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def planned(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(plan, [*arguments, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def _model_of(program: Program) -> str:
    """One that it trains."""
    return "llama-8b" if program.families is None or not program.families.lack("llama") else "gpt2"


def test_what_a_program_has_is_taken_with_the_file_that_says_so() -> None:
    """Compiled by torchtitan, kernels are fused, and the loss is at most: as if each had been said."""
    found = told(*ON_64, "--program", "torchtitan", "--compile")
    assert found["program"] == "torchtitan"
    assert found["basis"]["loss"].startswith("at most fused, as torchtitan has it (torchtitan/")
    said = told(*ON_64, "--compile", "--kernels", "fused", "--loss", "fused", "--no-masked-attention")
    (fast, slow), (least, most) = found["step_seconds"], said["step_seconds"]
    assert fast == pytest.approx(least, rel=0.05)  # but for the loss and the optimizer
    assert most < slow < 1.25 * most  # by torchtitan's own published step times
    assert found["memory"]["peak"] <= said["memory"]["peak"]


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


@pytest.mark.parametrize(
    ("program", "said", "other"),
    [
        ("torchtitan", "--reduce-last", "--reduce-each"),
        ("torchtune", "--reduce-last", "--reduce-each"),
        ("megatron-lm", "--compile", "--no-compile"),
        ("megatron-bridge", "--compile", "--no-compile"),
        ("gpt-neox", "--compile", "--no-compile"),
        ("nanogpt", "--dtype fp8", "--dtype fp16"),
        ("nanogpt", "--cpu-offload optimizer", "--cpu-offload none"),
        ("deepspeed-chat", "--dtype fp8", "--dtype bf16"),
        ("raybench", "--offload-activations", "--activation-checkpointing"),
    ],
)
def test_an_option_that_a_program_has_not_is_refused(program: str, said: str, other: str) -> None:
    model = _model_of(program_named(program))
    asked = ("--model", model, "--world-size", "8", "--gpu", "H100", "--gradient-accumulation-steps", "2")
    with pytest.raises(UsageError, match=f"has no {said} "):
        told(*asked, "--program", program, *said.split())
    assert told(*asked, "--program", program, *other.split())["program"] == program


def test_a_plan_refuses_an_option_that_its_program_has_not() -> None:
    with pytest.raises(UsageError, match="Megatron-LM has no --compile"):
        planned(*PLAN, "--program", "megatron-lm", "--compile")


def test_an_unknown_program_is_answered_with_the_nearest_and_all() -> None:
    nearest = r"no program 'torchtitn'; did you mean 'torchtitan' or 'torchtune'\? There are: .*megatron"
    with pytest.raises(UsageError, match=nearest):
        told("--program", "torchtitn")


@pytest.mark.parametrize(
    ("program", "arguments", "why"),
    [
        ("torchtitan", ("--strategy", "zero1"), "torchtitan has no zero1; it has fsdp, fsdp-grad-op, fsdp-hybrid, ddp"),
        ("megatron-lm", ("--strategy", "zero2"), "Megatron-LM has no zero2"),
        ("transformers", ("--strategy", "ddp", "--pp", "2"), "transformers has no --pipeline-parallel"),
        ("torchtitan", ("--strategy", "fsdp", "--lora-rank", "8"), "trains no adapters that way"),
        ("torchtitan", ("--strategy", "fsdp", "--tp", "2", "--ep", "4", "--etp", "2"), "experts whole on tensor ranks"),
        ("megatron-lm", ("--strategy", "zero1", "--selective-checkpointing"), "computes attention again alone"),
        (
            "gpt-neox",
            ("--strategy", "zero1", "--recompute-modules", "core_attn"),
            "--recompute-modules are Megatron-LM's",
        ),
    ],
)
def test_what_a_program_has_not_is_refused(program: str, arguments: tuple[str, ...], why: str) -> None:
    model = "mixtral-8x7b" if "--ep" in arguments else "llama-8b"
    asked = ("--model", model, "--world-size", "8", "--gpu", "H100", *arguments)
    with pytest.raises(UsageError, match=why):
        told(*asked, "--program", program)
    assert told(*asked)["strategy"] == arguments[1]


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_where_nobody_says_the_strategy_is_one_that_the_program_has(program: Program, ranks: int) -> None:
    options = EstimateOptions(gpu="h100", world_size=ranks, program=program.name, model=_model_of(program))
    request = with_program(checked(estimate_request(options)))
    assert request.setup.strategy in program.strategies
    assert (
        what_is_taken(request)["strategy"] == f"{request.setup.strategy}, the usual one of {program.title} (--strategy)"
    )
    assert f"has it: {request.setup.strategy} (no --strategy)" in taken_in_short(request)
    said = with_program(estimate_request(replace(options, strategy=request.setup.strategy)))
    assert (said.setup, "strategy" in what_is_taken(said)) == (request.setup, False)


def test_one_rank_has_no_strategy_that_its_program_lacks() -> None:
    one = ("--world-size", "1", "--gpu", "H100")
    for program, strategy in (("torchtitan", "zero1"), ("openrlhf", "ddp")):
        with pytest.raises(UsageError, match=f"has no {strategy}"):
            told(*one, "--program", program, "--strategy", strategy)
    one_gpu = ("tiny", "--nodes", "1", "--gpus-per-node", "1", "--gpu", "H100")
    assert {way["strategy"] for way in planned(*one_gpu, "--program", "openrlhf")["ways"]} == {"zero2"}


@pytest.mark.parametrize(
    ("program", "strategies", "lacking", "start"),
    [
        ("torchtitan", {"ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid"}, "torchtitan has no zero1", "torchtitan.train"),
        ("megatron-lm", {"ddp", "zero1"}, "Megatron-LM has no zero2", "pretrain_gpt.py"),
        ("transformers", {"ddp", "zero1", "zero2", "fsdp", "fsdp-grad-op", "fsdp-hybrid"},
         "transformers has no --pipeline-parallel", "train.py"),
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


def test_each_loss_is_one_of_the_option_or_in_words() -> None:
    """``fused-fp32`` and others were shown as the program has them, and are no values of ``--loss``."""
    option = next(one for one in estimate.params if one.name == "loss")
    assert isinstance(option.type, click.Choice)
    assert {*get_args(Loss)} == {*option.type.choices, *LOSSES}
    assert not {*option.type.choices} & {*LOSSES}
    asked = ("--world-size", "8", "--gpu", "H100", "--program")
    assert told(*asked, "megatron-lm")["basis"]["loss"].startswith("fused over fp32 logits, as Megatron-LM")
    assert "loss in 16 bits throughout" in told(*asked, "fms-fsdp", "--no-compile")["taken"]


def test_a_fused_loss_is_given_logits_that_transformers_has_cast_up() -> None:
    """A kernel in the place of PyTorch's cross entropy reads fp32: a TinyLlama trained so took more than was told."""
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "ddp", "--kernels", "fused", "--loss", "fused")
    for program in ("transformers", "trl", "llama-factory"):
        found = told(*asked, "--program", program)
        assert found["basis"]["loss"].startswith("fused over fp32 logits, as ")
        assert found["memory"]["logits"] == pytest.approx(2 * told(*asked)["memory"]["logits"])
    assert "loss" not in told(*asked, "--program", "torchtitan")["basis"]


def test_a_plain_loss_of_megatron_is_its_own_in_place() -> None:
    """It has none of PyTorch's: without the fusion of its cross entropy six runs took 0.9 of what was told."""
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "distributed-optimizer", "--kernels", "fused")
    found, said = (told(*asked, "--program", "megatron-lm", *more) for more in ((), ("--loss", "plain")))
    assert said["basis"]["loss"].startswith("fused over fp32 logits, as Megatron-LM")
    assert said["memory"]["logits"] == found["memory"]["logits"] < told(*asked, "--loss", "plain")["memory"]["logits"]


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
    assert "torchtitan has no configuration of" in found["launch"][1]


@pytest.mark.parametrize("program", ["megatron-lm", "megatron-bridge"])
def test_single_modules_are_computed_again_by_megatrons_programs(program: str) -> None:
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "zero1", "--program", program)
    again = told(*asked, "--recompute-modules", "mlp")
    assert again["memory"]["activations"] < told(*asked)["memory"]["activations"]


class TestTable:
    """Each program is data, and all of it can be used."""

    def test_names_are_of_one_program_each(self) -> None:
        names = every_name(PROGRAMS)
        assert len(names) == len(set(names))
        assert all(program_named(name).title for name in names)

    @pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
    def test_its_facts_hold_of_something_and_each_has_a_source(self, program: Any) -> None:
        fields = {*TrainingSetup.__dataclass_fields__, "reduces_each", "drops"}  # drops: of the model
        assert all(fact.name in fields and fact.source for fact in (*program.planned, *program.facts))
        taken: set[str] = set()
        for strategy in program.strategies:
            options = EstimateOptions(strategy=strategy, gpu="h100", program=program.name, model=_model_of(program))
            request = estimate_request(options)
            assert refused(program, request) is None
            taken |= {fact.name for fact in with_program(request).taken}
        assert taken

    def test_a_fact_of_nothing_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no fact of kernel"):
            Fact(name="kernel", value="fused", source="a file")


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


@pytest.mark.parametrize(
    ("program", "model", "has"),
    [
        ("unsloth", "gpt2", "llama-8b"),
        ("torchtitan", "pythia-6.9b", "llama-8b"),
        ("torchtune", "mixtral-8x7b", "mistral-7b"),
        ("litgpt", "gpt2", "pythia-6.9b"),
        ("nanogpt", "llama-8b", "gpt2-xl"),
        ("fms-fsdp", "mistral-7b", "llama-8b"),
    ],
)
def test_a_model_that_a_program_has_no_code_for_is_refused(program: str, model: str, has: str) -> None:
    machine = ("--program", program, "--gpu", "H100")
    with pytest.raises(UsageError, match=r"has no .* \(.*\); it trains .* \(--model\)"):
        told("--model", model, *machine)
    with pytest.raises(UsageError, match="has no "):
        planned(model, *machine)
    assert told("--model", has, *machine)["program"] == program


def test_a_model_of_no_known_family_is_taken_by_any_program() -> None:
    """A module that is counted may be anything, and so may a program be changed for it."""
    for program in PROGRAMS:
        assert program.families is None or not program.families.lack("")
        assert program.families is None or bool(program.families.only) != bool(program.families.none_of)


@pytest.mark.parametrize(("release", "has_it"), [("4.35", False), ("4.36", True)])
def test_a_plan_names_no_flash_attention_where_stored_scores_were_estimated(release: str, has_it: bool) -> None:
    """``--attn_implementation`` is of 4.36, and 4.35's own attention stores its scores."""
    options = ("--method", "lora", "--gpus-per-node", "8", "--gpu", "A100", "--sequence-length", "2048")
    found = planned("llama-2-7b", *options, "--program", f"transformers=={release}")
    assert any("attn_implementation" in line for line in found["launch"]) is has_it
