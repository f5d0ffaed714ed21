"""Pipelines by hand: layers and micro-batches of each stage, what stages send, which stages are tried."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.parallel.part import (
    batches_in_flight,
    bubble_share,
    layers_of,
    part_of,
    stage_imbalance,
)
from raybench.performance_model.request.cuts import cut_layouts
from raybench.performance_model.step.traffic import training_traffic
from tests.performance_model.parallel.cut_models import (
    LLAMA,
    SETUP,
    SMALL,
    layout,
    memory,
    sent_by,
)


def test_a_pipelines_first_stage_keeps_as_much_as_there_are_stages() -> None:
    assert [batches_in_flight(layout(8, pipeline=4), stage, 16) for stage in range(4)] == [4, 3, 2, 1]
    assert batches_in_flight(layout(8, pipeline=4), 0, 2) == 2
    assert batches_in_flight(layout(8, pipeline=4, virtual_stages=3), 0, 16) == 4 + 3 / 3
    assert bubble_share(layout(8, pipeline=4), 12) == 0.25
    assert bubble_share(layout(8, pipeline=4, virtual_stages=3), 12) == pytest.approx(0.25 / 3)


def test_stages_hand_on_the_stream_in_each_micro_batch() -> None:
    where = layout(16, tensor=8, pipeline=2)
    sent = sent_by(training_traffic(LLAMA, SETUP, where, accumulation=3), where.stage_group)["send_recv"]
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


def test_a_pipeline_with_gathered_weights_gathers_once_a_step() -> None:
    """FSDP's do, unless it is told to reshard: torchtitan's ``default``, and NeMo Automodel's, have none do so."""
    where = layout(32, pipeline=4)
    whole = replace(SETUP, strategy="fsdp")
    once, default, each = (
        sent_by(training_traffic(LLAMA, setup, where, accumulation=8), where.sharing)["all_gather"]
        for setup in (replace(SETUP, strategy="fsdp-grad-op"), whole, replace(whole, reshards_in_pipeline=True))
    )
    assert each > 14 * once
    assert default == once
    kept, resharded = (
        estimate_memory(LLAMA, setup, where, accumulation=8)
        for setup in (whole, replace(whole, reshards_in_pipeline=True))
    )
    # seventy billion over 32 H100 in eight stages ran out of memory so (NeMo Automodel pull request 2673)
    assert kept == estimate_memory(LLAMA, replace(SETUP, strategy="fsdp-grad-op"), where, accumulation=8)
    assert kept.allocated > 1.2 * resharded.allocated


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


@pytest.mark.parametrize(
    ("layers", "stages", "parts", "times"),
    [(64, 8, 2, 1.0), (61, 8, 2, 64 / 61), (61, 8, 1, 64 / 61), (61, 4, 4, 64 / 61), (34, 8, 2, 48 / 34)],
    ids=["all full", "four a part", "eight a stage", "16 a stage", "three a part: six a stage"],
)
def test_all_stages_wait_for_those_with_more_layers_than_the_average(
    layers: int, stages: int, parts: int, times: float
) -> None:
    """Of a model whose output layer is next to nothing; the slowest is meant, a program may cut better."""
    model = replace(LLAMA, layers=layers, vocabulary=64)
    where = layout(64, pipeline=stages, virtual_stages=parts)
    assert stage_imbalance(model, where) == pytest.approx(times, rel=2e-3)
