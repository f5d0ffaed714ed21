"""What frameworks hold beside what raybench's own training does: DeepSpeed's ZeRO-3, 4-bit kernels, adapters."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import block_activation_bytes_per_token as kept
from raybench.performance_model.memory.activations import checkpoint_bytes_per_token, passing_bytes_per_token
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.config import model_of_config
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.parallel.part import local_setup
from raybench.performance_model.request.forms import most_peak
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest, least_setup
from raybench.performance_model.setup.adapters import PACKED_BYTES
from raybench.performance_model.setup.kernels import Kernels, Loss
from raybench.performance_model.setup.strategies import Strategy
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

MODEL = preset_named("llama-2-7b")
EIGHT, ALONE = Layout(world_size=8, ranks_per_node=8), Layout(world_size=1, ranks_per_node=8)
SETUP = TrainingSetup(batch_size=1, sequence_length=1024, strategy="zero3", checkpointing=True)
ADAPTERS = TrainingSetup(
    batch_size=1, sequence_length=1024, lora_rank=8, lora_targets=("q_proj", "v_proj"), parameter_bytes=2
)


def test_zero_3_keeps_sixteen_bits_of_weights_and_gradients_and_fp32_weights_in_the_optimizer() -> None:
    """DeepSpeed's stage3.py: fp16 shards 2, grad_partitions_flat_buffer 2, fp32 groups 4, moments 8."""
    memory = estimate_memory(MODEL, replace(SETUP, fused_optimizer=True), EIGHT)
    assert memory.parameters == memory.gradients == pytest.approx(2 * MODEL.parameters / 8, rel=1e-6)
    assert memory.optimizer_state == pytest.approx(12 * MODEL.parameters / 8, rel=1e-6)
    assert memory.optimizer_temporaries == pytest.approx(6 * MODEL.parameters / 8, rel=1e-6)
    assert memory.buffers == 2 * 10**9 + 2 * 500_000_000  # reduce_bucket_size as DeepSpeed has it
    of_trainer = estimate_memory(MODEL, replace(SETUP, loss="transformers"), EIGHT)
    assert of_trainer.buffers == pytest.approx(2 * 10**9 + 4 * MODEL.hidden**2, rel=1e-6)  # "auto"


def test_zero_3_updates_a_group_at_a_time_and_reduces_each_micro_batch() -> None:
    pair = Layout(world_size=2, ranks_per_node=2)
    for fused, each in ((True, 6), (False, 6 + 4)):  # PyTorch's Adam has its list of each group besides
        told = estimate_memory(MODEL, replace(SETUP, fused_optimizer=fused), pair)
        assert told.optimizer_temporaries == each * 10**9
    assert estimate_memory(MODEL, replace(SETUP, optimizer="sgd"), pair).optimizer_temporaries == 6 * 10**9
    assert estimate_memory(MODEL, replace(SETUP, whole_gradients=True), EIGHT) == estimate_memory(MODEL, SETUP, EIGHT)


def test_an_adam_of_pytorchs_has_its_list_beside_deepspeeds_copies_and_a_fused_one_has_none() -> None:
    two, layout = replace(SETUP, strategy="zero2", gradient_bytes=2), Layout(world_size=2, ranks_per_node=2)
    listed, fused = (estimate_memory(MODEL, replace(two, fused_optimizer=said), layout) for said in (False, True))
    assert listed.optimizer_temporaries - fused.optimizer_temporaries == pytest.approx(2 * MODEL.parameters, rel=1e-6)
    assert fused.optimizer_temporaries == pytest.approx(3 * MODEL.parameters, rel=1e-6)


def test_gradients_added_up_whole_are_in_the_type_that_is_reduced_with_none_of_shards_beside() -> None:
    fsdp = replace(SETUP, strategy="fsdp", parameter_bytes=2)
    whole, each = (estimate_memory(MODEL, replace(fsdp, whole_gradients=said), EIGHT) for said in (True, False))
    assert whole.buffers - each.buffers == pytest.approx(4 * MODEL.parameters, rel=1e-6)
    assert each.gradients_kept
    assert not whole.gradients_kept


def test_frozen_layers_keep_no_inputs_unless_an_old_bitsandbytes_computes_them() -> None:
    inner = MODEL.heads * MODEL.head_size
    every = kept(MODEL, replace(ADAPTERS, lora_targets=()))
    assert every - kept(MODEL, ADAPTERS) == 2 * (inner + MODEL.hidden + MODEL.feedforward)
    packed = replace(ADAPTERS, quantized=True)
    assert kept(MODEL, replace(packed, frozen_inputs="kept")) == every
    assert kept(MODEL, packed) == kept(MODEL, ADAPTERS)


def test_what_an_old_bitsandbytes_kept_was_out_of_reach_of_checkpointing_without_reentry() -> None:
    again = replace(ADAPTERS, quantized=True, checkpointing=True)
    held, dropped = (checkpoint_bytes_per_token(MODEL, replace(again, frozen_inputs=said)) for said in ("held", "kept"))
    assert held - dropped == 2 * (3 * MODEL.hidden + MODEL.feedforward)


def test_hooks_of_fsdp_hold_each_frozen_blocks_input_and_its_gradient() -> None:
    """As a run of FullyShardedDataParallel over frozen blocks and reentrant checkpointing showed: 20 of 13 + 8."""
    sharded = replace(ADAPTERS, strategy="fsdp", checkpointing=True, batch_size=8)
    held, plain = (estimate_memory(MODEL, replace(sharded, holds_inputs=said), EIGHT) for said in (True, False))
    inputs = sharded.tokens * sharded.residual_bytes * MODEL.hidden * (MODEL.layers - 1)
    first = "first block, backward"
    assert held.moments[first] - plain.moments[first] == 2 * inputs
    assert held.fullest_moment == first


def test_a_4_bit_block_is_gathered_as_it_is_packed() -> None:
    sharded = replace(ADAPTERS, strategy="fsdp", quantized=True)
    packed, whole = (estimate_memory(MODEL, replace(sharded, quantized=said), EIGHT) for said in (True, False))
    per_block = MODEL.linear_parameters_per_layer * (2 - PACKED_BYTES["nf4"])
    moment = "embedding, backward"
    assert whole.moments[moment] == packed.moments[moment]
    assert whole.moments["loss"] - packed.moments["loss"] == pytest.approx(per_block, rel=1e-6)


def test_dropout_before_an_adapter_keeps_a_mask_and_a_joined_projection_all_three() -> None:
    dropping = kept(MODEL, replace(ADAPTERS, adapter_dropout=True)) - kept(MODEL, ADAPTERS)
    assert dropping == (2 + 2) * MODEL.hidden  # two masks, and a second copy of what both targets read
    joined = replace(ADAPTERS, joined_projections=True)
    assert kept(MODEL, joined) - kept(MODEL, ADAPTERS) == 4 * MODEL.hidden
    grouped = preset_named("llama-8b")  # its keys and values are copied for each head
    assert kept(grouped, joined) == kept(grouped, ADAPTERS)


def test_latent_attention_has_no_joined_projection_and_targets_that_a_block_lacks_are_left_out() -> None:
    """An estimate of DeepSeek-V3 by LoRA and Megatron-Bridge, whose projections are joined elsewhere, was an error."""
    latent = model_of_config("deepseek-v3")
    dropping = replace(ADAPTERS, adapter_dropout=True, lora_targets=("q_a_proj", "kv_a_proj_with_mqa"))
    assert kept(latent, replace(dropping, joined_projections=True)) == kept(latent, dropping)
    dense, mixed = latent.kinds()
    shared = replace(dropping, lora_targets=("q_a_proj", "shared_expert.up_proj"))
    without = replace(shared, adapter_dropout=False)
    assert kept(dense, shared) - kept(dense, without) == 1 * dense.hidden
    assert kept(mixed, shared) - kept(mixed, without) > 1 * mixed.hidden


def test_a_norm_written_by_hand_keeps_fp32_and_where_it_is_trained_what_it_scales() -> None:
    own = replace(ADAPTERS, kernels="fused")
    assert kept(MODEL, ADAPTERS) - kept(MODEL, own) == 4 * MODEL.hidden
    trained = replace(ADAPTERS, lora_rank=0, lora_targets=())
    fused = replace(trained, kernels="fused")
    assert kept(MODEL, trained) - kept(MODEL, fused) == 8 * MODEL.hidden


def test_scales_of_a_4_bit_base_and_what_peft_casts_up() -> None:
    packed = replace(ADAPTERS, quantized=True)
    single, double = (estimate_memory(MODEL, replace(packed, packing=kind), ALONE) for kind in ("nf4-single", "nf4"))
    linears = MODEL.layers * MODEL.linear_parameters_per_layer
    assert single.parameters - double.parameters == pytest.approx((3 / 64 - 4 / (64 * 256)) * linears, rel=1e-6)
    gptq = replace(packed, packing="gptq")
    assert heaviest(packed, kernels_known=False, loss_known=True).upcast
    assert not heaviest(gptq, kernels_known=False, loss_known=True).upcast


@pytest.mark.parametrize(
    ("loss", "each"), [("narrow", 6), ("compiled", 6), ("plain", 12), ("transformers", 14), ("transformers-whole", 12)]
)
def test_a_loss_in_16_bits_has_three_logits_at_once(loss: Loss, each: int) -> None:
    """Counted on the meta device: logits, shifted copy, log-softmax; 6.2 bytes a logit, 8.2 with the logits held."""
    memory = estimate_memory(MODEL, replace(SETUP, strategy="ddp", loss=loss), ALONE)
    assert memory.logits == each * 1023 * MODEL.vocabulary


@pytest.mark.parametrize(
    ("compiled", "loss_known", "each"), [(True, False, 6), (False, False, 12), (None, False, 12), (True, True, 12)]
)
def test_a_loss_that_is_compiled_with_the_model_takes_16_bits(
    compiled: bool | None, loss_known: bool, each: int
) -> None:
    """torch.compile saves the logits alone of it; a loss that is said to be plain is not compiled."""
    asked = replace(SETUP, strategy="ddp", compiled=compiled)
    setup = heaviest(asked, kernels_known=True, loss_known=loss_known)
    assert estimate_memory(MODEL, setup, ALONE).logits == each * 1023 * MODEL.vocabulary


@pytest.mark.parametrize(("drops", "each"), [(False, 4 + 2), (True, 4 + 2 + 1)])
def test_a_softmax_in_fp32_is_kept_with_what_the_values_are_multiplied_by(drops: bool, each: int) -> None:
    """What was dropped of takes the place of the cast; the near miss, FlashAttention, keeps neither."""
    model, stored = replace(MODEL, drops=drops), replace(SETUP, flash_attention=False)
    wide, flash = replace(stored, wide_scores=True), replace(SETUP, wide_scores=True)
    assert kept(model, wide) - kept(model, flash) == model.heads * (1024 * each - 4)
    assert kept(model, wide) - kept(model, stored) == model.heads * 1024 * (2 if drops else 4)


@pytest.mark.parametrize(("strategy", "each"), [("zero1", 4), ("zero2", 2), ("ddp", 4)])
def test_gradients_are_in_the_type_of_the_programs_that_have_the_strategy(strategy: Strategy, each: int) -> None:
    """DeepSpeed's ZeRO-2 in 16 bits, Megatron-LM's distributed optimizer in fp32; what is said holds."""
    said = TrainingSetup(batch_size=1, sequence_length=8, strategy=strategy, gradient_bytes=4)
    assert TrainingSetup(batch_size=1, sequence_length=8, strategy=strategy).gradient_bytes == each
    assert said.gradient_bytes == replace(said, batch_size=2).gradient_bytes == 4


@pytest.mark.parametrize(
    ("changed", "more"),
    [({}, 4), ({"compiled": True}, 0), ({"strategy": "zero1"}, 0), ({"loss": "fused"}, 0)],
)
def test_dtensors_loss_over_tensor_ranks_is_computed_by_separate_operations(changed: dict[str, Any], more: int) -> None:
    """Uncompiled, its backward pass has four tensors of fp32 as large as the logits, and not three."""
    cut = replace(SETUP, **({"strategy": "fsdp", "batch_size": 64} | changed))
    two = Layout(world_size=8, ranks_per_node=8, tensor=2)
    fullest = estimate_memory(MODEL, cut, two)
    scores = 64 * 1023 * MODEL.vocabulary // 2
    each = {"fused": 4}.get(cut.loss, 12)
    assert fullest.logits == (each + more) * scores


@pytest.mark.parametrize(("kernels", "rank"), [("fused", 0), ("fused", 8), ("plain", 0)])
def test_ligers_chunks_are_as_large_as_the_hidden_states_and_have_their_gradients_at_once(
    kernels: Kernels, rank: int
) -> None:
    """Of 1024 tokens and 32,000 words of 4096: eight chunks of 128; torchtune's eighth of all in fp32 is the other."""
    setup = replace(ADAPTERS, loss="chunked", kernels=kernels, lora_rank=rank, lora_targets=())
    memory = estimate_memory(MODEL, setup, ALONE)
    table = 0 if rank else 2 * MODEL.vocabulary * MODEL.hidden
    of_liger = 2 * 128 * MODEL.vocabulary + 2 * 1024 * MODEL.hidden + 2 * table
    assert memory.logits == (of_liger if kernels == "fused" else 12 / 8 * 1023 * MODEL.vocabulary)


@pytest.mark.parametrize(
    ("strategy", "stays"), [("zero1", True), ("zero3", True), ("zero2", False), ("ddp", False), ("fsdp", False)]
)
def test_gradients_of_megatron_lm_and_of_zero_3_stay_in_their_buffers(strategy: Strategy, stays: bool) -> None:
    """Those of DeepSpeed's ZeRO-2 and of PyTorch's DDP are let go, unless they are said to be kept."""
    setup = replace(SETUP, strategy=strategy, gradients_kept=False)
    assert setup.keeps_gradients is stays
    assert replace(setup, gradients_kept=True).keeps_gradients


@pytest.mark.parametrize(("accumulation", "whole"), [(1, False), (2, True)])
def test_zero_1_of_deepspeed_holds_whole_gradients_only_while_they_accumulate(accumulation: int, whole: bool) -> None:
    """As a table of Qwen3-4B on 8 H200 has it (StevenSong/cluster-bench): ZeRO-1 and 2 take 17.67 GiB, both."""
    setup = replace(SETUP, strategy="zero1", gradient_bytes=2)
    memory = estimate_memory(MODEL, setup, EIGHT, accumulation=accumulation)
    assert memory.gradients == pytest.approx(2 * MODEL.parameters / (1 if whole else 8), rel=1e-6)
    of_megatron = estimate_memory(MODEL, replace(setup, gradient_bytes=4), EIGHT, accumulation=accumulation)
    assert of_megatron.gradients == 4 * MODEL.parameters


@pytest.mark.parametrize(("strategy", "made"), [("zero2", 2 * 2 * 500_000_000), ("zero3", 0)])
def test_buckets_of_zero_2_are_there_in_the_backward_pass_alone(strategy: Strategy, made: int) -> None:
    """stage_1_and_2.py makes them in ``backward``; those of stage3.py once; of the loss itself 2 bytes more."""
    setup = replace(SETUP, strategy=strategy, gradient_bytes=2)
    moments = estimate_memory(MODEL, setup, EIGHT).moments
    assert moments["loss, backward"] - moments["loss"] == made + 2 * 1023 * MODEL.vocabulary


@pytest.mark.parametrize(
    ("strategy", "said", "spread"),
    [("zero2", None, False), ("zero2", True, True), ("zero1", None, True), ("zero1", False, False)],
)
def test_programs_with_zero_2_spread_no_sequence_over_tensor_ranks_unless_told(
    strategy: Strategy, said: bool | None, spread: bool
) -> None:
    """PaddleNLP's Llama 2 7B on 8 A100 with two of them took 50.87 GiB: told 0.71 of it with the sequence spread."""
    setup = replace(SETUP, strategy=strategy, sequence_parallel=said)
    two = Layout(world_size=8, ranks_per_node=8, tensor=2)
    assert local_setup(setup, two).sequence_shards == (2 if spread else 1)


def test_a_loop_that_holds_the_models_outputs_has_the_caches_of_two_steps_at_the_loss() -> None:
    """transformers' ``use_cache`` under a checkpointing that is not its own: DLRover's FSDP, 29 GiB that came and went.

    Without checkpointing autograd keeps this step's keys and values anyway.
    """
    setup = TrainingSetup(batch_size=4, sequence_length=4096, strategy="fsdp", checkpointing=True, loss="transformers")
    cache = 4 * 4096 * 32 * 2 * 4096 * 2
    logits = 4 * 4096 * 32000 * 4
    for checkpointing, new in ((True, cache), (False, 0)):
        own = replace(setup, checkpointing=checkpointing)
        plain, holding = (
            estimate_memory(MODEL, replace(own, keeps_outputs=said), EIGHT).moments for said in (False, True)
        )
        more = {name: holding[name] - plain[name] for name in plain}
        assert more.pop("loss") == new + cache + logits
        assert more.pop("update") == cache + logits
        assert set(more.values()) == {new}


def test_linear_layers_of_a_model_made_without_zero_init_keep_its_weights_until_the_backward_pass() -> None:
    """All but the embedding, of what is gathered otherwise 10^9 elements; where blocks are computed again nothing."""
    own = replace(SETUP, checkpointing=False, sequence_length=2048)
    plain, held = (
        estimate_memory(MODEL, replace(own, graph_holds_weights=said), EIGHT).moments for said in (False, True)
    )
    whole = 2 * (MODEL.parameters - MODEL.token_table_parameters - MODEL.norm_parameters)
    assert held["loss"] - plain["loss"] == whole - 2 * 10**9
    assert held["first block, backward"] == plain["first block, backward"]
    again = replace(SETUP, graph_holds_weights=True)
    assert estimate_memory(MODEL, again, EIGHT) == estimate_memory(MODEL, SETUP, EIGHT)


def test_zero_3_fits_where_it_does_without_zero_init_too() -> None:
    gpu = gpu_for("a100 80gb")
    setup = TrainingSetup(batch_size=2, sequence_length=2048, strategy="zero3", loss="transformers")
    request = EstimateRequest(
        model=MODEL, setup=setup, layout=EIGHT, network=None, gpu=gpu, memory_bytes=gpu.memory_bytes
    )
    peak = estimate_memory(MODEL, setup, EIGHT).peak
    assert most_peak(request, peak) > peak + 10 * 2**30
    again = replace(request, setup=replace(setup, checkpointing=True))
    bucket = estimate_memory(MODEL, replace(again.setup, default_bucket=True), EIGHT).peak
    assert most_peak(again, estimate_memory(MODEL, again.setup, EIGHT).peak) == bucket


def test_weights_that_are_gathered_in_8_bits_take_half_but_for_norms_and_what_is_outside() -> None:
    setup = TrainingSetup(batch_size=1, sequence_length=1024, strategy="fsdp-grad-op", parameter_bytes=2)
    wide, narrow = (
        estimate_memory(MODEL, replace(setup, gathers_8bit=said), EIGHT).moments["loss"] for said in (False, True)
    )
    assert wide - narrow == MODEL.linear_parameters * 33 / 32  # a block is in use, and the next there


def test_megatrons_projections_are_joined_whether_it_is_named_or_not() -> None:
    """A cut model with fused kernels is counted as Megatron-LM's, whose q, k and v are views of one tensor."""
    cut = Layout(world_size=8, ranks_per_node=8, tensor=2)
    setup = TrainingSetup(
        batch_size=1, sequence_length=1024, strategy="zero1", gradient_bytes=4, kernels="fused", flash_attention=False
    )
    told = estimate_memory(MODEL, setup, cut)
    assert told == estimate_memory(MODEL, replace(setup, joined_projections=True), cut)
    own = replace(setup, kernels="plain", compiled=False)
    assert estimate_memory(MODEL, own, cut) != estimate_memory(MODEL, replace(own, joined_projections=True), cut)


def test_zero_3_with_an_adam_that_nobody_says_may_have_its_list_or_not() -> None:
    asked = estimate_request(EstimateOptions(model="llama-13b", world_size=2, gpu="H100", strategy="zero3"))
    assert least_setup(asked).fused_optimizer
    assert not asked.setup.fused_optimizer
    known = replace(asked, kernels_known=True, loss_known=True)
    assert least_setup(known).fused_optimizer
    assert not least_setup(replace(known, setup=replace(known.setup, strategy="fsdp"))).fused_optimizer


def test_fp32_weights_stay_where_megatron_s_moments_are_on_the_cpu() -> None:
    """Qwen3 30B by Megatron-Bridge held 43.96 GiB on a rank of 16, and 29.8 with its optimizer on the CPU.

    That is 8 of the 12 bytes of its share: the moments. DeepSpeed has all of them there, and its gradients.
    """
    where = Layout(world_size=4, ranks_per_node=4)
    setup = TrainingSetup(batch_size=1, sequence_length=128, strategy="zero1", kernels="fused", gradient_buffers=True)
    here, away = (estimate_memory(MODEL, replace(setup, offload=where_), where) for where_ in ("none", "optimizer"))
    assert away.optimizer_state == pytest.approx(here.optimizer_state / 3, rel=1e-6)
    remainders = replace(setup, offload="optimizer", stores_remainders=True)
    assert estimate_memory(MODEL, remainders, where).optimizer_state == 0
    of_deepspeed = replace(setup, offload="optimizer", gradient_buffers=False, gradient_bytes=2)
    assert estimate_memory(MODEL, of_deepspeed, where).optimizer_state == 0


def test_liger_s_swiglu_writes_gradients_over_what_it_kept() -> None:
    """Llama 8B of 300,000 tokens on one H200 by ArcticTraining, whose kernels are Liger's, was told 1.28 times."""
    setup = TrainingSetup(batch_size=1, sequence_length=4096, kernels="fused", loss="chunked", checkpointing=True)
    liger = heaviest(setup, kernels_known=True, loss_known=True)
    assert liger.keeps_least
    assert not heaviest(replace(setup, compiled=True), kernels_known=True, loss_known=True).keeps_least
    assert not heaviest(replace(setup, lora_rank=16), kernels_known=True, loss_known=True).keeps_least
    megatron = replace(liger, loss="fused")
    assert passing_bytes_per_token(MODEL, megatron) - passing_bytes_per_token(MODEL, liger) == 2 * MODEL.feedforward
