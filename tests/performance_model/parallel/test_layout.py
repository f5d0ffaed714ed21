"""Layouts by hand: parts of a model and of a sequence, groups of ranks, what is sent, what is refused."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import local_setup, part_of
from raybench.performance_model.programs.table import program_named
from raybench.performance_model.request.cuts import cut_layouts
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.strategies import strategy_named
from raybench.performance_model.step.attention import may_be_masked
from raybench.performance_model.step.efficiency import Efficiency
from raybench.performance_model.step.traffic import training_traffic
from raybench.performance_model.step.work import work_of
from tests.performance_model.parallel.cut_models import (
    LLAMA,
    MIXTURE,
    NETWORK,
    SETUP,
    SMALL,
    TEN_GROUPS,
    layout,
    sent_by,
)


@pytest.mark.parametrize("cuts", [{}, {"tensor": 8}, {"pipeline": 4}, {"tensor": 4, "pipeline": 2}, {"context": 8}])
def test_all_parts_together_are_the_model(cuts: dict[str, int]) -> None:
    where = layout(8, **cuts)
    parts = [part_of(LLAMA, where, stage=stage).parameters for stage in range(where.pipeline)]
    norms = (where.tensor - 1) * (2 * LLAMA.layers + 1) * LLAMA.hidden  # whole on each rank
    assert sum(parts) * where.tensor == LLAMA.parameters + norms


@pytest.mark.parametrize("context", [1, 2, 8])
def test_a_token_of_a_cut_sequence_attends_to_all_of_it(context: int) -> None:
    """As much attention for each token as of the whole sequence, and no more of it on a rank than its share."""
    part = part_of(SMALL, layout(8, context=context))
    assert part.attention_flops_per_token(8192 // context) == SMALL.attention_flops_per_token(8192)
    cut = local_setup(replace(SETUP, sequence_length=8192), layout(8, context=context))
    works = [
        work_of(gpu_for("h100"), *each).attention
        for each in ((part, cut), (SMALL, replace(SETUP, sequence_length=8192)))
    ]
    assert works[0] == pytest.approx(works[1] / context)


def test_parts_of_a_sequence_are_dealt_out_evenly_by_some_and_else_the_last_may_have_more() -> None:
    """Fused kernels and a cut sequence are Megatron-LM's or NeMo's; by TRL Qwen3 on a million tokens was so."""
    widths = {}
    for kernels, program in (("fused", None), ("plain", None), ("plain", "trl"), ("plain", "torchtitan")):
        setup = replace(SETUP, sequence_length=32768, kernels=kernels, compiled=True, native_attention=True)
        ask = EstimateRequest(
            model=SMALL,
            setup=setup,
            layout=layout(8, context=4),
            network=NETWORK,
            gpu=gpu_for("h100"),
            accumulation=64,
            program=program_named(program) if program else None,
        )
        found = estimate(replace(ask, efficiency=Efficiency(low=0.4, high=0.4, source="")), alone=False)
        assert found.step.fastest is not None
        assert found.step.slowest is not None
        widths[kernels, program] = found.step.slowest.compute / found.step.fastest.compute
    assert widths["fused", None] == widths["plain", "trl"] == pytest.approx(1)
    assert widths["plain", None] == widths["plain", "torchtitan"] > 1.1


def test_ranks_of_a_cut_sequence_give_attention_no_mask_of_padded_samples() -> None:
    setup = replace(SETUP, batch_size=2, kernels="plain", loss="transformers", masked_attention=None, compiled=False)
    assert [may_be_masked(local_setup(setup, layout(8, context=context))) for context in (1, 4)] == [True, False]


def test_tensor_parallelism_sends_four_times_the_stream_a_layer() -> None:
    where = layout(8, tensor=8)
    stream = 4096 * 8192 * 2
    plain = training_traffic(LLAMA, replace(SETUP, sequence_parallel=False), where)
    assert sent_by(plain, where.tensor_group) == {"all_reduce": 4 * 80 * stream}
    spread = training_traffic(LLAMA, SETUP, where)
    assert spread.wire_bytes == pytest.approx(plain.wire_bytes)
    again = training_traffic(LLAMA, replace(SETUP, checkpointing=True), where)
    assert again.wire_bytes == pytest.approx(1.5 * spread.wire_bytes)


@pytest.mark.parametrize(("ranks", "nodes"), [(24, 2), (16, 1), (32, 1)])
def test_replicas_that_a_node_does_not_hold_whole_lie_on_two(ranks: int, nodes: int) -> None:
    """Of 24 ranks in four stages the second six are on the first and the second node."""
    assert layout(ranks, pipeline=4).sharing.nodes == nodes


def test_layouts_to_try_divide_what_they_cut() -> None:
    """Heads of keys and values, the MLP's width, and the sequence, of which each context rank has two parts."""

    def tried(model: Transformer, length: int) -> set[tuple[int, int]]:
        return {(one.tensor, one.context) for one in cut_layouts(model, layout(8), length)}

    assert {tensor for tensor, _ in tried(TEN_GROUPS, 4096)} == {1, 2}
    assert {tensor for tensor, _ in tried(SMALL, 4096)} == {1, 2, 4, 8}
    assert {tensor for tensor, _ in tried(replace(SMALL, feedforward=14_340), 4096)} == {1, 2, 4}
    assert {tensor for tensor, _ in tried(SMALL, 4095)} == {1}
    assert {context for _, context in tried(SMALL, 131_070)} == {1}
    assert {context for _, context in tried(SMALL, 131_072)} == {1, 2, 4, 8}


def test_gradients_of_a_cut_model_are_reduced_among_those_that_hold_the_same() -> None:
    where = layout(64, tensor=4, pipeline=2)
    assert where.data == 8
    assert (where.sharing.ranks, where.sharing.nodes, where.sharing.beside) == (8, 4, 4)
    assert NETWORK.bandwidth_gb_per_s(where.sharing) == 368 / 4
    assert NETWORK.bandwidth_gb_per_s(where.tensor_group) == 360


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("FULL_SHARD", "fsdp"),
        ("fsdp2", "fsdp"),
        ("ZeRO-3", "zero3"),
        ("ZeRO-1", "zero1"),
        ("distributed-optimizer", "zero1"),
        ("hsdp", "fsdp-hybrid"),
        ("deepspeed_zero3", "zero3"),
        ("deepspeed_stage_2", "zero2"),
        ("ds_z3", "zero3"),
        ("stage1", "zero1"),
    ],
)
def test_strategies_have_the_names_of_other_frameworks(name: str, strategy: str) -> None:
    assert strategy_named(name) == strategy


@pytest.mark.parametrize(
    ("model", "cuts", "said"),
    [
        (LLAMA, {"tensor": 3}, "cannot be divided by --tensor-parallel 3"),
        (preset_named("gpt2"), {"tensor": 8}, "12 attention heads"),
        (SMALL, {"pipeline": 64}, "longer than the 32 layers"),
        (SMALL, {"pipeline": 8, "virtual_stages": 8}, "longer than the 32 layers"),
        (SMALL, {"expert": 8}, "has no experts"),
        (MIXTURE, {"expert": 16}, "has 8 experts"),
        (TEN_GROUPS, {"tensor": 4}, "10 heads of keys and values"),
        (MIXTURE, {"expert": 3}, "must divide the 64 ranks"),
        (SMALL, {"virtual_stages": 2}, "give --pipeline-parallel"),
        (SMALL, {"context": 0}, "must be at least 1"),
    ],
)
def test_what_cannot_be_cut_so_is_refused(model: Transformer, cuts: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        estimate_memory(model, SETUP, layout(64, **cuts))


def test_parameters_cannot_leave_a_replica() -> None:
    with pytest.raises(UsageError, match="strategy fsdp"):
        replace(SETUP, offload="all")
    with pytest.raises(UsageError, match="selective or full"):
        replace(SETUP, selective=True, checkpointing=True)
    with pytest.raises(UsageError, match="no strategy"):
        strategy_named("zero4")
    with pytest.raises(UsageError, match="no strategy"):
        strategy_named("ds_z3_offload")  # which --cpu-offload says
