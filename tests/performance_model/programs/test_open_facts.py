"""What a program has in some of its releases, or with some of its users, is open: the most and the least hold both."""

from dataclasses import replace

import pytest

from raybench.documents.estimate import EstimateReport
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.unknown import unsaid_of
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.parallel.megatron import as_megatrons
from raybench.performance_model.programs.table import program_named
from raybench.performance_model.request import forms
from raybench.performance_model.request.request import EstimateRequest, least_setup, most_setup
from raybench.performance_model.request.taken import what_is_taken, with_program
from raybench.performance_model.request.torchtitan import by_torchtitan
from raybench.performance_model.setup.kernels import Kernels
from raybench.services.estimating.estimate import estimate as estimate_of
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request


def asked(program: str, **options: object) -> EstimateRequest:
    return with_program(estimate_request(EstimateOptions(gpu="h100", program=program, **options)))  # type: ignore[arg-type]


def test_a_flag_that_is_open_is_on_in_the_most_and_off_in_the_least() -> None:
    """TRL prepared a 4-bit base as peft does up to December 2025, and does not since."""
    request = asked("trl", lora_rank=16, qlora=True, kernels="plain")
    assert request.setup.upcast
    assert not least_setup(request).upcast
    said = replace(request, taken=tuple(replace(fact, is_open=False) for fact in request.taken))
    assert least_setup(said).upcast
    assert estimate(request).least_peak < estimate(said).least_peak


def test_of_adapters_inputs_may_be_held_by_fsdp_whatever_the_kernels() -> None:
    """Reentrant checkpointing is what transformers had up to 4: fused kernels and a loss in chunks change nothing."""
    options = {"lora_rank": 16, "strategy": "fsdp", "world_size": 8, "activation_checkpointing": True}
    request = asked("transformers", kernels="fused", **options)
    assert (request.kernels_known, request.loss_known, request.setup.holds_inputs) == (True, True, True)
    assert not least_setup(request).holds_inputs
    assert not asked(
        "transformers", kernels="fused", **{**options, "activation_checkpointing": False}
    ).setup.holds_inputs


@pytest.mark.parametrize(("accumulation", "kept"), [(1, False), (2, True)])
def test_gradients_that_are_no_views_of_buckets_are_let_go(accumulation: int, kept: bool) -> None:
    """DDP of accelerate copies gradients to buckets: none are kept but while micro-batches add up."""
    options = {"strategy": "ddp", "world_size": 8, "accumulation": accumulation}
    request = asked("transformers", **options)
    assert not request.setup.bucket_view
    assert request.setup.gradients_kept == kept
    assert asked("transformers", **options, bucket_view=True).setup.gradients_kept


def test_ranks_without_a_replica_have_no_buckets() -> None:
    """accelerate wraps no model in DDP whose ranks all cut it: 7.2 GiB of Qwen3 30B over eight were counted."""
    cut = asked("transformers", strategy="ddp", world_size=8, tensor_parallel=8, parameter_dtype="bf16")
    twice = asked("transformers", strategy="ddp", world_size=16, tensor_parallel=8, parameter_dtype="bf16")
    assert not cut.setup.bucket_view
    assert estimate(cut).memory.buffers + estimate(twice).memory.gradients == estimate(twice).memory.buffers > 0


def test_a_loss_that_is_compiled_with_the_model_takes_what_no_other_does() -> None:
    compiled, said = asked("nanogpt"), asked("nanogpt", loss="plain")
    assert (compiled.setup.loss, compiled.loss_known) == ("compiled", True)
    assert estimate(compiled).memory.logits == pytest.approx(estimate(said).memory.logits / 2, rel=0.01)
    assert asked("nanogpt", compile=False).setup.loss == "plain"


@pytest.mark.parametrize("program", ["megatron-lm", "megatron-bridge", "unsloth"])
def test_kernels_that_are_said_to_be_plain_are_not_the_leanest_fused_ones(program: str) -> None:
    """SiLU and product that are computed again are of the fused kernel: with ``--kernels plain`` less was told."""
    strategy = {"strategy": "ddp", "world_size": 8}
    assert asked(program, **strategy).setup.keeps_least
    assert not asked(program, **strategy, kernels="plain").setup.keeps_least


@pytest.mark.parametrize(("program", "shards"), [(None, True), ("gpt-neox", True), ("megatron-lm", False)])
def test_only_deepspeed_may_shard_the_state_of_replicas_that_are_cut(program: str | None, shards: bool) -> None:
    """Megatron-LM's DDP has whole states: 85 GiB of a Llama 3 70B on 64 H100 were told as 47 to 85."""
    options = EstimateOptions(gpu="h100", model="llama-70b", world_size=64, tensor_parallel=4, pipeline_parallel=4)
    request = with_program(estimate_request(replace(options, program=program)))
    assert (least_setup(request).strategy == "zero1") is shards


@pytest.mark.parametrize("program", ["transformers", "trl", "axolotl"])
def test_dropout_of_adapters_is_their_users_choice(program: str) -> None:
    """TRL's own default and axolotl's examples have 0.05, peft 0.0: none was counted with."""
    request = asked(program, lora_rank=16, activation_checkpointing=False)
    assert request.setup.adapter_dropout
    assert not least_setup(request).adapter_dropout
    assert estimate(request).peak > estimate(replace(request, setup=replace(request.setup, adapter_dropout=False))).peak


def test_dropout_of_adapters_is_open_instructs_default() -> None:
    request = asked("open-instruct", lora_rank=16)
    assert request.setup.adapter_dropout
    assert least_setup(request).adapter_dropout


def test_dropout_of_adapters_is_open_where_nobody_says_it() -> None:
    """A 7B QLoRA that fits without it was told to fit in any case: many programs have one by default."""
    options = EstimateOptions(gpu="h100", model="llama-2-7b", lora_rank=16, qlora=True, sequence_length=4096)
    unsaid, on, off = (
        estimate(estimate_request(replace(options, lora_dropout=said, kernels="plain", loss="plain")))
        for said in (None, True, False)
    )
    assert (unsaid.peak, unsaid.least_peak) == (on.peak, off.least_peak)
    assert unsaid.peak > 1.05 * off.peak
    assert on.least_peak > off.least_peak
    assert ["--lora-dropout" in unsaid_of(one.request) for one in (unsaid, on, off)] == [True, False, False]
    whole = estimate_request(replace(options, lora_rank=0, qlora=False))
    assert "--lora-dropout" not in unsaid_of(whole)


@pytest.mark.parametrize(("program", "is_open"), [("torchtune", False), ("litgpt", False), ("trl", True)])
def test_what_is_said_of_dropout_of_adapters_wins_over_a_program(program: str, is_open: bool) -> None:
    assert asked(program, lora_rank=16).adapter_dropout_known is not is_open
    for said in (True, False):
        request = asked(program, lora_rank=16, lora_dropout=said)
        assert (request.setup.adapter_dropout, least_setup(request).adapter_dropout) == (said, said)


@pytest.mark.parametrize("program", ["megatron-lm", "megatron-deepspeed"])
def test_dropout_is_open_with_megatrons_kind_of_program(program: str) -> None:
    """They drop unless they are told 0, as scripts of Llama do: a GPT-2 that ran out of memory was told to fit."""
    options = {"model": "gpt2-xl", "batch_size": 16, "strategy": "ddp"}
    unsaid, on, off = (estimate(asked(program, **options, dropout=said)) for said in (None, True, False))
    assert (unsaid.peak, unsaid.least_peak) == (on.peak, off.least_peak)
    assert on.least_peak > off.peak > off.least_peak / 1.01
    assert ["--dropout" in unsaid_of(one.request) for one in (unsaid, on, off)] == [True, False, False]
    batches = [one.largest_batch for one in (unsaid, on, off)]
    assert [one.sure for one in batches if one] == [batches[1].sure] * 2 + [batches[2].sure]  # type: ignore[union-attr]
    assert unsaid.nearest is None or unsaid.nearest.run.fits(unsaid.request.sure_bytes)


def test_megatron_core_is_written_down_once() -> None:
    """Each of its facts is the same one in both programs, and what is taken of it where nobody names a program."""
    ours = [{fact.name: fact for fact in program_named(name).facts} for name in ("megatron-lm", "megatron-bridge")]
    shared = ("keeps_least", "compiled", "masked_attention", "fused_optimizer", "joined_projections")
    assert all(ours[0][name] is ours[1][name] for name in shared)
    request = estimate_request(EstimateOptions(gpu="h100", strategy="zero1", kernels="fused"))
    found = as_megatrons(request.setup)
    for name in ("keeps_least", "fused_optimizer", "loss"):
        assert getattr(found, name) == ours[0][name].value


@pytest.mark.parametrize("kernels", [None, "plain"])
def test_either_form_of_fsdp_may_be_meant_whatever_the_kernels(kernels: Kernels | None) -> None:
    """``--kernels plain`` said nothing of FSDP's form, and yet the first, whose streams take more, was ruled out."""
    options = EstimateOptions(gpu="h100", strategy="fsdp", kernels=kernels, loss="plain", batch_size=4)
    request = estimate_request(options)
    first, second = (replace(most_setup(request), on_streams=is_first) for is_first in (True, False))
    peaks = [
        estimate_memory(request.model, setup, request.layout, accumulation=request.accumulation).peak
        for setup in (first, second)
    ]
    assert peaks[0] > peaks[1]
    assert estimate(request).peak == max(peaks)
    assert not least_setup(request).on_streams
    by_torchtitan = with_program(estimate_request(replace(options, program="torchtitan")))
    assert (by_torchtitan.streams_known, by_torchtitan.setup.on_streams) == (True, False)


def test_zero3_of_a_model_that_users_make_may_keep_whole_weights() -> None:
    """As far as a program trains what it is given: those that load a model themselves tell DeepSpeed before."""
    names = ("transformers", "trl", "axolotl")
    said = {"strategy": "zero3", "kernels": "plain", "activation_checkpointing": False}
    user, library, alone = (estimate(asked(name, **said)).peak for name in names)
    assert min(user, library) > 1.1 * alone


@pytest.mark.parametrize(
    ("program", "label", "since"),
    [
        ("torchtune", "loss", "from April 2025 on"),
        ("torchtitan", "loss", "compiled from April 2025 on"),
        ("unsloth", "loss", "from August 2025 on"),
        ("olmo-core", "loss", "from March 2025 on"),
        ("verl", "gathered on streams", "from May 2025 on"),
    ],
)
def test_a_user_of_an_older_release_reads_since_when_a_fact_holds(program: str, label: str, since: str) -> None:
    """Of those that are younger than two years."""
    strategy = "ddp" if program == "unsloth" else "fsdp"
    method = {"lora_rank": 16} if program == "unsloth" else {}
    request = asked(program, strategy=strategy, compile=program in ("torchtitan", "olmo-core"), **method)
    assert since in what_is_taken(request)[label]


@pytest.mark.parametrize("compiled", [None, False])
def test_a_plan_without_a_program_has_torchtitans_ways_by_its_facts(compiled: bool | None) -> None:
    """They were written down a second time, without its fused optimizer."""
    options = EstimateOptions(gpu="h100", model="llama-3.1-8b", strategy="fsdp", tensor_parallel=2, compile=compiled)
    request = estimate_request(options)
    found = by_torchtitan(request, request.setup)
    named = with_program(estimate_request(replace(options, program="torchtitan")), planned=True)
    assert found is not None
    assert replace(found.setup, loss_open=named.setup.loss_open) == replace(named.setup, gradient_bytes=4)
    assert found.program is None
    assert found.setup.fused_optimizer


def test_attention_of_gpt_neox_is_flash_where_its_configuration_names_it() -> None:
    """Lambda's 13B on eight A100 by configs/20B.yml, which names none: 20.1 s, told 12.1 to 19.2 with flash alone."""
    either, flash, stored = (
        estimate(
            asked("gpt-neox", strategy="zero1", world_size=8, activation_checkpointing=False, no_flash_attention=said)
        ).step_seconds
        for said in (None, False, True)
    )
    assert either is not None
    assert flash is not None
    assert stored is not None
    assert stored[1] > 1.05 * flash[1]
    assert either == pytest.approx((flash[0], stored[1]), rel=0.01)


@pytest.mark.parametrize(
    ("program", "computed_again", "is_known"),
    [
        ("llama-factory", True, True),
        ("ms-swift", True, True),
        ("trl", False, False),  # by its release
        ("trl==0.22", True, True),
        ("trl==0.21", False, False),  # users choose
        ("transformers", False, False),
    ],
)
def test_what_computes_activations_again_unless_told_otherwise_does_so(
    program: str, computed_again: bool, is_known: bool
) -> None:
    options = EstimateOptions(model="llama-8b", gpu="h100", program=program, lora_rank=16, batch_size=2)
    unsaid = with_program(estimate_request(options))
    assert (unsaid.setup.checkpointing, unsaid.checkpointing_known) == (computed_again, is_known)
    for said in (True, False):
        asked = with_program(estimate_request(replace(options, activation_checkpointing=said)))
        assert (asked.setup.checkpointing, asked.checkpointing_known) == (said, True)


def test_what_a_program_does_anyway_is_no_change_that_makes_a_run_fit() -> None:
    options = EstimateOptions(
        model="llama-8b", gpu="RTX 4090", program="llama-factory", lora_rank=16, batch_size=16, sequence_length=4096
    )
    told = " ".join(estimate_of(options).report.memory.nearest_options)
    assert told
    assert "--activation-checkpointing" not in told


def test_torchtitans_loss_may_not_be_compiled_where_no_release_is_said() -> None:
    """Llama 3 8B of one sample of 8,192 tokens held 47.3 to 47.8 GiB in January 2025, of which 39.2 were told."""
    run = {"model": "meta-llama/Meta-Llama-3-8B", "world_size": 8, "strategy": "fsdp", "batch_size": 1,
           "sequence_length": 8192, "compile": True, "selective_checkpointing": True}  # fmt: skip
    unsaid, older, newer = (
        estimate(asked(program, **run)) for program in ("torchtitan", "torchtitan==0.0.2", "torchtitan==0.2")
    )
    assert (unsaid.peak, unsaid.likely_peak) == (older.peak, newer.likely_peak)
    assert older.memory.allocated + older.memory.fragmentation == pytest.approx(47.65 * 2**30, rel=0.02)
    assert newer.peak < 0.9 * older.peak


def test_a_run_that_fits_as_programs_are_since_a_release_is_open_where_none_is_said() -> None:
    """Llama 2 7B by TRL of 2023 on a T4, 1,024 tokens in 4 bits: out of memory, and told to fit as by today's TRL."""
    run = {"model": "meta-llama/Llama-2-7b-hf", "sequence_length": 1024, "lora_rank": 64, "qlora": True,
           "lora_targets": "q_proj,v_proj", "dtype": "fp16", "gpu": "t4", "memory": "16G"}  # fmt: skip
    unsaid = told(program="trl", **run)
    assert unsaid.memory.fits is None
    for said in ({"program": "trl==0.25"}, {"program": "trl", "activation_checkpointing": True}):
        known = told(**run, **said)
        assert known.memory.fits
    assert told(program="llama-factory", **run).memory.fits


def told(**options: object) -> EstimateReport:
    """The document of an estimate."""
    return estimate_of(EstimateOptions(**options)).report  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("release", "model", "least", "most"),
    [
        ("", "Qwen/Qwen3-30B-A3B", False, True),  # no release said: either
        ("==0.2.1", "Qwen/Qwen3-30B-A3B", False, False),  # its list had no all_to_all
        ("==0.2.1", "deepseek-ai/DeepSeek-V2-Lite", True, True),  # DeepSeek's had
        ("==0.1", "deepseek-ai/DeepSeek-V2-Lite", False, False),
        ("==0.3", "Qwen/Qwen3-30B-A3B", True, True),
    ],
)
def test_selective_checkpointing_keeps_what_experts_exchange_by_release(
    release: str, model: str, least: bool, most: bool
) -> None:
    """Of Qwen3 30B over eight H200 it is 144 GiB: three runs by 0.2.1 were told 2.6 times their memory."""
    options = {"model": model, "world_size": 8, "expert_parallel": 8, "strategy": "fsdp"}
    request = asked(f"torchtitan{release}", selective_checkpointing=True, **options)
    assert request.setup.saves_exchanged is most
    assert least_setup(request).saves_exchanged is least
    sizes = [
        estimate_memory(request.model, replace(request.setup, saves_exchanged=saved), request.layout).needed
        for saved in (True, False)
    ]
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("program", "packings"),
    [
        ("trl", ("nf4", "nf4-single", "nf4-single")),
        ("transformers", ("nf4", "nf4-single", "nf4-single")),
        (None, ("nf4", "nf4", "nf4-single")),
        ("litgpt", ("nf4-single",) * 3),
        ("llama-factory", ("nf4",) * 3),
    ],
)
def test_scales_of_a_4_bit_base_are_in_fp32_where_double_quantisation_is_a_choice(
    program: str | None, packings: tuple[str, ...]
) -> None:
    """By default in bitsandbytes; what says the type of the base says that they are not."""
    options = EstimateOptions(model="llama-8b", world_size=1, gpu="A10G", lora_rank=8, qlora=True, program=program)
    asked = with_program(estimate_request(options))
    heaviest = {setup.packing for setup, _ in forms._heaviest(asked)}
    assert (least_setup(asked).packing, asked.setup.packing, *heaviest) == packings
    said = with_program(estimate_request(replace(options, qlora=False, base_dtype="nf4")))
    assert {said.setup.packing, *(setup.packing for setup, _ in forms._heaviest(said))} == {"nf4"}
