"""Experts over ranks, by hand: who holds them whole or cut, what is sent to them, what they keep."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.hardware.gpus import gpu_for
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import feedforward_bytes_per_token
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import dense_layers_of, part_of
from raybench.performance_model.request.forms import layouts_meant
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.strategies import strategy_named
from raybench.performance_model.step.traffic import training_traffic
from raybench.performance_model.step.work import work_of
from tests.performance_model.parallel.cut_models import (
    MIXTURE,
    SETUP,
    layout,
    memory,
    sent_by,
)


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
    sent = [sent_by(training_traffic(MIXTURE, SETUP, one), one.expert_group)["all_to_all"] for one in (where, cut)]
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


def test_experts_get_each_token_twice_and_give_it_back() -> None:
    where = layout(8, expert=8)
    sent = sent_by(training_traffic(MIXTURE, SETUP, where), where.expert_group)["all_to_all"]
    assert sent == 32 * 4 * (2 * 4096 * 4096 * 2)


@pytest.mark.parametrize(
    ("expert", "expert_cut", "streams"),
    [(1, 2, 2), (4, 2, 1 + 2), (4, 1, 1)],
    ids=["not spread", "cut: each of a token's two copies", "whole: they share none"],
)
def test_tensor_ranks_share_what_comes_to_experts_that_are_cut(expert: int, expert_cut: int, streams: int) -> None:
    where = layout(8, tensor=2, expert=expert, expert_cut=expert_cut)
    stream = 32 * 4096 * 4096 * 2
    sent = sent_by(training_traffic(MIXTURE, SETUP, where), where.tensor_group)
    assert sent["all_gather"] == sent["reduce_scatter"] == 2 * streams * stream
    shared = training_traffic(replace(MIXTURE, shared_feedforward=1024), SETUP, where)
    also = expert > 1  # an expert of all tokens is cut as all else
    assert sent_by(shared, where.tensor_group)["all_gather"] == 2 * (streams + also) * stream


def test_a_rank_of_whole_experts_computes_a_part_of_each_token_on_average() -> None:
    """Of four tensor ranks each has half a copy of a token that two experts compute."""
    whole, cut = (part_of(MIXTURE, layout(32, tensor=4, expert=8, expert_cut=ranks)) for ranks in (1, 4))
    assert (whole.experts_per_token, cut.experts_per_token) == (0.5, 2)
    assert whole.feedforward == 4 * cut.feedforward


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


@pytest.mark.parametrize("pipeline", [1, 2])
def test_layers_without_experts_exchange_nothing(pipeline: int) -> None:
    """The first ones of DeepSeek, or every second one of Maverick; all wait for a stage in which each has experts."""
    sizes = {"dense_layers": 8, "dense_feedforward": 4 * MIXTURE.feedforward}
    first, between = (replace(MIXTURE, **sizes, dense_between=spread) for spread in (False, True))
    where = layout(8 * pipeline, pipeline=pipeline, expert=8)

    def exchanges(model: Transformer) -> int:
        return sum(one.count for one in training_traffic(model, SETUP, where).messages if one.operation == "all_to_all")

    each = exchanges(MIXTURE) // (MIXTURE.layers // pipeline)
    assert exchanges(first) == each * (24 if pipeline == 1 else 16)
    assert exchanges(between) == each * 24 // pipeline


def test_layers_without_experts_that_lie_between_others_are_dealt_out_over_stages() -> None:
    sizes = {"dense_layers": 16, "dense_feedforward": 4 * MIXTURE.feedforward}
    first, between = (replace(MIXTURE, **sizes, dense_between=spread) for spread in (False, True))
    where = layout(16, pipeline=2, expert=8)
    assert [part_of(first, where, stage=stage).dense_layers for stage in (0, 1)] == [16, 0]
    assert [part_of(between, where, stage=stage).dense_layers for stage in (0, 1)] == [8, 8]
    held = [sum(part_of(one, where, stage=stage).parameters for stage in (0, 1)) for one in (first, between)]
    assert held[0] == held[1]
    assert part_of(first, where).dense_layers == 0
    further = replace(first, dense_layers=20)
    assert [part_of(further, where, stage=stage).dense_layers for stage in (0, 1)] == [16, 4]
    assert part_of(further, where).dense_layers == 4
    assert part_of(between, where).dense_layers == 8


@pytest.mark.parametrize(
    ("step", "pipeline", "virtual"), [(2, 16, 1), (2, 12, 1), (2, 16, 3), (2, 3, 16), (4, 16, 1), (4, 4, 4)]
)
def test_a_stage_has_experts_in_as_many_layers_as_the_fullest_that_is_really_cut(
    step: int, pipeline: int, virtual: int
) -> None:
    """Each ``step``-th of 48 layers has experts (Llama 4 Maverick: step 2): half of three is two in some stage."""
    has_experts = [(layer + 1) % step == 0 for layer in range(48)]
    size = 48 // (pipeline * virtual)
    real = [
        sum(sum(has_experts[start : start + size]) for start in range(stage * size, 48, pipeline * size))
        for stage in range(pipeline)
    ]
    sizes = {"dense_layers": 48 - 48 // step, "dense_feedforward": 4 * MIXTURE.feedforward, "dense_between": True}
    where = layout(8 * pipeline, pipeline=pipeline, expert=8, virtual_stages=virtual)
    part = part_of(replace(MIXTURE, layers=48, **sizes), where)
    told = part.layers - part.dense_layers
    if virtual == 1 or pipeline * size % step == 0:
        assert told == max(real)
    else:  # parts of a stage start differently, and each is taken for the fullest
        assert told >= max(real)


def test_a_last_stage_of_a_layer_less_has_no_more_layers_without_experts_than_a_real_one() -> None:
    """62 layers in 16 stages: of the last three every second one, two of them with experts; and four before it."""
    sizes = {"dense_layers": 31, "dense_feedforward": 4 * MIXTURE.feedforward, "dense_between": True}
    model, where = replace(MIXTURE, layers=62, **sizes), layout(128, pipeline=16, expert=8)
    assert [dense_layers_of(model, where, stage, layers) for stage, layers in ((1, 4), (15, 3))] == [2, 1]


@pytest.mark.parametrize(("ranks", "each", "most"), [(2, 2, 2.0), (4, 2, 3.0), (8, 8, 1.0), (4, 4, 2.0)])
def test_no_rank_gets_more_copies_than_each_token_once_for_each_of_its_experts(
    ranks: int, each: int, most: float
) -> None:
    """Of eight experts; up to three times as many as on average, as far as was measured."""
    model = replace(MIXTURE, experts_per_token=each)
    part = part_of(model, layout(8, expert=ranks))
    works = [work_of(gpu_for("h100"), part, replace(SETUP, is_balanced=said)) for said in (None, True)]
    of_experts = 6 * each * model.each_expert * model.layers
    share = of_experts / (6 * part.computing_parameters)
    assert works[1].unbalanced == 0
    assert works[0].unbalanced / works[0].products == pytest.approx((most - 1) * share, rel=1e-6)
