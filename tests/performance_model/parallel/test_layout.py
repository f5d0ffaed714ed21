"""Cut models by hand: who holds what, what is sent, what a pipeline idles, and which layouts are refused."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.activations import feedforward_bytes_per_token
from raybench.performance_model.communication import Traffic
from raybench.performance_model.efficiency import Efficiency
from raybench.performance_model.estimate import estimate
from raybench.performance_model.layout import Group, Layout, Network
from raybench.performance_model.memory import MemoryEstimate, estimate_memory
from raybench.performance_model.parallel.choice import cut_layouts
from raybench.performance_model.parallel.part import batches_in_flight, bubble_share, layers_of, local_setup, part_of
from raybench.performance_model.presets import preset_named
from raybench.performance_model.programs.table import program_named
from raybench.performance_model.step.attention import may_be_masked
from raybench.performance_model.step.forms import layouts_meant
from raybench.performance_model.step.request import EstimateRequest
from raybench.performance_model.step.traffic import training_traffic
from raybench.performance_model.training_setup import TrainingSetup, strategy_named
from raybench.performance_model.transformer import Transformer
from raybench.performance_model.work import work_of

LLAMA, SMALL = preset_named("llama-70b"), preset_named("llama-8b")
MIXTURE = replace(preset_named("mistral-7b"), name="mixture", experts=8, experts_per_token=2)
TEN_GROUPS = replace(SMALL, heads=40, kv_heads=10, hidden=5120)  # as Phi-4
SETUP = TrainingSetup(batch_size=1, sequence_length=4096, kernels="fused", loss="fused")
NETWORK = Network(node_gb_per_s=360, fabric_gb_per_s=368)


def layout(world_size: int, **cuts: int) -> Layout:
    return Layout(world_size=world_size, ranks_per_node=8, **cuts)


def memory(model: Transformer, where: Layout, **changes: object) -> MemoryEstimate:
    return estimate_memory(model, replace(SETUP, **changes), where)  # type: ignore[arg-type]  # as given


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
        assert found.fastest is not None
        assert found.slowest is not None
        widths[kernels, program] = found.slowest.compute / found.fastest.compute
    assert widths["fused", None] == widths["plain", "trl"] == pytest.approx(1)
    assert widths["plain", None] == widths["plain", "torchtitan"] > 1.1


def test_ranks_of_a_cut_sequence_give_attention_no_mask_of_padded_samples() -> None:
    setup = replace(SETUP, batch_size=2, kernels="plain", loss="transformers", masked_attention=None, compiled=False)
    assert [may_be_masked(local_setup(setup, layout(8, context=context))) for context in (1, 4)] == [True, False]


def test_experts_that_are_spread_are_each_held_once() -> None:
    where = layout(16, expert=8)
    held = part_of(MIXTURE, where).parameters
    experts = 3 * 4096 * 14336 * 32
    assert held == MIXTURE.parameters - 7 * experts
    full = memory(MIXTURE, where, strategy="fsdp").parameters
    assert full == pytest.approx(MIXTURE.parameters * 4 / 16, rel=1e-6)  # however experts are spread


def test_experts_over_tensor_ranks_too_are_whole_and_each_held_once() -> None:
    """8 experts over 4 x 2 ranks: one each, for half of the tokens."""
    where, cut = layout(8, tensor=2, expert=8), layout(8, tensor=2, expert=4)
    each = 3 * 4096 * 14336 * 32
    assert (where.expert_tensor, cut.expert_tensor) == (1, 2)
    assert (where.sharing_experts.ranks, cut.sharing_experts.ranks) == (1, 1)
    assert part_of(MIXTURE, where).expert_parameters == part_of(MIXTURE, cut).expert_parameters == each
    assert part_of(MIXTURE, where).computing_parameters == part_of(MIXTURE, cut).computing_parameters
    sent = [of(training_traffic(MIXTURE, SETUP, one), one.expert_group)["all_to_all"] for one in (where, cut)]
    assert sent[0] == sent[1]
    full = memory(MIXTURE, where, strategy="fsdp").parameters
    assert full == pytest.approx(memory(MIXTURE, cut, strategy="fsdp").parameters, rel=1e-6)


def test_the_least_has_experts_of_tensor_ranks_cut_or_whole_whichever_is_less_unless_it_is_said() -> None:
    """Of 128 small experts, whole ones: a rank has the inputs of 2 of a token's 8, and four times the weights."""
    many = replace(MIXTURE, experts=128, experts_per_token=8, feedforward=1536)
    cut, whole = (layout(32, tensor=4, expert=8, expert_cut=ranks) for ranks in (4, 1))
    unsaid = replace(cut, expert_cut=None)
    assert (cut.expert_tensor, whole.expert_tensor, unsaid.expert_tensor) == (4, 1, 4)
    assert memory(many, cut).activations > 2 * memory(many, whole).activations
    assert 4 * part_of(many, cut).expert_parameters == part_of(many, whole).expert_parameters
    for strategy, least in (("fsdp", whole), ("zero1", cut)):
        setup = replace(SETUP, strategy=strategy_named(strategy))
        ask = EstimateRequest(model=many, setup=setup, layout=unsaid, network=None)
        told = {one.expert_cut: estimate(replace(ask, layout=one), alone=False) for one in (unsaid, cut, whole)}
        assert told[None].memory == told[4].memory
        assert told[None].least_memory == told[least.expert_tensor].least_memory
        assert told[1].least_memory.needed != told[4].least_memory.needed
        assert told[None].peak == max(told[1].peak, told[4].peak)


@pytest.mark.parametrize(("ranks", "expert_cut"), [(32, 2), (16, 4)], ids=["neither", "as many ranks there are not"])
def test_experts_are_cut_as_all_else_or_not_at_all(ranks: int, expert_cut: int) -> None:
    with pytest.raises(UsageError, match=f"--expert-tensor-parallel is {expert_cut}; it must be 1 or"):
        layout(ranks, tensor=4, expert=8, expert_cut=expert_cut)


def test_a_token_passes_as_many_experts_wherever_they_are() -> None:
    passed = MIXTURE.computing_parameters
    assert {part_of(MIXTURE, layout(16, expert=ranks)).computing_parameters for ranks in (2, 4, 8)} == {passed}


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


def test_a_pipelines_first_stage_keeps_as_much_as_there_are_stages() -> None:
    assert [batches_in_flight(layout(8, pipeline=4), stage, 16) for stage in range(4)] == [4, 3, 2, 1]
    assert batches_in_flight(layout(8, pipeline=4), 0, 2) == 2
    assert batches_in_flight(layout(8, pipeline=4, virtual_stages=3), 0, 16) == 4 + 3 / 3
    assert bubble_share(layout(8, pipeline=4), 12) == 0.25
    assert bubble_share(layout(8, pipeline=4, virtual_stages=3), 12) == pytest.approx(0.25 / 3)


def of(traffic: Traffic, group: Group) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in traffic.messages:
        if one.group == group:
            found[one.operation] = found.get(one.operation, 0) + one.total_bytes
    return found


def test_tensor_parallelism_sends_four_times_the_stream_a_layer() -> None:
    where = layout(8, tensor=8)
    stream = 4096 * 8192 * 2
    plain = training_traffic(LLAMA, replace(SETUP, sequence_parallel=False), where)
    assert of(plain, where.tensor_group) == {"all_reduce": 4 * 80 * stream}
    spread = training_traffic(LLAMA, SETUP, where)
    assert spread.wire_bytes == pytest.approx(plain.wire_bytes)
    again = training_traffic(LLAMA, replace(SETUP, checkpointing=True), where)
    assert again.wire_bytes == pytest.approx(1.5 * spread.wire_bytes)


def test_experts_get_each_token_twice_and_give_it_back() -> None:
    where = layout(8, expert=8)
    sent = of(training_traffic(MIXTURE, SETUP, where), where.expert_group)["all_to_all"]
    assert sent == 32 * 4 * (2 * 4096 * 4096 * 2)


@pytest.mark.parametrize(
    ("expert", "expert_cut", "streams"),
    [(1, 2, 2), (4, 2, 1 + 2), (4, 1, 1)],
    ids=["not spread", "cut: each of a token's two copies", "whole: they share none"],
)
def test_tensor_ranks_share_what_comes_to_experts_that_are_cut(expert: int, expert_cut: int, streams: int) -> None:
    where = layout(8, tensor=2, expert=expert, expert_cut=expert_cut)
    stream = 32 * 4096 * 4096 * 2
    sent = of(training_traffic(MIXTURE, SETUP, where), where.tensor_group)
    assert sent["all_gather"] == sent["reduce_scatter"] == 2 * streams * stream
    shared = training_traffic(replace(MIXTURE, shared_feedforward=1024), SETUP, where)
    also = expert > 1  # an expert of all tokens is cut as all else
    assert of(shared, where.tensor_group)["all_gather"] == 2 * (streams + also) * stream


def test_a_rank_of_whole_experts_computes_a_part_of_each_token_on_average() -> None:
    """Of four tensor ranks each has half a copy of a token that two experts compute."""
    whole, cut = (part_of(MIXTURE, layout(32, tensor=4, expert=8, expert_cut=ranks)) for ranks in (1, 4))
    assert (whole.experts_per_token, cut.experts_per_token) == (0.5, 2)
    assert whole.feedforward == 4 * cut.feedforward


def test_stages_hand_on_the_stream_in_each_micro_batch() -> None:
    where = layout(16, tensor=8, pipeline=2)
    sent = of(training_traffic(LLAMA, SETUP, where, accumulation=3), where.stage_group)["send_recv"]
    assert sent == 3 * 2 * 4096 * 8192 * 2 / 8
    assert (where.stage_group.nodes, where.stage_group.beside) == (2, 8)


@pytest.mark.parametrize(
    ("ranks", "cuts", "nodes", "beside"),
    [
        (16, {"pipeline": 4}, 2, 4),  # two stages a node: the hop from the second one leaves it
        (16, {"pipeline": 2}, 2, 8),
        (8, {"pipeline": 4}, 1, 1),
        (32, {"pipeline": 4, "tensor": 8}, 2, 8),
    ],
)
def test_a_pipeline_waits_for_the_hop_that_leaves_a_node(
    ranks: int, cuts: dict[str, int], nodes: int, beside: int
) -> None:
    group = layout(ranks, **cuts).stage_group
    assert (group.ranks, group.nodes, group.beside) == (2, nodes, beside)


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


@pytest.mark.parametrize(
    ("layers", "stages"),
    [
        (80, {(1, 1), (2, 5), (4, 5), (8, 5), (16, 5)}),
        (126, {(1, 1), (2, 3), (4, 8), (8, 8), (16, 8)}),  # Llama 3.1 405B: 128 places, two of them for no layer
        (61, {(1, 1), (2, 1), (4, 1), (8, 1), (16, 1)}),  # DeepSeek-V3: 64 places, and no interleaving
        (60, {(1, 1), (2, 5), (4, 5)}),  # in eight stages four places would be left
    ],
)
def test_a_pipeline_s_outer_stages_may_have_fewer_layers(layers: int, stages: set[tuple[int, int]]) -> None:
    """No plan of Llama 3.1 405B had a pipeline: the way that it was trained in was not among them."""
    found = cut_layouts(replace(LLAMA, layers=layers), layout(512, tensor=1), 4096)
    assert {(one.pipeline, one.virtual_stages) for one in found} == stages


@pytest.mark.parametrize(("ranks", "stages"), [(384, {1, 2, 3, 4, 6, 8, 12}), (512, {1, 2, 4, 8})])
def test_of_ranks_in_threes_stages_are_in_threes_too(ranks: int, stages: set[int]) -> None:
    """BLOOM's 2,048 samples a step on 384 A100 were refused; it was trained in twelve stages."""
    found = cut_layouts(replace(LLAMA, layers=70), layout(ranks), 2048)
    assert {one.pipeline for one in found} == stages


def test_gradients_of_a_cut_model_are_reduced_among_those_that_hold_the_same() -> None:
    where = layout(64, tensor=4, pipeline=2)
    assert where.data == 8
    assert (where.sharing.ranks, where.sharing.nodes, where.sharing.beside) == (8, 4, 4)
    assert NETWORK.bandwidth_gb_per_s(where.sharing) == 368 / 4
    assert NETWORK.bandwidth_gb_per_s(where.tensor_group) == 360


def test_a_pipeline_with_gathered_weights_gathers_once_a_step() -> None:
    where = layout(32, pipeline=4)
    once, each = (
        of(training_traffic(LLAMA, replace(SETUP, strategy=name), where, accumulation=8), where.sharing)["all_gather"]
        for name in ("fsdp-grad-op", "fsdp")
    )
    assert each > 14 * once


def test_what_is_offloaded_or_paged_leaves_the_gpu() -> None:
    where = layout(8)
    whole, state = memory(SMALL, where, strategy="fsdp"), SMALL.parameters * 8 / 8
    for changes in ({"offload": "optimizer"}, {"optimizer": "paged-adamw"}):
        assert whole.static - memory(SMALL, where, strategy="fsdp", **changes).static == pytest.approx(state, rel=1e-6)
    assert memory(SMALL, where, strategy="fsdp", offload="all").static == 0


def test_selective_checkpointing_keeps_less_than_all_and_more_than_full() -> None:
    sizes = [
        memory(SMALL, layout(1), **changes).activations
        for changes in ({}, {"selective": True}, {"checkpointing": True})
    ]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("FULL_SHARD", "fsdp"),
        ("fsdp2", "fsdp"),
        ("ZeRO-3", "zero3"),
        ("ZeRO-1", "zero1"),
        ("distributed-optimizer", "zero1"),
        ("hsdp", "fsdp-hybrid"),
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


def test_first_and_last_stage_may_have_no_layer_of_their_own() -> None:
    """Qwen3-235B, 94 layers, ran in 96 stages (XTuner's benchmark on 256 H800)."""
    of = replace(SMALL, layers=94)
    assert part_of(of, layout(64, pipeline=32, virtual_stages=3)).layers == 3
    with pytest.raises(UsageError, match="longer than the 93 layers"):
        part_of(replace(SMALL, layers=93), layout(64, pipeline=32, virtual_stages=3))


@pytest.mark.parametrize(
    ("layers", "stages", "each"),
    [(22, 8, [2, 3, 2]), (126, 16, [7, 8, 7]), (24, 8, [3, 3, 3]), (23, 8, [3, 3, 3]), (2, 2, [1, 1, 1])],
)
def test_of_two_places_left_over_the_outer_stages_have_one_each(layers: int, stages: int, each: list[int]) -> None:
    """The second stage may then be the fullest: as many layers more as it has micro-batches less in flight."""
    model, where = replace(SMALL, layers=layers, vocabulary=1024), layout(stages, pipeline=stages)
    assert [layers_of(model, where, stage) for stage in (0, min(1, stages - 1), stages - 1)] == each
    if each[0] < each[1]:
        second = batches_in_flight(where, 1, 1 << 10) * each[1]
        assert second > batches_in_flight(where, 0, 1 << 10) * each[0]
        full = memory(model, where).activations / memory(replace(model, layers=each[1] * stages), where).activations
        assert full == pytest.approx(second / (stages * each[1]), rel=0.05)


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


def test_experts_are_whole_on_tensor_ranks_only_where_they_are_spread() -> None:
    alone, spread = (Layout(world_size=32, ranks_per_node=8, tensor=8, expert=expert) for expert in (1, 4))
    assert layouts_meant(MIXTURE, alone) == [alone]
    assert layouts_meant(MIXTURE, spread) == [spread, replace(spread, expert_cut=1)]


def test_an_expert_that_is_weighed_within_keeps_nothing_of_what_it_gives() -> None:
    """Megatron-LM's keeps gate, up, their product and its copy of each token; torchtitan, compiled, what it gives."""
    kept = {
        (kernels, compiled): feedforward_bytes_per_token(
            MIXTURE, replace(SETUP, parameter_bytes=2, kernels=kernels, compiled=compiled)
        )
        for kernels, compiled in (("fused", False), ("fused", None), ("fused", True), ("plain", False))
    }
    hidden = 2 * 2 * MIXTURE.hidden  # bytes, of each of two experts
    assert len({kept["fused", None], kept["fused", True], kept["plain", False]}) == 1
    assert kept["fused", True] - kept["fused", False] == hidden
