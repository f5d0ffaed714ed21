"""Of Llama's kind: one MLP a layer, RMSNorm, rotary positions."""

from collections.abc import Mapping

from raybench.performance_model.models.families.fields import Fields, Reader, flag, rotary, whole, with_biases, without
from raybench.performance_model.models.transformer import Transformer


def _llama(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, **with_biases(fields, mlp="mlp_bias"))


def _smollm3(name: str, fields: Fields) -> Transformer:
    tied = flag(fields, "tie_word_embeddings", default=True)
    return rotary(name, fields, shared=4, tied=tied, **with_biases(fields, mlp="mlp_bias"))


def _mistral(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=8)


def _phi3(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields)


def _qwen2(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=32, qkv_biases=True)


def _mimo(name: str, fields: Fields) -> Transformer:
    """MiMo of 7B: Qwen 2 with layers of multi-token prediction, which Megatron-LM alone trains."""
    ahead = whole(fields, "num_nextn_predict_layers", default=0, least=0)
    biases = flag(fields, "attention_bias", default=True)
    return rotary(name, fields, shared=32, qkv_biases=biases, predicting_in_config=ahead)


def _qwen3(name: str, fields: Fields) -> Transformer:
    width = whole(fields, "head_dim", default=128)
    return rotary(name, fields, shared=32, head_norms=True, head_width=width, **with_biases(fields))


def _olmo(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, norm="plain", **with_biases(fields))


def _olmo2(name: str, fields: Fields) -> Transformer:
    """OLMo 2 and 3: norms behind attention and MLP, and of q and k as they leave their layers."""
    return rotary(name, fields, head_norms=True, head_norm_weights="projection", **with_biases(fields))


def _seed_oss(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_out_bias", "mlp_bias")
    return rotary(name, fields, shared=8, qkv_biases=flag(fields, "attention_bias", default=True))


def _ernie(name: str, fields: Fields) -> Transformer:
    tied = flag(fields, "tie_word_embeddings", default=True)
    return rotary(name, fields, shared=2, tied=tied, **with_biases(fields, attention="use_bias", mlp="use_bias"))


def _hunyuan(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, head_norms=True, **with_biases(fields))


def _exaone4(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=32, head_norms=True)


def _arcee(name: str, fields: Fields) -> Transformer:
    """A ReLU, squared, in place of SwiGLU."""
    return rotary(name, fields, gated=False, **with_biases(fields, mlp="mlp_bias", gated=False))


def _glm(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields, shared=2, qkv_biases=flag(fields, "attention_bias", default=True))


def _glm4(name: str, fields: Fields) -> Transformer:
    """GLM-4 of 2025: norms behind attention and MLP, too."""
    biases = flag(fields, "attention_bias", default=False)
    return rotary(name, fields, shared=2, qkv_biases=biases, norms_per_layer=4)


def _cohere(name: str, fields: Fields) -> Transformer:
    """Command R: attention and the MLP read one norm, which has a scale only; of R+ q and k have norms of their own."""
    return rotary(
        name,
        fields,
        **with_biases(fields),
        norms_per_layer=1,
        parallel=True,
        tied=flag(fields, "tie_word_embeddings", default=True),
        head_norms=flag(fields, "use_qk_norm", default=False),
        head_norm_weights="projection",
    )


def _helium(name: str, fields: Fields) -> Transformer:
    """Its output of attention is as wide as the model, whatever its heads are."""
    without(fields, "attention_bias", "mlp_bias")
    width, inner = whole(fields, "head_dim", default=128), whole(fields, "hidden_size")
    if whole(fields, "num_attention_heads") * width != inner:
        raise ValueError(f"head_dim is {width}, and its heads together are not as wide as the model ({inner})")
    return rotary(name, fields, shared=20, head_width=width)


def _internlm3(name: str, fields: Fields) -> Transformer:
    without(fields, "bias", "qkv_bias", "attention_bias", "mlp_bias")
    return rotary(name, fields, shared=2, head_width=whole(fields, "head_dim", default=128))


READERS: Mapping[str, Reader] = {
    "llama": _llama,
    "aquila": _llama,
    "Yi": _llama,
    "arcee": _arcee,
    "cohere": _cohere,
    "cohere2": _cohere,
    "ernie4_5": _ernie,
    "exaone4": _exaone4,
    "glm": _glm,
    "glm4": _glm4,
    "granite": _llama,
    "helium": _helium,
    "hunyuan_v1_dense": _hunyuan,
    "internlm3": _internlm3,
    "mimo": _mimo,
    "ministral": _mistral,
    "ministral3": _mistral,
    "seed_oss": _seed_oss,
    "smollm3": _smollm3,
    "mistral": _mistral,
    "phi3": _phi3,
    "qwen2": _qwen2,
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _qwen2),  # their language models
    "qwen3": _qwen3,
    "qwen3_vl_text": _qwen3,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "olmo3": _olmo2,
}
