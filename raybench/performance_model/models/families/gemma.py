"""Gemma's kinds: heads of a width of their own, tied embeddings."""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.models.families.fields import Fields, Reader, flag, rotary, whole, with_biases
from raybench.performance_model.models.transformer import Transformer

_CAPS = {"caps_scores": "attn_logit_softcapping", "caps_logits": "final_logit_softcapping"}


def _gemma(name: str, fields: Fields) -> Transformer:
    return _of_gemma(name, fields, shared=16)


def _gemma2(name: str, fields: Fields) -> Transformer:
    caps = {own: fields.get(field, 1) is not None for own, field in _CAPS.items()}  # null: none
    return _of_gemma(name, fields, shared=4, norms_per_layer=4, **caps)


def _gemma3(name: str, fields: Fields) -> Transformer:
    """Files of the models that see leave out what is as its class has it."""
    usual = {"vocab_size": 262_208, "num_attention_heads": 8}
    return _of_gemma(name, {**usual, **fields}, shared=4, norms_per_layer=4, head_norms=True)


def _of_gemma(name: str, fields: Fields, **own: Any) -> Transformer:
    tied, width = flag(fields, "tie_word_embeddings", default=True), whole(fields, "head_dim", default=256)
    return rotary(name, fields, head_width=width, tied=tied, **with_biases(fields), **own)


READERS: Mapping[str, Reader] = {
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}
