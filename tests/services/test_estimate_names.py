"""What people call layers and lengths of a model, where its code has other names: adapters and tables of positions."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.performance_model.models.families.layer_names import layers_named
from raybench.performance_model.models.transformer import Transformer
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request


def _model(name: str) -> Transformer:
    return estimate_request(EstimateOptions(model=name)).model


@pytest.mark.parametrize(
    ("model", "name", "layers"),
    [
        ("gpt-neox-20b", "query_key_value", ("q_proj", "k_proj", "v_proj")),
        ("gpt2", "c_attn", ("q_proj", "k_proj", "v_proj")),
        ("gpt2", "c_proj", ("o_proj", "down_proj")),
        ("gpt-neox-20b", "attention.dense", ("o_proj",)),
        ("llama-8b", "self_attn.q_proj", ("q_proj",)),
        ("llama-8b", "w2", ("down_proj",)),
        ("llama-8b", "output_proj", ("o_proj",)),
        ("llama-8b", "gate_up_proj", ("gate_proj", "up_proj")),
        ("gpt-neox-20b", "dense_h_to_4h", ("up_proj",)),
        ("chatglm3-6b", "dense_h_to_4h", ("gate_proj", "up_proj")),
        ("starcoder2-3b", "c_proj", ("down_proj",)),
        ("gpt-neo-2.7b", "c_proj", ("down_proj",)),
        ("mpt-7b", "Wqkv", ("q_proj", "k_proj", "v_proj")),
        ("Qwen/Qwen-7B", "w2", ("gate_proj",)),
        ("phi-3-mini", "qkv_proj", ("q_proj", "k_proj", "v_proj")),
    ],
)
def test_a_layer_is_found_by_the_name_that_its_code_has(model: str, name: str, layers: tuple[str, ...]) -> None:
    found = layers_named(_model(model), (name,))
    assert found.layers == layers
    assert found.joined == (((name, layers),) if len(layers) > 1 else ())


def test_a_layer_that_no_code_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"no linear layer of gpt2 \(--lora-targets\) 'query_key_values'.*there are.*q_proj"
    ):
        estimate(EstimateOptions(model="gpt2", lora_rank=8, lora_targets="query_key_values"))


def test_of_a_list_one_name_is_enough_as_it_is_for_peft() -> None:
    """A recipe of GPT-2's kin for StarCoder names q_attn, which only cross-attention has."""
    options = EstimateOptions(model="starcoder", lora_rank=8, lora_targets="c_proj,c_attn,q_attn")
    request = estimate_request(options)
    assert request.setup.lora_targets == ("o_proj", "down_proj", "q_proj", "k_proj", "v_proj")
    told = "q_attn: no layer of bigcode/starcoder; peft leaves it out, too"
    assert request.basis["LoRA targets without a layer"] == told
    assert f"--lora-targets: {told}" in estimate(options).report.advice
    matched = estimate_request(replace(options, lora_targets="c_proj,c_attn"))
    assert (matched.setup, "LoRA targets without a layer" in matched.basis) == (request.setup, False)


def test_adapters_outside_of_the_blocks_are_said_to_be_left_out() -> None:
    request = estimate_request(EstimateOptions(lora_rank=8, lora_targets="q_proj,lm_head,embed_tokens"))
    assert request.setup.lora_targets == ("q_proj",)
    told = request.basis["LoRA targets not counted"]
    assert told == "lm_head, embed_tokens: no layer of a block: its adapter is left out"
    with pytest.raises(UsageError, match=r"no linear layer of llama-3\.1-8b \(--lora-targets\) 'lm_head'"):
        estimate(EstimateOptions(lora_rank=8, lora_targets="lm_head"))


@pytest.mark.parametrize("name", ["all-linear", "all"])
def test_all_linear_is_every_layer(name: str) -> None:
    named = estimate_request(EstimateOptions(lora_rank=8, lora_targets=name))
    assert named.setup == estimate_request(EstimateOptions(lora_rank=8)).setup


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("adamw_torch", "adamw"),
        ("adamw_torch_fused", "adamw"),
        ("adamw_bnb_8bit", "adamw-8bit"),
        ("adamw_8bit", "adamw-8bit"),
        ("paged_adamw_32bit", "paged-adamw"),
        ("paged_adamw_8bit", "paged-adamw-8bit"),
        ("PagedAdamW8bit", "paged-adamw-8bit"),
        ("sgd", "sgd"),
    ],
)
def test_an_optimizer_is_found_by_the_name_that_its_program_has(name: str, optimizer: str) -> None:
    assert estimate_request(EstimateOptions(optimizer=name)).setup.optimizer == optimizer


@pytest.mark.parametrize(
    ("name", "near"),
    [("lion_8bit", "momentum has its memory"), ("adafactor", "sgd has nearly"), ("adamw_torch_4bit", "adamw-8bit")],
)
def test_an_optimizer_that_is_not_estimated_is_refused_with_what_comes_near(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"no optimizer '{name}'.*{near}"):
        EstimateOptions(optimizer=name)


def test_a_product_of_three_layers_is_said_to_be_counted_as_three() -> None:
    request = estimate_request(EstimateOptions(model="gpt-neox-20b", lora_rank=8, lora_targets="query_key_value"))
    assert "q_proj, k_proj, v_proj" in request.basis["LoRA targets"]
    plain = estimate_request(EstimateOptions(model="gpt-neox-20b", lora_rank=8, lora_targets="q_proj,k_proj,v_proj"))
    assert request.setup == plain.setup
    assert "LoRA targets" not in plain.basis


def test_a_model_that_is_trained_whole_has_a_table_as_long_as_its_samples() -> None:
    request = estimate_request(EstimateOptions(model="gpt2", sequence_length=2048))
    assert request.model.parameters - _model("gpt2").parameters == 1024 * 768
    assert "a table of 2048" in request.basis["positions"]
    usual = estimate_request(EstimateOptions(model="gpt2", sequence_length=512))
    assert usual.model == _model("gpt2")
    assert "positions" not in usual.basis


def test_a_frozen_table_keeps_its_length() -> None:
    with pytest.raises(UsageError, match="table of 1024 positions"):
        estimate_request(EstimateOptions(model="gpt2", sequence_length=2048, lora_rank=8))
