"""GPT's kin of 2021 to 2023: GPT-J, CodeGen, GPT-Neo and MPT, under the field names of their own classes."""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.models.families.fields import Fields, Reader, flag, rotary, whole, without
from raybench.performance_model.models.transformer import Transformer

_FORMULAS = ("gelu_new", "gelu_fast")  # of transformers' GELUs, those written as operations


def _gptj(name: str, fields: Fields) -> Transformer:
    """GPT-J and CodeGen: attention and the MLP read one norm; biases in the MLP and the output layer alone."""
    hidden = whole(fields, "n_embd")
    inner = whole(fields, "n_inner", default=4 * hidden)
    return Transformer(
        name=name,
        layers=whole(fields, "n_layer"),
        hidden=hidden,
        heads=whole(fields, "n_head"),
        feedforward=inner,
        vocabulary=whole(fields, "vocab_size"),
        gated=False,
        norm="layer",
        other_parameters=inner + hidden,
        norms_per_layer=1,
        parallel=True,
        head_bias=True,
        tied=flag(fields, "tie_word_embeddings", default=False),
        context=whole(fields, "n_positions", default=2048),
        formula_gelu=fields.get("activation_function", "gelu_new") in _FORMULAS,
        drops=fields.get("resid_pdrop", 0.0) != 0,
    )


def _gpt_neo(name: str, fields: Fields) -> Transformer:
    """Of its attention only the last layer has a bias; every second layer looks back 256 tokens, and computes all."""
    hidden, positions = whole(fields, "hidden_size"), whole(fields, "max_position_embeddings", default=2048)
    inner = whole(fields, "intermediate_size", default=4 * hidden)
    return Transformer(
        name=name,
        layers=whole(fields, "num_layers", "num_hidden_layers"),
        hidden=hidden,
        heads=whole(fields, "num_heads", "num_attention_heads", default=16),
        feedforward=inner,
        vocabulary=whole(fields, "vocab_size"),
        gated=False,
        norm="layer",
        other_parameters=inner + 2 * hidden,
        tied=flag(fields, "tie_word_embeddings", default=True),
        positions=positions,
        context=positions,
        formula_gelu=fields.get("activation_function", "gelu_new") in _FORMULAS,
        drops=fields.get("resid_dropout", 0.0) != 0,
    )


def _mpt(name: str, fields: Fields) -> Transformer:
    """Positions are in the scores (ALiBi), without parameters; norms have a scale only, and no layer has a bias."""
    attention = _part(fields, "attn_config")
    without(attention, "qk_ln")
    if not flag(fields, "no_bias", default=True) or not flag(attention, "alibi", default=True):
        raise ValueError("no_bias or alibi is false, which is not supported")
    hidden, heads = whole(fields, "d_model"), whole(fields, "n_heads")
    return Transformer(
        name=name,
        layers=whole(fields, "n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=1
        if attention.get("attn_type") == "multiquery_attention"
        else whole(attention, "kv_n_heads", default=heads),
        feedforward=whole(fields, "expansion_ratio", default=4) * hidden,
        vocabulary=whole(fields, "vocab_size"),
        gated=False,
        norm="scale",
        tied=flag(fields, "tie_word_embeddings", default=True),
        context=whole(fields, "max_seq_len", default=2048),
        drops=fields.get("resid_pdrop", 0.0) != 0,
    )


def _dbrx(name: str, fields: Fields) -> Transformer:
    """MPT's names, with rotary positions and a mixture of experts; norms have a scale only."""
    attention, experts = _part(fields, "attn_config"), _part(fields, "ffn_config")
    named: dict[str, Any] = {
        "num_hidden_layers": whole(fields, "n_layers"),
        "hidden_size": whole(fields, "d_model"),
        "num_attention_heads": whole(fields, "n_heads"),
        "num_key_value_heads": whole(attention, "kv_n_heads", default=1),
        "intermediate_size": whole(experts, "ffn_hidden_size"),
        "vocab_size": whole(fields, "vocab_size"),
        "max_position_embeddings": whole(fields, "max_seq_len", default=2048),
        "tie_word_embeddings": flag(fields, "tie_word_embeddings", default=False),
    }
    chosen = whole(experts, "moe_top_k", default=1)
    return rotary(
        name, named, norm="scale", experts=whole(experts, "moe_num_experts", default=4), experts_per_token=chosen
    )


def _part(fields: Fields, name: str) -> Fields:
    inner = fields.get(name)
    if inner is not None and not isinstance(inner, dict):
        raise ValueError(f"{name} is {str(inner)[:80]}, no object of fields")
    return inner or {}


READERS: Mapping[str, Reader] = {
    "codegen": _gptj,
    "dbrx": _dbrx,
    "gpt_neo": _gpt_neo,
    "gptj": _gptj,
    "mpt": _mpt,
}
