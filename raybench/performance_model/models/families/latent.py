"""DeepSeek's: latent attention, experts beside shared ones, the first layers without experts."""

from collections.abc import Mapping

from raybench.performance_model.models.families.fields import Fields, Reader, rotary, whole, without
from raybench.performance_model.models.transformer import Transformer


def _deepseek(name: str, fields: Fields) -> Transformer:
    """Fields are those of DeepSeek's own files: the classes' defaults are of no released model, and none is taken."""
    without(fields, "attention_bias", "mlp_bias")
    layers, dense = whole(fields, "num_hidden_layers"), whole(fields, "first_k_dense_replace", least=0)
    if whole(fields, "moe_layer_freq", default=1) != 1:
        raise ValueError("moe_layer_freq is not 1, which transformers does not know")
    if dense > layers:
        raise ValueError(f"first_k_dense_replace is {dense}, of {layers} layers")
    heads, width = whole(fields, "num_attention_heads"), whole(fields, "moe_intermediate_size")
    if whole(fields, "num_key_value_heads", default=heads) != heads:
        raise ValueError(f"num_key_value_heads is {fields['num_key_value_heads']}; latent attention has {heads}")
    turned = whole(fields, "qk_rope_head_dim")
    if "q_lora_rank" not in fields:
        raise KeyError("q_lora_rank")
    return rotary(
        name,
        fields,
        head_width=whole(fields, "qk_nope_head_dim") + turned,
        rotary_width=turned,
        value_width=whole(fields, "v_head_dim"),
        key_value_rank=whole(fields, "kv_lora_rank"),
        query_rank=0 if fields["q_lora_rank"] is None else whole(fields, "q_lora_rank"),
        feedforward=width,
        experts=whole(fields, "n_routed_experts", "num_local_experts", "num_experts"),  # as it was saved
        experts_per_token=whole(fields, "num_experts_per_tok"),
        shared_feedforward=width * whole(fields, "n_shared_experts"),
        dense_layers=dense,
        dense_feedforward=whole(fields, "intermediate_size"),
        predicting_in_config=whole(fields, "num_nextn_predict_layers", default=0, least=0),
    )


# Kimi K2 and GLM 4.7 Flash are DeepSeek-V3 in other sizes.
READERS: Mapping[str, Reader] = dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2"), _deepseek)
