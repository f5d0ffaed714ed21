"""Memory of cut and sharded models by hand, beside the formulas of their papers and of Megatron-LM."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.request.request import EstimateRequest
from tests.performance_model.parallel.cut_models import (
    LLAMA,
    MIXTURE,
    NETWORK,
    SETUP,
    SMALL,
    layout,
    memory,
)


def test_memory_of_zero_is_that_of_its_paper() -> None:
    """Rajbhandari et al. 2020, figure 1: 2 + 2 + 12 bytes a parameter, of which 12, 14 or all are divided."""
    size, where = SMALL.parameters, layout(64)
    for strategy, expected in (("zero1", 4 + 12 / 64), ("zero2", 2 + 14 / 64), ("fsdp", 16 / 64)):
        found = memory(SMALL, where, strategy=strategy, gradient_bytes=2)
        assert found.static / size == pytest.approx(expected, rel=1e-3), strategy


def test_memory_of_the_distributed_optimizer_is_megatrons() -> None:
    """Its documentation: 6 + 12 / d bytes a parameter with gradients of fp32."""
    where = layout(64, tensor=4, pipeline=2)
    part = part_of(LLAMA, where)
    assert memory(LLAMA, where, strategy="zero1").static / part.parameters == pytest.approx(6 + 12 / 8, rel=1e-2)


def test_sequence_parallelism_divides_what_tensor_parallelism_leaves_whole() -> None:
    """Korthikanti et al. 2022, table 2: s b h (10 + 24 / t) without, 34 / t with it, but for attention's own."""
    where = layout(8, tensor=8)
    wide = memory(LLAMA, where, sequence_parallel=False).activations
    spread = memory(LLAMA, where).activations
    alone = memory(LLAMA, layout(1), keeps_least=True).activations  # as Megatron-LM's kernels, which a cut is taken for
    assert spread == pytest.approx(alone / 8, rel=0.02)
    assert wide > 1.5 * spread


def test_what_is_offloaded_or_paged_leaves_the_gpu() -> None:
    where = layout(8)
    whole, state = memory(SMALL, where, strategy="fsdp"), SMALL.parameters * 8 / 8
    for changes in ({"offload": "optimizer"}, {"optimizer": "paged-adamw"}):
        assert whole.static - memory(SMALL, where, strategy="fsdp", **changes).static == pytest.approx(state, rel=1e-6)
    assert memory(SMALL, where, strategy="fsdp", offload="all").static == 0


@pytest.mark.parametrize(
    "changes", [{"strategy": "zero3"}, {"strategy": "zero2"}, {"strategy": "zero1", "gradient_bytes": 2}]
)
def test_an_optimizer_of_deepspeed_on_the_cpu_has_its_gradients_there(changes: dict[str, Any]) -> None:
    """Llama 2 7B over 8 A800 had 16.9 GiB with ZeRO-2 and 9.4 with ZeRO-3 (chenyaofo): told 1.11 and 1.14 of that."""
    assert memory(SMALL, layout(8), **changes).gradients > 0
    assert memory(SMALL, layout(8), **changes, offload="optimizer").gradients == 0
    assert memory(SMALL, layout(8), strategy="fsdp", offload="optimizer").gradients > 0


def test_selective_checkpointing_keeps_less_than_all_and_more_than_full() -> None:
    sizes = [
        memory(SMALL, layout(1), **changes).activations
        for changes in ({}, {"selective": True}, {"checkpointing": True})
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_replicas_of_a_cut_model_have_16_bits_and_fp32_weights_in_an_optimizer_that_is_whole() -> None:
    """Megatron-LM's 18 bytes; sharded over four replicas 6 and 12 / 4. A whole model keeps autocast's 16."""
    where, setup = layout(8, tensor=2), {"gradient_bytes": 4}
    held = part_of(SMALL, where).parameters
    assert memory(SMALL, where, strategy="ddp", **setup).static == pytest.approx(18 * held, rel=1e-6)
    assert memory(SMALL, where, strategy="zero1", **setup).static == pytest.approx(9 * held, rel=1e-6)
    assert memory(SMALL, layout(8), strategy="ddp").static == 16 * SMALL.parameters


def test_the_least_of_a_cut_model_shards_state_as_deepspeed_does_without_zero() -> None:
    request = EstimateRequest(
        model=SMALL, setup=SETUP, layout=layout(8, tensor=2), network=NETWORK, memory_bytes=60 * 2**30
    )
    told = estimate(request, alone=False)
    assert (told.least_memory.peak < 60 * 2**30 < told.memory.peak, told.fits) == (True, None)
    whole = estimate(replace(request, layout=layout(8)), alone=False)
    assert whole.least_memory.static == whole.memory.static


@pytest.mark.parametrize(
    ("model", "cuts", "changes", "is_theirs"),
    [
        (SMALL, {"tensor": 2}, {}, True),
        (SMALL, {}, {"strategy": "zero1", "gradient_bytes": 4}, True),
        (SMALL, {}, {"strategy": "zero1", "gradient_bytes": 2}, False),  # DeepSpeed's
        (SMALL, {}, {"strategy": "zero1", "gradient_bytes": 2, "gradient_buffers": True}, True),
        (SMALL, {"tensor": 2}, {"kernels": "plain"}, False),
        (SMALL, {"tensor": 2}, {"strategy": "fsdp"}, False),
        (SMALL, {"tensor": 2}, {"compiled": True}, False),
        (MIXTURE, {"expert": 8}, {"strategy": "zero1"}, False),
    ],
)
def test_fused_kernels_and_a_cut_model_are_megatrons(
    model: Transformer, cuts: dict[str, int], changes: dict[str, object], is_theirs: bool
) -> None:
    """Its communicators, fragmentation and kernels; the near misses are DeepSpeed's, FSDP's and others' programs."""
    told = memory(model, layout(8, **cuts), **changes)
    lean = memory(model, layout(8, **cuts), **changes, keeps_least=True)
    assert (told.context > 3 * 2**30) == (told.fragmentation == int(0.17 * told.dynamic)) == is_theirs
    if is_theirs:
        assert told == lean


def test_megatrons_loss_is_computed_in_place_where_nobody_says_another() -> None:
    where, said = layout(8, tensor=2), {"loss": "plain", "compute_bytes": 2}
    logits = 4095 * SMALL.vocabulary // 2
    assert memory(SMALL, where, **said, loss_open=True).logits == 8 * logits
    assert memory(SMALL, where, **said).logits == 12 * logits
