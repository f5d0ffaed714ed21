"""Memory of a rank: parts that can be counted by hand, and what must grow or shrink with each choice."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import FRAGMENTATION_SHARES, ZERO_BUCKET, estimate_memory, largest_batch
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.request.request import EstimateRequest, least_setup
from raybench.performance_model.setup.kernels import Loss
from raybench.performance_model.setup.training_setup import TrainingSetup

MODEL = preset_named("llama-8b")
EIGHT = Layout(world_size=8, ranks_per_node=8)
ALONE = Layout(world_size=1, ranks_per_node=8)
SETUP = TrainingSetup(batch_size=1, sequence_length=2048)


def test_adamw_in_fp32_holds_sixteen_bytes_a_parameter() -> None:
    memory = estimate_memory(MODEL, SETUP, ALONE)
    assert memory.static == 16 * MODEL.parameters
    assert memory.optimizer_state == 8 * MODEL.parameters


@pytest.mark.parametrize(
    ("optimizer", "state"), [("sgd", 0), ("momentum", 4), ("adam", 8), ("adamw", 8), ("adamw-8bit", 2 * (1 + 4 / 256))]
)
def test_optimizer_state(optimizer: str, state: float) -> None:
    memory = estimate_memory(MODEL, replace(SETUP, optimizer=optimizer), ALONE)
    assert memory.optimizer_state == pytest.approx(state * MODEL.parameters)


def test_sharding_divides_what_stays() -> None:
    whole = estimate_memory(MODEL, SETUP, EIGHT)
    sharded = estimate_memory(MODEL, replace(SETUP, strategy="fsdp"), EIGHT)
    assert sharded.static == pytest.approx(whole.static / 8, rel=1e-6)
    two = Layout(world_size=16, ranks_per_node=8)
    hybrid = estimate_memory(MODEL, replace(SETUP, strategy="fsdp-hybrid"), two)
    assert hybrid.static == sharded.static
    assert estimate_memory(MODEL, replace(SETUP, strategy="fsdp"), two).static == pytest.approx(
        sharded.static / 2, rel=1e-6
    )


def test_keeping_the_parameters_gathered_costs_their_size() -> None:
    full = estimate_memory(MODEL, replace(SETUP, strategy="fsdp"), EIGHT)
    kept = estimate_memory(MODEL, replace(SETUP, strategy="fsdp-grad-op"), EIGHT)
    assert kept.buffers - full.buffers == 2 * 30 * MODEL.parameters_per_layer


def test_checkpointing_and_flash_attention_spare_activations() -> None:
    plain = estimate_memory(MODEL, SETUP, EIGHT)
    kept = estimate_memory(MODEL, replace(SETUP, checkpointing=True), EIGHT)
    stored = estimate_memory(MODEL, replace(SETUP, flash_attention=False), EIGHT)
    assert kept.activations < plain.activations / 5
    probabilities = 32 * 2048 * (32 * 2048 * 2 - 4 * 32)  # layers x tokens x (heads x length x 2 bytes - sums)
    assert stored.activations - plain.activations == probabilities


def test_lora_trains_little_and_qlora_packs_the_base() -> None:
    lora = estimate_memory(MODEL, replace(SETUP, lora_rank=16), ALONE)
    packed = estimate_memory(MODEL, replace(SETUP, lora_rank=16, quantized=True), ALONE)
    assert lora.parameters == pytest.approx(2 * MODEL.parameters, rel=0.02)
    assert packed.parameters / 2**30 == pytest.approx(5.5, abs=0.4)  # a released Llama 3.1 8B in NF4 takes about 5.6
    assert packed.gradients == lora.gradients == 4 * MODEL.lora_parameters(16)


def test_buckets_are_a_second_copy_of_the_gradients_unless_they_are_views() -> None:
    copied = estimate_memory(MODEL, SETUP, EIGHT)
    viewed = estimate_memory(MODEL, replace(SETUP, bucket_view=True), EIGHT)
    assert copied.buffers - viewed.buffers == 4 * MODEL.parameters
    assert estimate_memory(MODEL, SETUP, ALONE).buffers == viewed.buffers


@pytest.mark.parametrize("memory", [40, 80, 141])
def test_the_largest_batch_fits_and_the_next_does_not(memory: int) -> None:
    setup = replace(SETUP, strategy="fsdp", checkpointing=True)
    best = largest_batch(MODEL, setup, EIGHT, memory * 2**30)
    assert best > 0
    assert estimate_memory(MODEL, replace(setup, batch_size=best), EIGHT).peak <= memory * 2**30
    assert estimate_memory(MODEL, replace(setup, batch_size=best + 1), EIGHT).peak > memory * 2**30


def test_no_batch_fits_where_not_even_the_parameters_do() -> None:
    assert largest_batch(MODEL, SETUP, EIGHT, 80 * 2**30) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"batch_size": 0}, {"sequence_length": 0}, {"strategy": "zero"}, {"optimizer": "lion"}, {"quantized": True}],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(SETUP, **wrong)


def test_what_is_gathered_on_other_streams_is_held_and_not_needed() -> None:
    """FSDP's first form and ZeRO-3: nvidia-smi shows more than is needed, up to what the device has."""
    sharded = estimate_memory(MODEL, replace(SETUP, strategy="fsdp"), EIGHT)
    limit = 10.0 * sharded.peak
    assert sharded.allocated < sharded.reserved_on_streams(limit) <= limit
    assert sharded.reserved_on_streams(sharded.peak) <= sharded.peak - sharded.context + sharded.allocated
    assert sharded.reserved_on_streams(0.0) == sharded.allocated
    alone = estimate_memory(MODEL, SETUP, ALONE)
    assert alone.reserved_on_streams(limit) == alone.allocated
    assert estimate_memory(MODEL, replace(SETUP, strategy="zero3"), EIGHT).waiting > 0


def test_a_peak_near_the_memory_is_neither_fit_nor_unfit_where_all_is_known() -> None:
    memory = estimate_memory(MODEL, SETUP, ALONE)
    asked = EstimateRequest(model=MODEL, setup=SETUP, layout=ALONE, network=None)
    limits = (0.96 * memory.needed, 0.98 * memory.needed, 1.04 * memory.peak, 1.06 * memory.peak)
    told = [estimate(replace(asked, memory_bytes=int(limit))).fits for limit in limits]
    assert told == [False, None, None, True]
    unknown = replace(asked, kernels_known=False)
    assert [estimate(replace(unknown, memory_bytes=int(limit))).fits for limit in limits[2:]] == [None, True]


def test_gradients_of_shards_take_as_much_whether_they_stay_or_not() -> None:
    """They are in the pool of the stream that sums them; DDP's are in the pool of all that comes and goes."""

    def held(**changed: Any) -> int:
        memory = estimate_memory(MODEL, replace(SETUP, checkpointing=True, **changed), EIGHT)
        return memory.allocated + memory.fragmentation

    sharded = {"strategy": "fsdp", "batch_size": 4}
    assert held(**sharded) == pytest.approx(held(**sharded, gradients_kept=False), rel=0.02)
    whole = {"strategy": "ddp", "batch_size": 32}
    assert held(**whole) > held(**whole, gradients_kept=False) + 3 * MODEL.parameters


@pytest.mark.parametrize(
    ("changed", "pools"),
    [
        ({"strategy": "fsdp"}, MODEL.outer_parameters + MODEL.parameters_per_layer),  # two buffers, copied out of
        ({"strategy": "fsdp", "on_streams": True}, MODEL.parameters_per_layer),  # in place, the next beside
        ({"strategy": "zero3"}, 10**9 + ZERO_BUCKET),
    ],
)
def test_pools_of_gathered_weights_do_not_grow_with_the_batch(changed: dict[str, Any], pools: int) -> None:
    small, large = (
        estimate_memory(MODEL, replace(SETUP, checkpointing=True, batch_size=size, **changed), EIGHT)
        for size in (8, 16)
    )
    share = (large.fragmentation - small.fragmentation) / (large.dynamic - small.dynamic)
    assert small.fragmentation - share * small.dynamic == pytest.approx(2 * pools, rel=0.01)


def test_a_rank_alone_has_no_pools() -> None:
    alone = estimate_memory(MODEL, replace(SETUP, strategy="fsdp"), ALONE)
    assert alone.fragmentation == int(FRAGMENTATION_SHARES["kept"] * alone.dynamic)
    again = estimate_memory(MODEL, replace(SETUP, checkpointing=True), ALONE)
    assert again.fragmentation == int(FRAGMENTATION_SHARES["computed again"] * again.dynamic)
    half = estimate_memory(MODEL, replace(SETUP, checkpointing=True, recomputed_share=0.5), ALONE)
    assert again.fragmentation / again.dynamic > half.fragmentation / half.dynamic > alone.fragmentation / alone.dynamic


@pytest.mark.parametrize(
    ("known", "loss", "least"), [(False, "plain", 0.0), (True, "plain", 4.0), (True, "transformers", 4.0)]
)
def test_what_takes_least_updates_with_one_fused_kernel_unless_all_is_known(
    known: bool, loss: Loss, least: float
) -> None:
    """Adam over lists of tensors has one element a parameter more; transformers may copy no logits, from 4.49 on."""
    asked = EstimateRequest(
        model=MODEL,
        setup=replace(SETUP, loss=loss),
        layout=ALONE,
        network=None,
        kernels_known=known,
        loss_known=True,
    )
    lean = estimate_memory(MODEL, least_setup(asked), ALONE)
    assert lean.optimizer_temporaries == least * MODEL.parameters
    assert lean.logits == 12 * 2047 * MODEL.vocabulary


@pytest.mark.parametrize(
    ("compiled", "loss_open", "more"), [(True, True, True), (True, False, False), (None, True, False)]
)
def test_the_most_of_a_compiled_model_has_a_loss_outside_of_it_where_nobody_says(
    compiled: bool | None, loss_open: bool, more: bool
) -> None:
    """Qwen3-0.6B of 16,384 tokens took 52.8 GiB so (prime-rl): told 25 with a loss that is compiled, and to fit."""
    setup = replace(SETUP, batch_size=8, compiled=compiled, loss_open=loss_open, checkpointing=True, strategy="fsdp")
    asked = EstimateRequest(model=MODEL, setup=setup, layout=EIGHT, network=None, memory_bytes=10**12)
    answer = estimate(asked)
    with_room = estimate(replace(asked, memory_bytes=int(answer.memory.peak * 1.06)), alone=False)
    assert (answer.peak > 1.1 * answer.memory.peak) is more
    assert with_room.fits is (None if more else True)
