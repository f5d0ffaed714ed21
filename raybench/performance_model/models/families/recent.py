"""Architectures of 2025 and 2026 that are made of parts of earlier ones, by transformers' classes of their names."""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.models.families.experts import expert_counts
from raybench.performance_model.models.families.fields import (
    NO_HEAD_DIM,
    Fields,
    Reader,
    flag,
    rotary,
    whole,
    with_all,
    without,
)
from raybench.performance_model.models.transformer import Transformer

# Parameters of xIELU, a rectifier with two slopes that are trained (swiss-ai's Apertus).
_SLOPES = {"xielu": 2}


def _apertus(name: str, fields: Fields) -> Transformer:
    """Two matrices an MLP, and norms of q and k."""
    without(fields, "attention_bias")
    slopes = _SLOPES.get(str(fields.get("hidden_act", "xielu")), 0)
    return rotary(name, fields, gated=False, head_norms=True, other_parameters=slopes)


def _cwm(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=8, head_width=whole(fields, "head_dim", default=128))


def _iquestcoder(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias", "mlp_bias")
    return rotary(name, fields, shared=8)


def _hyperclovax(name: str, fields: Fields) -> Transformer:
    """Of those that think norms behind attention and MLP, too."""
    without(fields, "attention_bias", "mlp_bias")
    return rotary(name, fields, norms_per_layer=4 if flag(fields, "use_post_norm", default=True) else 2)


def _jais2(name: str, fields: Fields) -> Transformer:
    """A ReLU, squared, and biases in all layers but the output layer."""
    for field in ("attention_bias", "mlp_bias"):
        with_all(fields, field)
    return rotary(name, fields, gated=False, norm="layer", biases=True)


def _nanochat(name: str, fields: Fields) -> Transformer:
    """Norms without parameters, of q and k too, and one of the token embeddings; logits are capped."""
    without(fields, "attention_bias")
    return rotary(
        name,
        fields,
        head_width=NO_HEAD_DIM,
        gated=False,
        norm="plain",
        embedding_norm=True,
        head_norms=True,
        head_norm_weights="none",
        caps_logits=fields.get("final_logit_softcapping", 1) is not None,
    )


def _vaultgemma(name: str, fields: Fields) -> Transformer:
    """Gemma 2 without norms behind attention and MLP."""
    without(fields, "attention_bias")
    return rotary(
        name,
        fields,
        shared=4,
        head_width=whole(fields, "head_dim", default=256),
        tied=flag(fields, "tie_word_embeddings", default=True),
        caps_scores=fields.get("attn_logit_softcapping") is not None,
        caps_logits=fields.get("final_logit_softcapping") is not None,
    )


def _granite_swa(name: str, fields: Fields) -> Transformer:
    """Granite with a sink for each head."""
    without(fields, "attention_bias", "mlp_bias")
    sinks = whole(fields, "num_attention_heads")
    return rotary(name, fields, tied=flag(fields, "tie_word_embeddings", default=True), other_parameters=sinks)


def _granite_moe_swa(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    for_all = whole(fields, "shared_intermediate_size", default=0, least=0)
    sinks, own = whole(fields, "num_attention_heads"), expert_counts(fields, "num_local_experts")
    return rotary(name, fields, shared_feedforward=for_all, other_parameters=sinks, **own)


def _granite_4(name: str, fields: Fields) -> Transformer:
    """Granite 4 without layers of Mamba: those of 350M, 1B and 3B that have no "h" in their names."""
    without(fields, "attention_bias")
    kinds = fields.get("layer_types") or fields.get("layers_block_type") or ["mamba"]
    others = {str(one) for one in kinds} - {"attention", "full_attention"}
    if others:
        raise ValueError(f"layers are of {', '.join(sorted(others))}, too, which has no estimate")
    if whole(fields, "num_local_experts", default=8, least=0):
        own = expert_counts(fields, "num_local_experts")
        return rotary(name, fields, shared_feedforward=whole(fields, "shared_intermediate_size", default=1024), **own)
    return rotary(name, {**fields, "intermediate_size": whole(fields, "shared_intermediate_size", default=1024)})


def _minicpm3(name: str, fields: Fields) -> Transformer:
    """DeepSeek's latent attention, without experts."""
    without(fields, "attention_bias", "mlp_bias")
    turned = whole(fields, "qk_rope_head_dim", default=32)
    return rotary(
        name,
        fields,
        kv_heads=0,
        head_width=whole(fields, "qk_nope_head_dim", default=64) + turned,
        rotary_width=turned,
        value_width=whole(fields, "v_head_dim", default=64),
        key_value_rank=whole(fields, "kv_lora_rank", default=256),
        query_rank=whole(fields, "q_lora_rank", default=768),
        tied=flag(fields, "tie_word_embeddings", default=True),
    )


def _minimax_m2(name: str, fields: Fields) -> Transformer:
    """MiniMax of M2 on; M1 and Text-01 have lightning attention in most layers."""
    own = expert_counts(fields, "num_local_experts")
    return rotary(name, fields, shared=8, head_norms=True, head_norm_weights="projection", **own)


def _flex_olmo(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    own = expert_counts(fields, "num_experts")
    return rotary(name, fields, head_width=NO_HEAD_DIM, head_norms=True, head_norm_weights="projection", **own)


def _hunyuan_moe(name: str, fields: Fields) -> Transformer:
    """A13B: beside the experts one as wide for all tokens."""
    without(fields, "attention_bias")
    chosen, experts = _same(fields, "moe_topk"), _same(fields, "num_experts")
    width = whole(fields, "intermediate_size")
    own: dict[str, Any] = {"experts": experts, "experts_per_token": chosen, "shared_feedforward": width}
    return rotary(name, fields, head_norms=True, **own)


def _same(fields: Fields, name: str) -> int:
    """A number that a file may have for each layer, if it is the same for all."""
    value = fields.get(name)
    if isinstance(value, list) and value and value.count(value[0]) == len(value):
        return whole({name: value[0]}, name)
    return whole(fields, name)


def _dots1(name: str, fields: Fields) -> Transformer:
    return _with_first_dense(name, fields, first=0, shared_experts="n_shared_experts", head_norms=True)


def _exaone_moe(name: str, fields: Fields) -> Transformer:
    return _with_first_dense(name, fields, first=1, shared_experts="num_shared_experts", head_norms=True)


def _solar_open(name: str, fields: Fields) -> Transformer:
    width = whole(fields, "moe_intermediate_size")
    with_width = {**fields, "intermediate_size": width, "first_k_dense_replace": 0}
    return _with_first_dense(name, with_width, first=0, shared_experts="n_shared_experts")


def _with_first_dense(name: str, fields: Fields, *, first: int, shared_experts: str, **own: Any) -> Transformer:
    """Experts beside shared ones; the ``first`` layers, or as many as the file says, without."""
    without(fields, "attention_bias")
    layers = whole(fields, "num_hidden_layers")
    dense = whole(fields, "first_k_dense_replace", default=first, least=0)
    if dense > layers:
        raise ValueError(f"first_k_dense_replace is {dense}, of {layers} layers")
    width = whole(fields, "moe_intermediate_size")
    return rotary(
        name,
        fields,
        feedforward=width,
        shared_feedforward=width * whole(fields, shared_experts, default=0, least=0),
        dense_layers=dense,
        dense_feedforward=whole(fields, "intermediate_size") if dense else 0,
        **expert_counts(fields, "n_routed_experts"),
        **own,
    )


def _ernie_moe(name: str, fields: Fields) -> Transformer:
    """ERNIE 4.5: the first layers without experts; each expert has a bias in its choice."""
    without(fields, "use_bias")
    layers, first = whole(fields, "num_hidden_layers"), whole(fields, "moe_layer_start_index", default=1, least=0)
    last = fields.get("moe_layer_end_index", -1)
    if last not in (-1, layers - 1) or whole(fields, "moe_layer_interval", default=1) != 1 or first > layers:
        raise ValueError("experts are not in all layers from moe_layer_start_index on, which is not supported")
    width = whole(fields, "moe_intermediate_size", default=1536)
    return rotary(
        name,
        fields,
        shared=4,
        tied=flag(fields, "tie_word_embeddings", default=True),
        feedforward=width,
        shared_feedforward=width * whole(fields, "moe_num_shared_experts", default=2, least=0),
        dense_layers=first,
        dense_feedforward=whole(fields, "intermediate_size") if first else 0,
        experts=whole(fields, "moe_num_experts", default=64),
        experts_per_token=whole(fields, "moe_k", default=6),
        router_biases=True,
    )


READERS: Mapping[str, Reader] = {
    "apertus": _apertus,
    "cwm": _cwm,
    "dots1": _dots1,
    "ernie4_5_moe": _ernie_moe,
    "exaone_moe": _exaone_moe,
    "flex_olmo": _flex_olmo,
    "granite_swa": _granite_swa,
    "granitemoe_swa": _granite_moe_swa,
    "granitemoehybrid": _granite_4,
    "hunyuan_v1_moe": _hunyuan_moe,
    "hyperclovax": _hyperclovax,
    "iquestcoder": _iquestcoder,
    "jais2": _jais2,
    "minicpm3": _minicpm3,
    "minimax_m2": _minimax_m2,
    "nanochat": _nanochat,
    "solar_open": _solar_open,
    "vaultgemma": _vaultgemma,
}
