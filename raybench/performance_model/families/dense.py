"""Of Llama's kind: one MLP a layer, RMSNorm, rotary positions."""

from collections.abc import Mapping

from raybench.performance_model.families.fields import Fields, Reader, flag, rotary, whole, without
from raybench.performance_model.transformer import Transformer


def _llama(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias", "mlp_bias")
    return rotary(name, fields)


def _smollm3(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias", "mlp_bias")
    return rotary(name, fields, shared=4, tied=flag(fields, "tie_word_embeddings", default=True))


def _mistral(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=8)


def _phi3(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields)


def _qwen2(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=32, qkv_biases=True)


def _qwen3(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    return rotary(name, fields, shared=32, head_norms=True, head_width=whole(fields, "head_dim", default=128))


def _olmo(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    return rotary(name, fields, norm="plain")


def _olmo2(name: str, fields: Fields) -> Transformer:
    """OLMo 2 and 3: norms behind attention and MLP, and of q and k as they leave their layers."""
    without(fields, "attention_bias")
    return rotary(name, fields, head_norms=True, head_norm_weights="projection")


READERS: Mapping[str, Reader] = {
    "llama": _llama,
    "granite": _llama,
    "smollm3": _smollm3,
    "mistral": _mistral,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo2,
}
