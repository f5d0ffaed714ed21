"""Models whose code stands beside their weights (``trust_remote_code``), and that transformers itself has not.

By the modeling files of their repositories: internlm/internlm2-7b, baichuan-inc/Baichuan2-7B-Base, Qwen/Qwen-7B,
THUDM/chatglm3-6b and THUDM/glm-4-9b, openbmb/MiniCPM-2B, deepseek-ai/deepseek-moe-16b-base, xverse/XVERSE-13B,
LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct.
"""

from collections.abc import Mapping
from typing import Any

from raybench.performance_model.models.families.fields import Fields, Reader, flag, rotary, whole, with_all, without
from raybench.performance_model.models.transformer import Transformer


def _internlm(name: str, fields: Fields) -> Transformer:
    """The first InternLM has biases in all of attention, the second none."""
    biased = flag(fields, "bias", default=fields.get("model_type") == "internlm")
    return rotary(name, fields, qkv_biases=biased, other_parameters=whole(fields, "hidden_size") if biased else 0)


def _baichuan(name: str, fields: Fields) -> Transformer:
    """Of 13B with positions in the scores (ALiBi): the parameters are the same. One matrix gives q, k and v."""
    return rotary(name, fields, context=whole(fields, "model_max_length", "max_position_embeddings", default=4096))


def _xverse(name: str, fields: Fields) -> Transformer:
    return rotary(name, fields)


def _minicpm(name: str, fields: Fields) -> Transformer:
    without(fields, "attention_bias")
    return rotary(name, fields, tied=flag(fields, "tie_word_embeddings", default=True))


def _qwen(name: str, fields: Fields) -> Transformer:
    """Of 2023: two layers of half the inner width that the file names; biases for q, k and v alone."""
    with_all(fields, "no_bias")
    width = whole(fields, "kv_channels", default=128)
    named: dict[str, Any] = {**fields, "intermediate_size": whole(fields, "intermediate_size") // 2}
    length = whole(fields, "seq_length", "max_position_embeddings", default=8192)
    return rotary(name, named, qkv_biases=True, head_width=width, context=length)


def _chatglm(name: str, fields: Fields) -> Transformer:
    """ChatGLM2 and 3, GLM-4 of 2024; the first ChatGLM has other fields, and is refused for it."""
    without(fields, "add_bias_linear")
    for field in ("rmsnorm", "post_layer_norm"):
        with_all(fields, field)
    heads = whole(fields, "num_attention_heads")
    groups = whole(fields, "multi_query_group_num", default=1)
    named: dict[str, Any] = {
        "num_hidden_layers": whole(fields, "num_layers"),
        "hidden_size": whole(fields, "hidden_size"),
        "num_attention_heads": heads,
        "num_key_value_heads": groups if flag(fields, "multi_query_attention", default=False) else heads,
        "head_dim": whole(fields, "kv_channels", default=128),
        "intermediate_size": whole(fields, "ffn_hidden_size"),
        "vocab_size": whole(fields, "padded_vocab_size"),
        "max_position_embeddings": whole(fields, "seq_length", default=2048),
        "tie_word_embeddings": flag(fields, "tie_word_embeddings", default=False),
    }
    return rotary(name, named, qkv_biases=flag(fields, "add_qkv_bias", default=False))


def _exaone(name: str, fields: Fields) -> Transformer:
    """EXAONE 3 and 3.5: Llama's layers under names of their own."""
    return rotary(name, {**fields, "num_hidden_layers": whole(fields, "num_layers", "num_hidden_layers")})


def _deepseek(name: str, fields: Fields) -> Transformer:
    """DeepSeekMoE 16B: Llama's attention, experts beside shared ones, the first layers without."""
    without(fields, "attention_bias")
    layers, dense = whole(fields, "num_hidden_layers"), whole(fields, "first_k_dense_replace", default=0, least=0)
    if dense > layers:
        raise ValueError(f"first_k_dense_replace is {dense}, of {layers} layers")
    if whole(fields, "moe_layer_freq", default=1) != 1:
        raise ValueError("moe_layer_freq is not 1, which is not supported")
    width = whole(fields, "moe_intermediate_size")
    return rotary(
        name,
        fields,
        feedforward=width,
        shared_feedforward=width * whole(fields, "n_shared_experts", default=0, least=0),
        dense_layers=dense,
        dense_feedforward=whole(fields, "intermediate_size") if dense else 0,
        experts=whole(fields, "n_routed_experts"),
        experts_per_token=whole(fields, "num_experts_per_tok"),
    )


READERS: Mapping[str, Reader] = {
    "baichuan": _baichuan,
    "chatglm": _chatglm,
    "deepseek": _deepseek,
    "exaone": _exaone,
    "internlm": _internlm,
    "internlm2": _internlm,
    "minicpm": _minicpm,
    "qwen": _qwen,
    "xverse": _xverse,
}
