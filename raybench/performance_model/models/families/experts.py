"""Mixtures of experts with Llama's attention."""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.models.families.fields import (
    NO_HEAD_DIM,
    Fields,
    Reader,
    flag,
    layer_numbers,
    rotary,
    whole,
    with_all,
    with_biases,
    without,
)
from raybench.performance_model.models.transformer import Transformer


def _mixtral(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=8, **expert_counts(fields, "num_local_experts"))


def _granite_moe(name: str, fields: Fields) -> Transformer:
    """Granite 3's; ``shared``: one for all tokens beside them."""
    for_all = whole(fields, "shared_intermediate_size", default=0, least=0)
    own = with_biases(fields) | expert_counts(fields, "num_local_experts")
    return rotary(name, fields, shared_feedforward=for_all, **own)


def _phimoe(name: str, fields: Fields) -> Transformer:
    """Phi-3.5-MoE: LayerNorm, and biases in all of attention and the output layer."""
    return rotary(
        name,
        fields,
        **with_biases(fields),
        shared=8,
        norm="layer",
        head_bias=flag(fields, "lm_head_bias", default=False),
        **expert_counts(fields, "num_local_experts"),
    )


def _qwen2_moe(name: str, fields: Fields) -> Transformer:
    """Qwen1.5-MoE and Qwen2-57B-A14B; a width of 0 leaves of the shared expert its gate."""
    return _qwen_moe(
        name,
        fields,
        shared=16,
        qkv_biases=flag(fields, "qkv_bias", default=True),
        shared_feedforward=whole(fields, "shared_expert_intermediate_size", least=0),
        shared_gate=True,
    )


def _qwen3_moe(name: str, fields: Fields) -> Transformer:
    return _qwen_moe(name, fields, shared=4, head_norms=True, **with_biases(fields))


def _qwen_moe(name: str, fields: Fields, **own: Any) -> Transformer:
    dense = _dense_layers(fields)
    return rotary(
        name,
        fields,
        feedforward=whole(fields, "moe_intermediate_size"),
        dense_layers=dense,
        dense_between=dense > 0 and whole(fields, "decoder_sparse_step", default=1) > 1,
        dense_feedforward=whole(fields, "intermediate_size") if dense else 0,
        **expert_counts(fields, "num_experts"),
        **own,
    )


def _dense_layers(fields: Fields) -> int:
    """How many layers have no experts: those that are named, and all but each so many-th."""
    layers, step = whole(fields, "num_hidden_layers"), whole(fields, "decoder_sparse_step", default=1)
    named = layer_numbers(fields, "mlp_only_layers")
    return sum(number in named or (number + 1) % step > 0 for number in range(layers))


def _olmoe(name: str, fields: Fields) -> Transformer:
    own = with_biases(fields) | expert_counts(fields, "num_experts")
    return rotary(name, fields, head_width=NO_HEAD_DIM, head_norms=True, head_norm_weights="projection", **own)


def _llama4(name: str, fields: Fields) -> Transformer:
    """Scout and Maverick: an expert for all tokens beside one of many; in Maverick in each second layer."""
    without(fields, "attention_bias")
    layers, width = whole(fields, "num_hidden_layers"), whole(fields, "intermediate_size")
    step = whole(fields, "interleave_moe_layer_step", default=1)
    given = fields.get("moe_layers") is not None
    mixed = len(set(layer_numbers(fields, "moe_layers"))) if given else layers // step
    return rotary(
        name,
        fields,
        shared=8,
        head_width=whole(fields, "head_dim", default=128),
        head_norms=flag(fields, "use_qk_norm", default=True),
        head_norm_weights="none",
        shared_feedforward=width,
        dense_layers=layers - mixed,
        dense_between=0 < mixed < layers,
        dense_feedforward=whole(fields, "intermediate_size_mlp", default=16384),
        **expert_counts(fields, "num_local_experts"),
    )


def _gpt_oss(name: str, fields: Fields) -> Transformer:
    """A sink for each head, and biases in all layers, experts and routers too."""
    with_all(fields, "attention_bias")
    experts = expert_counts(fields, "num_local_experts")
    return rotary(
        name,
        fields,
        shared=8,
        head_width=whole(fields, "head_dim", default=64),
        biases=True,
        clamps_inner=True,
        other_parameters=whole(fields, "num_attention_heads") + experts["experts"],
        **experts,
    )


def _glm4_moe(name: str, fields: Fields) -> Transformer:
    """GLM-4.5: experts beside shared ones, the first layers without."""
    layers, dense = whole(fields, "num_hidden_layers"), whole(fields, "first_k_dense_replace", least=0)
    if dense > layers:
        raise ValueError(f"first_k_dense_replace is {dense}, of {layers} layers")
    width = whole(fields, "moe_intermediate_size")
    return rotary(
        name,
        fields,
        qkv_biases=flag(fields, "attention_bias", default=False),
        head_norms=flag(fields, "use_qk_norm", default=False),
        feedforward=width,
        shared_feedforward=width * whole(fields, "n_shared_experts"),
        dense_layers=dense,
        dense_feedforward=whole(fields, "intermediate_size"),
        **expert_counts(fields, "n_routed_experts"),
    )


def expert_counts(fields: Fields, name: str) -> dict[str, int]:
    """By the name that the released files have, or another: transformers 5 saves Qwen3's as num_local_experts."""
    experts = whole(fields, name, "num_local_experts", "num_experts", "n_routed_experts")
    return {"experts": experts, "experts_per_token": whole(fields, "num_experts_per_tok")}


READERS: Mapping[str, Reader] = {
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "granitemoe": _granite_moe,
    "granitemoeshared": _granite_moe,
    "llama4_text": _llama4,
    "mixtral": _mixtral,
    "olmoe": _olmoe,
    "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
}
