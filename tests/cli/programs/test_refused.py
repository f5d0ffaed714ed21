"""What a program has not is refused, by ``estimate`` and by ``plan``."""

import pytest

from raybench.errors import UsageError
from raybench.performance_model.programs.table import program_named
from tests.cli.programs.asked import PLAN, model_of, planned, told


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
    model = model_of(program_named(program))
    asked = ("--model", model, "--world-size", "8", "--gpu", "H100", "--gradient-accumulation-steps", "2")
    with pytest.raises(UsageError, match=f"has no {said} "):
        told(*asked, "--program", program, *said.split())
    assert told(*asked, "--program", program, *other.split())["program"] == program


def test_raybench_is_planned_with_models_that_it_trains_alone() -> None:
    """Of one with experts a plan told OK, and printed no command to start."""
    for command in (planned, told):
        asked = ("--model",) if command is told else ()
        with pytest.raises(UsageError, match="qwen3-30b-a3b: this model has experts, and raybench trains none like it"):
            command(*asked, "qwen3-30b-a3b", "--gpu", "H100", "--program", "raybench")
    assert planned("qwen2.5-7b", "--gpu", "H200", "--program", "raybench")["ways"][0]["command"]
    with pytest.raises(UsageError, match="raybench trains no model of an import path"):
        told("--model", "torch.nn:Identity", "--gpu", "H100", "--program", "raybench")


def test_a_plan_refuses_an_option_that_its_program_has_not() -> None:
    with pytest.raises(UsageError, match="Megatron-LM has no --compile"):
        planned(*PLAN, "--program", "megatron-lm", "--compile")


def test_an_unknown_program_is_answered_with_the_nearest_and_all() -> None:
    nearest = r"no program 'torchtitn'; did you mean 'torchtitan' or 'torchtune'\? There are: .*megatron"
    with pytest.raises(UsageError, match=nearest):
        told("--program", "torchtitn")
    with pytest.raises(UsageError, match=r"no program 'levanter'; leave --program out, .*; there are: .*megatron"):
        told("--program", "levanter")


@pytest.mark.parametrize(
    ("program", "arguments", "why"),
    [
        ("torchtitan", ("--strategy", "zero1"), "torchtitan has no zero1; it has fsdp, fsdp-grad-op, fsdp-hybrid, ddp"),
        ("megatron-lm", ("--strategy", "zero2"), "Megatron-LM has no zero2; it has ddp, zero1, fsdp, fsdp-hybrid"),
        ("transformers", ("--strategy", "ddp", "--pp", "2"), "transformers has no --pipeline-parallel; it has"),
        ("transformers", ("--strategy", "ddp", "--ep", "2"), r"over tensor ranks .--tensor-parallel"),
        ("deepspeed", ("--strategy", "zero3", "--pp", "2"), "has no zero3 with --pipeline-parallel; take zero1"),
        ("colossalai", ("--strategy", "zero2", "--pp", "2"), "has no zero2 with --pipeline-parallel; take zero1"),
        ("torchtitan", ("--strategy", "fsdp", "--lora-rank", "8"), "trains no adapters that way"),
        (
            "torchtitan==0.3",
            ("--strategy", "fsdp", "--tp", "2", "--ep", "4", "--etp", "2"),
            "experts whole on tensor ranks",
        ),
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


@pytest.mark.parametrize(
    ("program", "arguments", "other"),
    [
        ("megatron-lm", ("--lora-rank", "8"), "; Megatron-Bridge trains so (--program megatron-bridge)"),
        ("torchtitan", ("--lora-rank", "8", "--strategy", "fsdp"), "; torchtune trains so (--program torchtune)"),
        ("megatron-lm", ("--strategy", "zero2"), "; Megatron-DeepSpeed trains so (--program megatron-deepspeed)"),
        ("nanogpt", ("--lora-rank", "8"), "it has full"),
        ("gpt-neox", ("--lora-rank", "8", "--strategy", "zero1"), "; DeepSpeed trains so (--program deepspeed)"),
        ("ms-swift", ("--tp", "4", "--strategy", "ddp"), "; Megatron-LM trains so (--program megatron-lm)"),
    ],
)
def test_who_can_is_named_beside_what_a_program_cannot(program: str, arguments: tuple[str, ...], other: str) -> None:
    model = model_of(program_named(program))
    asked = ("--model", model, "--world-size", "8", "--gpu", "H100", *arguments)
    with pytest.raises(UsageError) as refusal:
        told(*asked, "--program", program)
    assert str(refusal.value).endswith(other)
    if "--program" in other:
        assert told(*asked, "--program", other.split("--program ")[1].rstrip(")"))["strategy"]


@pytest.mark.parametrize("release", ["", "==0.2", "==0.2.2"])
def test_torchtitan_cut_experts_of_tensor_ranks_for_some_releases(release: str) -> None:
    asked = ("--model", "mixtral-8x7b", "--world-size", "16", "--gpu", "H100", "--tp", "4", "--ep", "2")
    cut = told(*asked, "--etp", "4", "--program", f"torchtitan{release}")
    whole = told(*asked, "--program", f"torchtitan{release}")
    assert (cut["expert_tensor_parallel"], whole["expert_tensor_parallel"]) == (4, 1)
    assert cut["memory"]["buffers"] < whole["memory"]["buffers"]  # what is gathered of a layer


@pytest.mark.parametrize("program", ["megatron-lm", "megatron-bridge"])
def test_megatron_has_fsdp_and_no_plan_tries_it(program: str) -> None:
    found = told(
        "--model", "llama-70b", "--world-size", "64", "--gpu", "H100", "--strategy", "fsdp", "--program", program
    )
    assert found["strategy"] == "fsdp"
    assert {way["strategy"] for way in planned(*PLAN, "--program", program)["ways"]} <= {"ddp", "zero1"}


@pytest.mark.parametrize(
    ("program", "strategy", "other"), [("openrlhf", "zero1", "ddp"), ("gpt-neox", "zero3", "fsdp")]
)
def test_stages_that_a_program_has_and_no_plan_tries(program: str, strategy: str, other: str) -> None:
    asked = ("--model", "llama-8b", "--world-size", "8", "--gpu", "H100", "--program", program)
    assert told(*asked, "--strategy", strategy)["strategy"] == strategy
    assert strategy not in {way["strategy"] for way in planned(*PLAN, "--program", program)["ways"]}
    with pytest.raises(UsageError, match=f"has no {other}"):
        told(*asked, "--strategy", other)


def test_ms_swift_cuts_sequences_and_no_plan_tries_it() -> None:
    asked = (
        "--model",
        "llama-8b",
        "--world-size",
        "8",
        "--gpu",
        "H100",
        "--strategy",
        "zero2",
        "--program",
        "ms-swift",
    )
    whole, cut = (told(*asked, "--sequence-length", "32768", *more) for more in ((), ("--cp", "4")))
    assert cut["memory"]["activations"] < whole["memory"]["activations"]
    with pytest.raises(UsageError, match="has no --tensor-parallel; it has --context-parallel"):
        told(*asked, "--tp", "2")
    assert {way["context_parallel"] for way in planned(*PLAN, "--program", "ms-swift")["ways"]} == {1}


@pytest.mark.parametrize("program", ["torchtune", "litgpt", "verl", "prime-rl", "fms-fsdp"])
def test_one_rank_is_one_rank_by_either_name(program: str) -> None:
    """torchtune's single-device recipes spread nothing, and neither does FSDP over one rank."""
    alone = ("--gpu", "H100", "--program", program, "--world-size", "1")
    ddp, fsdp = (told(*alone, "--strategy", strategy) for strategy in ("ddp", "fsdp"))
    assert ddp["memory"]["parameters"] == fsdp["memory"]["parameters"]
    with pytest.raises(UsageError, match="has no ddp"):
        told("--gpu", "H100", "--program", program, "--world-size", "8", "--strategy", "ddp")


def test_one_rank_has_no_strategy_that_its_program_lacks() -> None:
    one = ("--world-size", "1", "--gpu", "H100")
    for program, strategy in (("torchtitan", "zero1"), ("openrlhf", "ddp")):
        with pytest.raises(UsageError, match=f"has no {strategy}"):
            told(*one, "--program", program, "--strategy", strategy)
    one_gpu = ("tiny", "--nodes", "1", "--gpus-per-node", "1", "--gpu", "H100")
    assert {way["strategy"] for way in planned(*one_gpu, "--program", "openrlhf")["ways"]} == {"zero2"}


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


@pytest.mark.parametrize(
    ("strategy", "stages", "is_told"), [("zero3", 2, True), ("zero1", 2, False), ("zero3", 1, False)]
)
def test_a_pipeline_of_sharded_gradients_is_said_to_be_refused(strategy: str, stages: int, is_told: bool) -> None:
    """No program is named: Alpa's own compiler had ZeRO-2 in a pipeline."""
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", strategy, "--pp", f"{stages}", "--accumulation", "16")
    found = told(*asked)
    assert any("refuse zero3 with a pipeline; take zero1, or fsdp" in one for one in found["advice"]) is is_told
    if stages > 1 and strategy == "zero1":
        assert told(*asked, "--program", "deepspeed")["strategy"] == "zero1"
