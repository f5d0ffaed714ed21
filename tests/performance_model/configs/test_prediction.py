"""Layers of multi-token prediction: what they add, and by which programs."""

import math
from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.loss import LossMemory
from raybench.performance_model.models.config import model_of_config
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions

MAIN = model_of_config("deepseek-v3")
WHOLE = MAIN.with_prediction(1)
OPTIONS = EstimateOptions(
    model="deepseek-v3", world_size=256, node_type="p5.48xlarge", tensor_parallel=2, pipeline_parallel=8,
    expert_parallel=32, strategy="zero1", activation_checkpointing=True, accumulation=64, program="megatron-lm",
)  # fmt: skip


def test_deepseek_v3_has_the_parameters_that_are_published() -> None:
    """Its README: 671B, 685B with the module and its copies of both tables; README_WEIGHTS.md: 11.5B of its own.

    And 2.4B for each token, with the embedding and the output layer.
    """
    own = WHOLE.parameters - MAIN.parameters
    assert MAIN.parameters == 671_026_404_352
    assert own == pytest.approx(11.5e9, rel=0.012)
    assert WHOLE.parameters + 2 * MAIN.token_table_parameters == pytest.approx(685e9, rel=0.001)
    active = WHOLE.computing_parameters - MAIN.computing_parameters + MAIN.token_table_parameters
    assert active == pytest.approx(2.4e9, rel=0.07)


def test_what_joins_is_a_product_of_both_and_three_norms() -> None:
    block, hidden = MAIN.kinds()[-1].parameters_per_layer, MAIN.hidden
    assert WHOLE.parameters - MAIN.parameters == block + 2 * hidden**2 + 3 * hidden
    assert WHOLE.outer_parameters == sum(math.prod(shape) for shape in WHOLE.outer_shapes())
    two = MAIN.with_prediction(2)
    assert two.parameters - WHOLE.parameters == WHOLE.parameters - MAIN.parameters
    per_token = WHOLE.flops_per_token(4096) - MAIN.flops_per_token(4096)
    products = WHOLE.computing_parameters - MAIN.computing_parameters
    assert per_token == pytest.approx(6 * products + MAIN.attention_flops_per_token(4096) / MAIN.layers)


def test_a_pipelines_last_stage_has_it_with_an_embedding_and_tensor_ranks_share_the_product() -> None:
    layout = Layout(world_size=64, ranks_per_node=8, tensor=4, pipeline=8)
    first, last = (part_of(WHOLE, layout, stage=stage) for stage in (0, 7))
    assert (first.predicting, last.predicting) == (0, 1)
    without = part_of(replace(WHOLE, predicting=0), layout, stage=7)
    more = last.outer_parameters - without.outer_parameters
    assert more == last.token_table_parameters + 2 * MAIN.hidden**2 // 4 + 3 * MAIN.hidden
    assert first.outer_parameters == part_of(replace(WHOLE, predicting=0), layout).outer_parameters


def test_each_prediction_has_logits_of_its_own() -> None:
    setup = TrainingSetup(batch_size=1, sequence_length=4096, loss="fused-fp32")
    one, two = (LossMemory(model=model, setup=setup).forward for model in (MAIN, WHOLE))
    assert two == 2 * one


def test_it_takes_memory_and_time_where_it_is_asked_for_and_is_told_where_not() -> None:
    without, asked = (estimate(replace(OPTIONS, mtp_layers=layers)).report for layers in (None, 1))
    assert without.step_seconds is not None
    assert asked.step_seconds is not None
    assert asked.step_seconds[0] > without.step_seconds[0] * 1.02
    assert asked.memory.logits > without.memory.logits
    assert asked.model.parameters - without.model.parameters == WHOLE.parameters - MAIN.parameters
    untrained = [line for line in without.advice if "multi-token prediction left out" in line]
    told = "1 layer of multi-token prediction left out, as most programs do (raybench estimate --mtp-layers 1)"
    assert untrained == [told]
    assert not [line for line in asked.advice if "multi-token" in line]
    assert not [line for line in estimate(EstimateOptions()).report.advice if "multi-token" in line]


def test_only_who_trains_it_is_asked() -> None:
    asked = replace(OPTIONS, mtp_layers=1, tensor_parallel=1, pipeline_parallel=1, expert_parallel=1, strategy=None)
    assert estimate(replace(asked, program="megatron-bridge")).report.model.name.endswith("with 1 MTP layer")
    with pytest.raises(UsageError, match="transformers is not known to train multi-token prediction"):
        estimate(replace(asked, program="transformers"))
    with pytest.raises(UsageError, match="--mtp-layers are of a model that is trained whole"):
        estimate(replace(asked, program=None, lora_rank=16))
    with pytest.raises(UsageError, match="--mtp-layers is 0"):
        estimate(replace(asked, mtp_layers=0))


def test_a_model_without_experts_may_have_it_as_well() -> None:
    dense = preset_named("llama-8b")
    more = dense.with_prediction(2)
    assert more.layers == dense.layers + 2
    assert more.parameters - dense.parameters == 2 * (
        dense.parameters_per_layer + 2 * dense.hidden**2 + 3 * dense.hidden
    )
