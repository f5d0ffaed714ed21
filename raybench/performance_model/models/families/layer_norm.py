"""Models with LayerNorm, and biases in their linear layers."""

from collections.abc import Mapping
from dataclasses import replace

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

_FORMULAS = ("gelu_new", "gelu_fast")  # of transformers' GELUs, those written as operations


def _gpt2(name: str, fields: Fields) -> Transformer:
    without(fields, "add_cross_attention")
    hidden, positions = whole(fields, "n_embd"), whole(fields, "n_positions", "n_ctx", default=1024)
    return Transformer(
        name=name,
        layers=whole(fields, "n_layer"),
        hidden=hidden,
        heads=whole(fields, "n_head"),
        feedforward=whole(fields, "n_inner", default=4 * hidden),
        vocabulary=whole(fields, "vocab_size"),
        gated=False,
        norm="layer",
        biases=True,
        tied=flag(fields, "tie_word_embeddings", default=True),
        positions=positions,
        context=positions,
        formula_gelu=fields.get("activation_function", "gelu_new") in _FORMULAS,
        drops=fields.get("resid_pdrop", 0.1) != 0,
    )


def _gpt_neox(name: str, fields: Fields) -> Transformer:
    with_all(fields, "attention_bias")
    return rotary(name, fields, head_width=NO_HEAD_DIM, gated=False, norm="layer", biases=True, kv_heads=0)


def _starcoder2(name: str, fields: Fields) -> Transformer:
    with_all(fields, "use_bias")
    tied = flag(fields, "tie_word_embeddings", default=True)
    return rotary(name, fields, shared=2, gated=False, norm="layer", biases=True, tied=tied)


def _nemotron(name: str, fields: Fields) -> Transformer:
    """A ReLU, squared, in place of SwiGLU; no biases but those of its norms."""
    without(fields, "attention_bias", "mlp_bias")
    return rotary(name, fields, gated=False, norm="layer")


def _stablelm(name: str, fields: Fields) -> Transformer:
    """StableLM 2 of 12B: attention and the MLP read one norm, and each head of q and k has a scale of its own."""
    parallel = flag(fields, "use_parallel_residual", default=False)
    return rotary(
        name,
        fields,
        shared=32,
        head_width=NO_HEAD_DIM,
        norm="layer",
        qkv_biases=flag(fields, "use_qkv_bias", default=False),
        norms_per_layer=1 if parallel else 2,
        parallel=parallel,
        head_norms=flag(fields, "qk_layernorm", default=False),
        head_norm_weights="projection",
    )


def _gpt_bigcode(name: str, fields: Fields) -> Transformer:
    """StarCoder and SantaCoder: GPT-2 whose heads share keys and values."""
    shared = 1 if flag(fields, "multi_query", default=True) else whole(fields, "n_head")
    return replace(_gpt2(name, {"activation_function": "gelu_pytorch_tanh", **fields}), kv_heads=shared)


def _phi(name: str, fields: Fields) -> Transformer:
    """Phi-1 and 2: attention and the MLP read one norm; the output layer has a bias, too."""
    without(fields, "qk_layernorm", "tie_word_embeddings")
    return rotary(
        name,
        fields,
        gated=False,
        norm="layer",
        biases=True,
        norms_per_layer=1,
        parallel=True,
        head_bias=True,
        formula_gelu=fields.get("hidden_act", "gelu_new") in _FORMULAS,
        drops=fields.get("resid_pdrop", 0.0) != 0,
    )


def _bloom(name: str, fields: Fields) -> Transformer:
    """Positions are in the scores (ALiBi), without parameters; the token embeddings have a norm of their own."""
    hidden = whole(fields, "hidden_size", "n_embed")
    return Transformer(
        name=name,
        layers=whole(fields, "n_layer", "num_hidden_layers"),
        hidden=hidden,
        heads=whole(fields, "n_head", "num_attention_heads"),
        feedforward=4 * hidden,
        vocabulary=whole(fields, "vocab_size", default=250_880),
        gated=False,
        norm="layer",
        biases=True,
        embedding_norm=True,
        tied=flag(fields, "tie_word_embeddings", default=True),
        context=whole(fields, "seq_length", default=2048),
        formula_gelu=True,
        drops=fields.get("hidden_dropout", 0.0) != 0,
    )


def _opt(name: str, fields: Fields) -> Transformer:
    """A table of two more positions than it has; the one of 350M, which has its norms behind, is another."""
    for field in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        with_all(fields, field)
    without(fields, "_remove_final_layer_norm")
    hidden, context = whole(fields, "hidden_size"), whole(fields, "max_position_embeddings", default=2048)
    if whole(fields, "word_embed_proj_dim", default=hidden) != hidden:
        raise ValueError("word_embed_proj_dim is another than hidden_size, which is not supported")
    return Transformer(
        name=name,
        layers=whole(fields, "num_hidden_layers"),
        hidden=hidden,
        heads=whole(fields, "num_attention_heads"),
        feedforward=whole(fields, "ffn_dim", default=4 * hidden),
        vocabulary=whole(fields, "vocab_size", default=50_272),
        gated=False,
        norm="layer",
        biases=True,
        tied=flag(fields, "tie_word_embeddings", default=True),
        positions=context + 2,
        context=context,
        drops=fields.get("dropout", 0.1) != 0,
    )


def _falcon(name: str, fields: Fields) -> Transformer:
    """Falcon of 7B and smaller (one head of keys and values, one norm), and of 11B, 40B and 180B ("new")."""
    is_new = flag(fields, "new_decoder_architecture", default=False)
    parallel = flag(fields, "parallel_attn", default=True)
    hidden, heads = whole(fields, "n_embed", "hidden_size"), whole(fields, "num_attention_heads")
    norms = whole(fields, "num_ln_in_parallel_attn", default=2 if is_new else 1) if parallel else 2
    if (is_new and not parallel) or (parallel and norms not in ((1, 2) if is_new else (1,))):
        raise ValueError(f"parallel_attn and num_ln_in_parallel_attn ({norms}) have no forward pass in its class")
    shared = whole(fields, "num_kv_heads", default=heads)
    own = {"hidden_size": hidden, "num_key_value_heads": heads if is_new or not _queries_share(fields) else 1}
    return rotary(
        name,
        {**fields, **own, "intermediate_size": whole(fields, "ffn_hidden_size", default=4 * hidden)},
        gated=False,
        norm="layer",
        biases=flag(fields, "bias", default=False),
        norms_per_layer=norms,
        parallel=parallel,
        tied=flag(fields, "tie_word_embeddings", default=True),
        **({"kv_heads": shared} if is_new else {}),
    )


def _queries_share(fields: Fields) -> bool:
    return flag(fields, "multi_query", default=True)


READERS: Mapping[str, Reader] = {
    "bloom": _bloom,
    "falcon": _falcon,
    "gpt2": _gpt2,
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "nemotron": _nemotron,
    "opt": _opt,
    "phi": _phi,
    "stablelm": _stablelm,
    "starcoder2": _starcoder2,
}
