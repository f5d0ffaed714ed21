"""What may take more memory although nobody says so is part of the most: what fits, fits with it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.unknown import unsaid_of
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.memory.rank import ZERO_BUCKET, estimate_memory
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import with_program
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

KEYS_OF_THEIR_OWN, SHARED_KEYS = "llama-2-7b", "mistral-7b"
LORA: dict[str, Any] = {"lora_rank": 16, "batch_size": 4, "sequence_length": 1024, "world_size": 1}
QLORA: dict[str, Any] = {**LORA, "qlora": True, "activation_checkpointing": True}


def asked(model: str, gpu: str, **options: Any) -> EstimateRequest:
    return with_program(estimate_request(EstimateOptions(model=model, gpu=gpu, **options)))


def told(model: str, gpu: str, **options: Any) -> Estimate:
    return estimate(asked(model, gpu, **options), alone=False)


@pytest.mark.parametrize(("gpu", "is_open"), [("v100", True), ("T4", True), ("rtx-8000", True), ("a100", False)])
def test_scores_may_be_stored_on_gpus_that_have_no_flash_kernel(gpu: str, is_open: bool) -> None:
    """RTX 8000: LoRA of Qwen2.5 7B with ten samples of 256 ran out of memory, and was told to fit without them."""
    found, stored = told(SHARED_KEYS, gpu, **LORA), told(SHARED_KEYS, gpu, **LORA, no_flash_attention=True)
    assert (found.peak > found.memory.peak + 2**30) is is_open
    assert (found.peak >= stored.peak) is is_open
    assert ("--flash-attention" in unsaid_of(found.request)) is is_open
    said = told(SHARED_KEYS, gpu, **LORA, no_flash_attention=False)
    assert said.peak == said.memory.peak
    assert "--flash-attention" not in unsaid_of(said.request)
    assert found.least_memory.peak == said.least_memory.peak


@pytest.mark.parametrize(
    ("program", "model", "is_open"),
    [
        ("transformers", KEYS_OF_THEIR_OWN, True),  # of any release: such GPUs are left by newer ones of PyTorch
        ("transformers==4.57", KEYS_OF_THEIR_OWN, False),
        ("transformers==4.57", SHARED_KEYS, True),
        ("unsloth", SHARED_KEYS, False),
        ("torchtune", SHARED_KEYS, True),
    ],
)
def test_a_release_or_a_kernel_of_its_own_says_whether_scores_are_stored(
    program: str, model: str, is_open: bool
) -> None:
    assert asked(model, "v100", **LORA, program=program).may_store_scores is is_open
    assert not asked(model, "a100", **LORA, program=program).may_store_scores


def test_pytorch_s_math_kernel_keeps_scores_and_what_they_are_made_of_in_fp32() -> None:
    """For each key that heads share as well: what PyTorch saves for the backward pass, byte by byte."""
    heads, shared, length, width = 8, 2, 64, 16
    sizes = [(1, count, length, width) for count in (heads, shared, shared)]
    query, key, value = (torch.randn(size, dtype=torch.float16, requires_grad=True) for size in sizes)
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.float32:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        torch.ops.aten._scaled_dot_product_attention_math(query, key, value, None, 0.0, True, None, enable_gqa=True)

    model = replace(asked(SHARED_KEYS, "v100").model, heads=heads, kv_heads=shared, hidden=heads * width)
    setup = TrainingSetup(batch_size=1, sequence_length=length, parameter_bytes=2, flash_attention=False)
    narrow, wide = (
        length * block_activation_bytes_per_token(model, replace(setup, math_attention=one)) for one in (False, True)
    )
    elements = 3 * heads * length * width
    assert sum(saved.values()) == 4 * (heads * length**2 + elements)
    assert wide - narrow == sum(saved.values()) - 2 * (heads * length**2 + elements)


def test_experts_over_a_4_bit_base_may_stay_in_16_bits() -> None:
    """From transformers 5 on they are no linear layers, which is all that bitsandbytes packs.

    peft's preparation casts them up with all that is in 16 bits: 127 GiB were read of a training that had 23 with
    packed ones (axolotl-ai-cloud/axolotl pull request 3439).
    """
    modeling = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    with torch.device("meta"):
        experts = modeling.MixtralExperts(modeling.MixtralConfig())
    assert not any(isinstance(module, torch.nn.Linear) for module in experts.modules())
    options = {"sequence_length": 2048, **QLORA}
    found = told("mixtral-8x7b", "h200", **options)
    weights = found.request.model.experts * found.request.model.each_expert * found.request.model.layers
    assert found.peak - found.memory.peak == pytest.approx(weights * (4 - 0.516), rel=0.02)
    older = told("mixtral-8x7b", "h200", **options, program="transformers==4.57")
    assert older.peak < found.peak / 2
    assert told("mixtral-8x7b", "h200", **options, program="transformers").peak > 2 * older.peak


def test_experts_that_never_were_linear_layers_are_not_packed() -> None:
    """DBRX by QLoRA with FSDP on eight A100 ran out of memory (hiyouga/LLaMA-Factory issue 3521): told to fit."""
    options = {"strategy": "fsdp", "world_size": 8, **QLORA, "batch_size": 1, "sequence_length": 16000}
    options["world_size"] = 8
    found = told("databricks/dbrx-instruct", "a100", **options, program="transformers==4.40")
    assert not found.request.setup.packs_experts
    assert found.memory.parameters > 0.9 * 2 * found.request.model.parameters / 8
    assert found.fits is not True


@pytest.mark.parametrize(("program", "is_cached"), [("axolotl", True), ("transformers", False)])
def test_experts_may_stay_unpacked_beside_4_bits(program: str, is_cached: bool) -> None:
    """OLMoE by Axolotl with quantize_moe_experts on an RTX 3090 held 16.96 GiB, and 4.67 GiB before it trained."""
    options = {"sequence_length": 2048, "lora_targets": "q_proj,k_proj,v_proj,o_proj", **QLORA}
    options |= {"lora_rank": 8, "batch_size": 1, "accumulation": 4, "activation_checkpointing": True}
    found = told("allenai/OLMoE-1B-7B-0924", "rtx 3090", **options, program=program)
    model, held = found.request.model, replace(found.request.setup, keeps_unpacked=True)
    memory = estimate_memory(model, held, found.request.layout, accumulation=4)
    assert memory.allocated / 2**30 == pytest.approx(16.96, rel=0.04)
    assert memory.parameters - found.memory.parameters == 2 * model.experts * model.each_expert * model.layers
    assert (found.peak == memory.peak) is is_cached
    once = told(
        "allenai/OLMoE-1B-7B-0924", "rtx 3090", **{**options, "activation_checkpointing": False}, program=program
    )
    assert not once.request.may_keep_unpacked


@pytest.mark.parametrize(
    ("model", "length", "batch", "gib"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 1024, 1, 3.116),
        ("Qwen/Qwen2.5-1.5B-Instruct", 4096, 1, 11.507),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1024, 2, 6.531),
        ("Qwen/Qwen2.5-7B-Instruct", 1024, 1, 10.002),
    ],
)
def test_a_prepared_4_bit_base_without_autocast_is_computed_in_fp32(
    model: str, length: int, batch: int, gib: float
) -> None:
    """DaoyuanLi2816/can-i-finetune-this: told 0.74 to 0.83 of what an RTX 4080 held; that is the most now."""
    options = {**QLORA, "lora_rank": 16, "lora_targets": "q_proj,k_proj,v_proj,o_proj", "batch_size": batch}
    options |= {"sequence_length": length, "activation_checkpointing": True, "lora_dropout": False}
    options |= {"optimizer": "paged-adamw-8bit", "program": "transformers==5.8.1"}
    bf16 = told(model, "rtx 4080", **options, autocast=False)
    fp32 = told(model, "rtx 4080", **options, autocast=False, dtype="fp32")
    setup, layout = replace(fp32.request.setup, packing="nf4"), fp32.request.layout  # double quantisation
    assert estimate_memory(fp32.request.model, setup, layout).allocated / 2**30 == pytest.approx(gib, rel=0.01)
    assert bf16.peak == fp32.memory.peak > bf16.memory.peak
    by_autocast = told(model, "rtx 4080", **options)
    assert (bf16.request.may_compute_wide, by_autocast.request.may_compute_wide) == (True, False)


@pytest.mark.parametrize(("program", "is_open"), [("transformers", True), (None, True), ("llama-factory", False)])
def test_zero_3_may_have_a_bucket_of_deepspeed_s_size(program: str | None, is_open: bool) -> None:
    """accelerate without a file of DeepSpeed's names none; LLaMA-Factory's files leave it to transformers."""
    request = asked(
        SHARED_KEYS, "a100", strategy="zero3", world_size=8, program=program, loss="transformers",
        activation_checkpointing=True,
    )  # fmt: skip
    found = estimate(request, alone=False)
    setup = replace(request.setup, default_bucket=True)
    whole = estimate_memory(request.model, setup, request.layout).peak
    assert found.peak == (whole if is_open else found.memory.peak)
    assert whole > found.memory.peak + ZERO_BUCKET


def test_buckets_of_deepspeed_0_3_were_larger() -> None:
    """GPT-2 of 4.7B ran out of memory on V100 by ZeRO-2 in October 2020 (deepspeedai/DeepSpeed issue 477)."""
    request = asked("gpt2-xl", "v100", strategy="zero2", world_size=8, dtype="fp16")
    setup = replace(request.setup, bucket_times=4.5)
    old, new = (estimate_memory(request.model, one, request.layout).buffers for one in (setup, request.setup))
    assert old - new == 3.5 * 2 * 2 * ZERO_BUCKET


@pytest.mark.parametrize(("release", "ranks", "fits"), [("4.29", 4, False), ("4.29", 8, True), ("4.30", 4, True)])
def test_a_model_that_each_gpu_gathers_to_be_saved_needs_room_beside_its_shards(
    release: str, ranks: int, fits: bool
) -> None:
    """LLaMA 7B was trained on GPUs of 40 GB, and could not be saved (tatsu-lab/stanford_alpaca issue 65)."""
    found = told(
        KEYS_OF_THEIR_OWN, "a100-40gb", program=f"transformers=={release}", strategy="fsdp", world_size=ranks,
        activation_checkpointing=True, sequence_length=2048, no_flash_attention=False,
    )  # fmt: skip
    assert (found.memory.fullest_moment == "saving") is (release == "4.29")
    if release == "4.29":
        whole = 4 * found.request.model.parameters
        assert found.memory.allocated == pytest.approx(whole * (1 + 3 / ranks), rel=0.01)
    assert found.fits is fits


@pytest.mark.parametrize(
    ("model", "is_packed"), [("gpt-oss-20b", False), ("llama-4-scout", False), ("mixtral-8x7b", True)]
)
def test_experts_of_one_parameter_are_not_packed_by_transformers_4(model: str, is_packed: bool) -> None:
    """GptOssExperts and Llama4TextExperts have been parameters of three dimensions since they are there."""
    found = told(model, "h200", **QLORA, program="transformers==4.57")
    assert found.request.setup.packs_experts is is_packed
    assert not found.request.experts_left_by
    unsaid = told(model, "h200", **QLORA)
    assert unsaid.request.experts_left_by == ("transformers from 5 on" if is_packed else "transformers")


@pytest.mark.parametrize(
    ("program", "model", "is_open"),
    [
        ("megatron-lm", "gpt-oss-20b", True),
        ("nemo", "gpt-oss-20b", True),
        ("transformers", "gpt-oss-20b", True),
        ("torchtitan", "gpt-oss-20b", False),  # FlexAttention
        (None, "gpt-oss-20b", True),
        (None, "qwen3-30b-a3b", False),
        ("megatron-lm", "qwen3-30b-a3b", False),
    ],
)
def test_scores_with_sinks_may_be_stored(program: str | None, model: str, is_open: bool) -> None:
    """gpt-oss 20B by NeMo on eight B200, 16,384 tokens: out of memory, and told to fit. What is likely stays flash."""
    options = {"world_size": 8, "strategy": "zero1" if program in ("megatron-lm", "nemo") else "fsdp"}
    long: dict[str, Any] = {**options, "sequence_length": 16384, "program": program}
    found, said = told(model, "b200", **long), told(model, "b200", **long, no_flash_attention=False)
    assert (found.peak > 2 * found.memory.peak) is is_open
    assert ("--flash-attention" in unsaid_of(found.request)) is is_open
    assert (found.memory.peak, found.least_peak) == (said.memory.peak, said.least_peak)
    assert found.step_seconds == said.step_seconds
    assert "--flash-attention" not in unsaid_of(said.request)


def test_scores_with_sinks_are_open_without_a_program_as_with_one_but_not_in_a_plan() -> None:
    """LoRA of gpt-oss 20B on one H100 was told to fit, and by TRL to be open."""
    options = {"sequence_length": 4096, "lora_rank": 16, "lora_dropout": False, "kernels": "fused", "loss": "fused"}
    alone, trls = (told("gpt-oss-20b", "h100", **options, world_size=1, program=one) for one in (None, "trl"))
    assert alone.fits is trls.fits is None
    assert alone.peak == pytest.approx(trls.peak, rel=0.05)
    way = estimate(replace(alone.request, is_started=True), alone=False)
    assert way.fits is True
    assert "--flash-attention" not in unsaid_of(way.request)
    assert told("gpt-oss-20b", "h100", **options, world_size=1, no_flash_attention=False).fits is True


@pytest.mark.parametrize(("batch_size", "fits"), [(2, True), (4, None)])
def test_tensor_ranks_of_nemo_rl_each_have_all_tokens(batch_size: int, fits: bool | None) -> None:
    """Llama 3.1 8B on eight H100, TP 4, padded to 4,096: two samples ran, four were out of memory (its issue 366)."""
    options: dict[str, Any] = {"world_size": 8, "tensor_parallel": 4, "sequence_length": 4096}
    found = told("meta-llama/Llama-3.1-8B", "h100", **options, batch_size=batch_size, program="nemo-rl")
    assert found.fits is fits
    spread = told("meta-llama/Llama-3.1-8B", "h100", **options, batch_size=batch_size, program="nemo-rl",
                  sequence_parallel=True)  # fmt: skip
    assert spread.fits is True
