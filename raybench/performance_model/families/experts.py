"""Mixtures of experts with Llama's attention."""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.families.fields import Fields, Reader, flag, rotary, whole, without
from raybench.performance_model.transformer import Transformer


def _mixtral(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=8, **_experts(fields, "num_local_experts"))


def _qwen2_moe(name: str, fields: Fields) -> Transformer:
    return _qwen_moe(
        name,
        fields,
        shared=16,
        qkv_biases=flag(fields, "qkv_bias", default=True),
        shared_feedforward=whole(fields, "shared_expert_intermediate_size"),
        shared_gate=True,
    )


def _qwen3_moe(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    return _qwen_moe(name, fields, shared=4, head_norms=True)


def _qwen_moe(name: str, fields: Fields, **own: Any) -> Transformer:
    dense = _dense_layers(fields)
    return rotary(
        name,
        fields,
        feedforward=whole(fields, "moe_intermediate_size"),
        dense_layers=dense,
        dense_feedforward=whole(fields, "intermediate_size") if dense else 0,
        **_experts(fields, "num_experts"),
        **own,
    )


def _dense_layers(fields: Fields) -> int:
    """How many layers have no experts: those that are named, and all but each so many-th."""
    layers, step = whole(fields, "num_hidden_layers"), whole(fields, "decoder_sparse_step", default=1)
    named = fields.get("mlp_only_layers") or []
    if not isinstance(named, list) or any(type(one) is not int or not 0 <= one < layers for one in named):
        raise ValueError(f"mlp_only_layers is {str(named)[:80]}, no list of layers from 0 to {layers - 1}")
    return sum(number in named or (number + 1) % step > 0 for number in range(layers))


def _experts(fields: Fields, name: str) -> dict[str, int]:
    return {"experts": whole(fields, name), "experts_per_token": whole(fields, "num_experts_per_tok")}


READERS: Mapping[str, Reader] = {
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
}
