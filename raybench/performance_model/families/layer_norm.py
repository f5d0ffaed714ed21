"""Models with LayerNorm, and biases in their linear layers."""

from collections.abc import Mapping

from raybench.performance_model.families.fields import Fields, Reader, flag, rotary, whole, without
from raybench.performance_model.transformer import Transformer

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
    _all_biases(fields, "attention_bias")
    return rotary(name, fields, gated=False, norm="layer", biases=True, kv_heads=0)


def _starcoder2(name: str, fields: Fields) -> Transformer:
    _all_biases(fields, "use_bias")
    tied = flag(fields, "tie_word_embeddings", default=True)
    return rotary(name, fields, shared=2, gated=False, norm="layer", biases=True, tied=tied)


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


def _all_biases(fields: Fields, name: str) -> None:
    if not flag(fields, name, default=True):
        raise ValueError(f"{name} is false, which is not supported")


READERS: Mapping[str, Reader] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "phi": _phi,
    "starcoder2": _starcoder2,
}
