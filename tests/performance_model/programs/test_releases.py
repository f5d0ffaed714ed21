"""A release that is said, as pip writes it, has what that release had, and what may be of two is open."""

from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.unknown import unsaid_of
from raybench.performance_model.programs.releases import Releases, Span, name_and_release, numbers_of
from raybench.performance_model.programs.releases_of_transformers import (
    AXOLOTL_NEEDS,
    FMS_HF_TUNING_NEEDS,
    H2O_LLMSTUDIO_NEEDS,
    LLAMA_FACTORY_NEEDS,
    LLAMA_RECIPES_NEEDS,
    MS_SWIFT_NEEDS,
    OPEN_INSTRUCT_NEEDS,
    TRL_NEEDS,
    UNSLOTH_NEEDS,
)
from raybench.performance_model.programs.table import PROGRAMS, program_named
from raybench.performance_model.request.request import EstimateRequest, least_setup
from raybench.performance_model.request.taken import what_is_taken, with_program
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

_FSDP = {"strategy": "fsdp", "batch_size": 4, "sequence_length": 4096, "activation_checkpointing": True}
_NEEDS = {
    "trl": TRL_NEEDS,
    "axolotl": AXOLOTL_NEEDS,
    "llama-factory": LLAMA_FACTORY_NEEDS,
    "fms-hf-tuning": FMS_HF_TUNING_NEEDS,
    "ms-swift": MS_SWIFT_NEEDS,
    "open-instruct": OPEN_INSTRUCT_NEEDS,
    "unsloth": UNSLOTH_NEEDS,
    "llama-recipes": LLAMA_RECIPES_NEEDS,
    "h2o-llmstudio": H2O_LLMSTUDIO_NEEDS,
}


def asked(program: str, **options: Any) -> EstimateRequest:
    machine = {"model": "llama-2-7b", "gpu": "a100"} | options
    return with_program(estimate_request(EstimateOptions(program=program, **machine)))


def told(program: str, **options: Any) -> Estimate:
    return estimate(asked(program, **(_FSDP | options)))


def test_transformers_before_4_36_stores_scores_and_4_36_does_not() -> None:
    """In December 2023 it took PyTorch's attention: by a release of before twice the memory, and more time."""
    older, newer, today = (told(f"transformers{release}") for release in ("==4.35", "==4.36", ""))
    assert (older.request.setup.flash_attention, newer.request.setup.flash_attention) == (False, True)
    assert older.request.setup.wide_scores
    assert newer.peak == today.peak
    assert older.peak > 1.5 * newer.peak
    assert older.least_peak > newer.peak
    assert older.step_seconds is not None
    assert newer.step_seconds is not None
    assert older.step_seconds[0] > 1.3 * newer.step_seconds[0]


@pytest.mark.parametrize(
    ("release", "stores"),
    [
        ("4.35.2", True),
        ("4.36.0", False),
        ("v4.35", True),
        ("4.36.0.dev0", False),
        ("4.36.0rc1", False),
        ("5.3", False),
    ],
)
def test_a_release_may_have_more_numbers(release: str, stores: bool) -> None:
    assert asked(f"transformers=={release}").setup.flash_attention is not stores


@pytest.mark.parametrize(
    ("model", "older", "newer"),
    [
        ("mistral-7b", "4.36", "4.37"),
        ("gpt2", "4.41", "4.42"),
        ("EleutherAI/pythia-1.4b", "4.41", "4.42"),
        ("facebook/opt-1.3b", "4.46", "4.47"),
        ("bigcode/starcoder", "4.35", "4.36"),
    ],
)
def test_each_models_code_took_pytorchs_attention_in_its_own_release(model: str, older: str, newer: str) -> None:
    stores = [not asked(f"transformers=={one}", model=model).setup.flash_attention for one in (older, newer)]
    assert stores == [True, False]


@pytest.mark.parametrize("release", ["", "==4.35", "==5.0"])
@pytest.mark.parametrize("model", ["bigscience/bloom-560m", "EleutherAI/gpt-j-6b"])
def test_some_models_store_scores_in_all_releases(model: str, release: str) -> None:
    """BLOOM's and GPT-J's own attention is the only one up to 5: both were told to need no more than Llama's."""
    assert not asked(f"transformers{release}", model=model).setup.flash_attention


def test_falcon_had_pytorchs_attention_from_the_start() -> None:
    assert asked("transformers==4.33", model="tiiuae/falcon-7b").setup.flash_attention


def test_who_says_flash_attention_stores_no_scores_in_an_older_release() -> None:
    said = asked("transformers==4.35", no_flash_attention=False)
    assert said.setup.flash_attention
    assert "flash attention" not in what_is_taken(said)
    assert not asked("transformers==4.36", no_flash_attention=True).setup.flash_attention


def test_logits_are_copied_up_to_4_48_and_not_from_4_49_on() -> None:
    """Which of the two it is, an answer without a release leaves open; before the copy may be let go, or not."""
    older, newer, today = (asked(f"transformers{one}", kernels="plain") for one in ("==4.48.3", "==4.49", ""))
    assert (older.setup.loss, newer.setup.loss, today.setup.loss) == (
        "transformers",
        "transformers-whole",
        "transformers",
    )
    assert least_setup(today).loss == least_setup(newer).loss == "transformers-whole"
    said = asked("transformers==4.49", loss="transformers")
    assert said.setup.loss == "transformers-whole"
    assert asked("transformers==4.48", loss="transformers").setup.loss == "transformers"


def test_the_optimizer_is_fused_from_5_on_but_with_deepspeed_it_stays_open() -> None:
    fused = {
        (one, strategy): asked(f"transformers=={one}", strategy=strategy, world_size=8)
        for one in ("4.57", "5.0")
        for strategy in ("fsdp", "zero3")
    }
    assert [fused[one, "fsdp"].setup.fused_optimizer for one in ("4.57", "5.0")] == [False, True]
    both = [fused[one, "zero3"] for one in ("4.57", "5.0")]
    assert [any(fact.is_open and fact.name == "fused_optimizer" for fact in one.taken) for one in both] == [True, True]


def test_an_update_of_2023_may_have_two_lists_of_all_parameters_or_none() -> None:
    """PyTorch 2.0's AdamW, and transformers' own up to 4.31; 20 samples that ran out of memory were told to fit."""
    options: dict[str, Any] = {"memory": "80G", "accumulation": 16, "batch_size": 20, "sequence_length": 131}
    options |= {"parameter_dtype": "bf16", "world_size": 1}
    own, two, one = (estimate(asked(f"transformers=={release}", **options)) for release in ("4.31", "4.33", "4.35"))
    each = 6_738_415_616 * 2
    assert [found.memory.optimizer_temporaries for found in (own, two, one)] == [each, 2 * each, each]
    assert two.peak > one.peak
    assert least_setup(asked("transformers==4.31", kernels="plain", **options)).fused_optimizer
    assert not least_setup(asked("transformers==4.33", kernels="plain", **options)).fused_optimizer
    assert (two.fits, one.fits) == (None, True)


def test_inputs_of_a_4_bit_base_may_be_kept_by_bitsandbytes_of_its_time() -> None:
    """Up to July 2024; who has an older transformers may have a newer bitsandbytes."""
    options: dict[str, Any] = {"lora_rank": 16, "qlora": True, "batch_size": 2, "sequence_length": 2048}
    older, newer = (asked(f"transformers=={one}", **options) for one in ("4.42", "4.43"))
    assert (older.setup.frozen_inputs, least_setup(older).frozen_inputs) == ("kept", "dropped")
    assert newer.setup.frozen_inputs == "dropped"
    assert estimate(older).peak > estimate(newer).peak


@pytest.mark.parametrize(
    ("asked_for", "stores", "is_open", "note"),
    [
        ("llama-factory==0.3.3", True, False, "transformers 4.31 to 4.34.1"),
        ("llama-factory==0.4.0", False, False, "transformers from 4.36.1 on"),
        ("axolotl==0.4.0", False, False, "transformers 4.37.0"),
        ("axolotl==0.3", True, True, "transformers from 4.30 on"),
        ("trl==0.7.4", True, True, "transformers from 4.18 on"),
        ("trl==0.11", False, False, "transformers from 4.40 on"),
        ("accelerate==0.25", True, True, "any release of transformers"),
        ("unsloth==2024.1", False, False, "any release of transformers"),
        ("fms-hf-tuning==0.2", False, False, "any release of transformers"),  # its own default is flash-attn
        ("h2o-llmstudio==1.1.1", True, False, "transformers 4.34.0"),
        ("h2o-llmstudio==1.2", False, False, "transformers 4.36.1"),
    ],
)
def test_a_program_over_transformers_has_what_its_own_release_needs_of_it(
    asked_for: str, stores: bool, is_open: bool, note: str
) -> None:
    """What it pins is sure; where it takes many, both are counted with, and nothing is guessed."""
    request = asked(asked_for)
    assert request.setup.flash_attention == (not stores)
    assert (least_setup(request).flash_attention != request.setup.flash_attention) is is_open
    assert ("--flash-attention" in unsaid_of(request)) is is_open
    assert note in what_is_taken(request)["program"]


def test_the_step_of_attention_that_is_open_is_of_either() -> None:
    """The fastest as where no scores are stored, the slowest as where they are."""
    opened, stored, none = (told("trl==0.7.4", no_flash_attention=said).step_seconds for said in (None, True, False))
    assert opened is not None
    assert stored is not None
    assert none is not None
    assert opened[0] == pytest.approx(none[0], rel=0.02)
    assert opened[1] == pytest.approx(stored[1], rel=0.02)
    assert stored[0] > 1.3 * none[0]


@pytest.mark.parametrize(
    ("older", "newer", "field", "values", "options"),
    [
        ("torchtune==0.2.1", "torchtune==0.3.0", "loss", ("plain", "fused"), {}),
        ("torchtune==0.6.1", "torchtune", "loss", ("fused", "chunked"), {}),
        ("torchtune==0.3.0", "torchtune==0.3.1", "fused_optimizer", (False, True), {}),
        ("torchtitan==0.0.2", "torchtitan==0.1.0", "loss", ("plain", "fused"), {"compile": True}),
        ("unsloth==2024.11.7", "unsloth==2024.12", "loss", ("narrow", "chunked"), {}),
        ("unsloth==2024.3", "unsloth==2024.4", "offloads_activations", (False, True), {}),
        ("trl==1.6", "trl==1.7", "loss", ("transformers-whole", "chunked-fp32"), {"kernels": "plain"}),
        ("trl==0.26.2", "trl==0.27", "upcast", (True, False), {"lora_rank": 16, "qlora": True}),
        ("openrlhf==0.8.9", "openrlhf==0.8.10", "flash_attention", (False, True), {"strategy": "zero3"}),
        ("openrlhf==0.4.5", "openrlhf==0.5.5", "loss", ("transformers", "narrow"), {"strategy": "zero3"}),
        ("openrlhf==0.6.4", "openrlhf", "loss", ("transformers", "fused-fp32"), {"strategy": "zero3"}),
        ("verl==0.3", "verl==0.4", "on_streams", (True, False), {"strategy": "fsdp"}),
        ("llama-recipes==0.0.2", "llama-cookbook==0.0.5", "parameter_bytes", (4, 2), {"strategy": "fsdp"}),
        ("llama-recipes==0.0.2", "llama-recipes==0.0.3", "upcast", (True, False), {"lora_rank": 8, "qlora": True}),
        ("llama-factory==0.4.0", "llama-factory==0.5.0", "adapter_dropout", (True, False), {"lora_rank": 16}),
    ],
)
def test_a_program_of_before_and_of_after(
    older: str, newer: str, field: str, values: tuple[Any, Any], options: dict[str, Any]
) -> None:
    named = {"activation_checkpointing": True, "world_size": 8 if "strategy" in options else 1} | options
    assert tuple(getattr(asked(one, **named).setup, field) for one in (older, newer)) == values


def test_a_loss_that_users_do_not_choose_is_not_opened_by_a_release_that_may_have_either() -> None:
    """llama-recipes has no Liger: which of transformers' two it is, as today, and no loss in chunks."""
    request = asked("llama-recipes==0.0.1", strategy="fsdp", world_size=8)
    assert (request.loss_known, request.setup.loss) == (True, "transformers")
    assert least_setup(request).loss == "transformers-whole"


def test_a_base_that_is_loaded_without_a_type_is_sharded_in_fp32() -> None:
    """llama-recipes up to 0.0.2: of LoRA of Llama 2 7B on 4 GPUs 15.2 GiB were active, 12.1 told."""
    options = {"strategy": "fsdp", "world_size": 4, "lora_rank": 8, "batch_size": 4, "activation_checkpointing": True}
    older, newer = (estimate(asked(f"llama-recipes=={one}", **options)) for one in ("0.0.2", "0.0.3"))
    shard = 6_738_415_616 / 4
    assert older.memory.parameters - newer.memory.parameters == pytest.approx(2 * shard, rel=0.01)
    whole = {"strategy": "ddp", "world_size": 1, "lora_rank": 8}
    assert asked("llama-recipes==0.0.2", **whole).setup.frozen_bytes == 2


def test_megatron_stored_scores_up_to_core_0_5() -> None:
    """Its own kernels did unless they were told --use-flash-attn; Transformer Engine's are its default since 0.6."""
    options: dict[str, Any] = {"model": "gpt2-xl", "gpu": "a100", "world_size": 8, "batch_size": 4, "dropout": False}
    older, newer = (estimate(asked(f"megatron-core=={one}", **options)) for one in ("0.5", "0.6"))
    assert (older.request.setup.flash_attention, newer.request.setup.flash_attention) == (False, True)
    assert older.peak > 1.2 * newer.peak
    assert not older.request.setup.wide_scores  # its fused softmax is in 16 bits


def test_megatron_lm_3_is_older_than_core_0_1() -> None:
    """Of 2022: the numbers began anew with Megatron-Core."""
    assert not asked("megatron-lm==3.0").setup.flash_attention
    assert "context" not in program_named("megatron-lm==3.0").cuts
    assert "context" in program_named("megatron-lm==0.12").cuts


def test_of_a_release_that_nobody_knows_it_is_as_today() -> None:
    """One that is newer than the newest fact, and any of a program of which no release is known to differ."""
    for program, release in (("torchtune", "7.0"), ("nanogpt", "1.0"), ("llm-foundry", "0.3")):
        released, today = (asked(one, compile=True) for one in (f"{program}=={release}", program))
        assert released.setup == today.setup
    assert "nothing is known of its releases" in what_is_taken(asked("nanogpt==1.0"))["program"]


@pytest.mark.parametrize(
    "wrong", ["transformers==", "transformers>=4.35", "transformers==4.35,<5", "transformers~=4.35", "hf==latest",
              "transformers==4.35.*", "transformers 4.35"],
)  # fmt: skip
def test_what_is_no_release_is_refused_with_one_that_is(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"after ==, as pip has it, such as (transformers|hf)==4\.\d+") as error:
        program_named(wrong)
    assert error.value.exit_code == 2


def test_a_wrong_name_with_a_release_is_one_that_is_not_known() -> None:
    with pytest.raises(UsageError, match="there is no program 'trnasformers'; did you mean 'transformers'"):
        program_named("trnasformers==4.35")


@pytest.mark.parametrize("program", [name for one in PROGRAMS for name in one.names])
def test_each_program_may_be_asked_for_by_a_release(program: str) -> None:
    found = program_named(f"{program}==0.1")
    assert found.asked == f"{program}==0.1"
    assert "0.1" in found.title
    open_ones = [fact for fact in found.facts if fact.releases is not None and fact.is_open and fact.is_default]
    assert not open_ones


@pytest.mark.parametrize("program", sorted(_NEEDS))
def test_what_releases_need_is_in_order_and_ends_without_a_bound(program: str) -> None:
    needs = _NEEDS[program]
    assert program_named(program).requirements == needs
    ends = [numbers_of(one.until) for one in needs]
    assert ends[-1] is None
    known = [end for end in ends if end is not None]
    assert known == sorted(known)
    assert len(known) == len(needs) - 1
    assert all(one.span.least is None or one.span.most is None or one.span.least <= one.span.most for one in needs)


@pytest.mark.parametrize(
    ("releases", "span", "holds"),
    [
        (Releases(until="4.36"), Span(least=(4, 35), most=(4, 35, 2)), True),
        (Releases(until="4.36"), Span(least=(4, 36), most=(4, 36)), False),
        (Releases(until="4.36"), Span(least=(4, 31)), None),
        (Releases(until="4.36"), Span(), None),
        (Releases(since="4.46", until="5.2"), Span(least=(5,), most=(5, 1)), True),
        (Releases(since="4.46", until="5.2"), Span(most=(4, 45)), False),
        (Releases(since="5"), Span(least=(5, 3)), True),
    ],
)
def test_whether_a_fact_is_of_releases_that_may_be_meant(releases: Releases, span: Span, holds: bool | None) -> None:
    assert releases.hold(span) is holds


def test_a_name_and_its_release() -> None:
    assert name_and_release("transformers") == ("transformers", None)
    assert name_and_release(" Axolotl == 0.11.0.post1 ") == ("Axolotl", "0.11.0.post1")
    assert name_and_release("h2o llm studio") == ("h2o llm studio", None)
    assert numbers_of("4.0") == numbers_of("4") == (4,)
    assert numbers_of("1." * 40) is None
