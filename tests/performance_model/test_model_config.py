"""Shapes from config.json files, as far as they decide: parameters as the released models have them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.performance_model.activations import block_activation_bytes_per_token
from raybench.performance_model.model_config import is_config, model_of_config
from raybench.performance_model.training_setup import TrainingSetup

# What the released files say, as far as it decides on the shape; parameters of the released weights.
MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "Llama-3.1-8B": (8_030_261_248, {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 131072, "tie_word_embeddings": False, "attention_bias": False}),
    "Llama-2-7b": (6_738_415_616, {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}),
    "Mistral-7B-v0.1": (7_241_732_096, {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000}),
    "Mixtral-8x7B-v0.1": (46_702_792_704, {"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000,
        "num_local_experts": 8, "num_experts_per_tok": 2}),
    "Qwen2.5-7B": (7_615_616_512, {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064}),
    "Qwen2.5-0.5B": (494_032_768, {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936,
        "tie_word_embeddings": True}),
    "Qwen2.5-32B": (32_763_876_352, {"model_type": "qwen2", "hidden_size": 5120, "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 152064}),
    "Qwen3-8B": (8_190_735_360, {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
        "vocab_size": 151936}),
    "Qwen3-30B-A3B": (30_532_122_624, {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936}),
    "Qwen1.5-MoE-A2.7B": (14_315_784_192, {"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936}),
    "gemma-2b": (2_506_172_416, {"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
        "vocab_size": 256000}),
    "gemma-7b": (8_537_680_896, {"model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576,
        "vocab_size": 256000}),
    "gemma-2-9b": (9_241_705_984, {"model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336,
        "vocab_size": 256000}),
    "gpt2": (124_439_808, {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "n_inner": None, "vocab_size": 50257}),
    "pythia-6.9b": (6_857_302_016, {"model_type": "gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 16384, "vocab_size": 50432}),
    "Phi-3-mini-4k": (3_821_079_552, {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064}),
    "DeepSeek-V2-Lite": (15_706_484_224, {"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
        "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400, "moe_layer_freq": 1}),
    "phi-2": (2_779_683_840, {"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 10240, "vocab_size": 51200, "partial_rotary_factor": 0.4,
        "resid_pdrop": 0.1}),
}  # fmt: skip
# Whose memory is not counted beside the estimate (counted_config).
OTHERS: dict[str, tuple[int, dict[str, Any]]] = {
    "gemma-3-1b": (999_885_952, {"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 6912,
        "vocab_size": 262144}),
    "granite-3.1-8b": (8_170_848_256, {"model_type": "granite", "hidden_size": 4096, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12800, "vocab_size": 49155,
        "tie_word_embeddings": True}),
    "DeepSeek-V3": (671_026_404_352, {"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "n_shared_experts": 1,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 129280, "moe_layer_freq": 1}),
    "phi-1": (1_418_270_720, {"model_type": "phi", "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 32, "intermediate_size": 8192, "vocab_size": 51200}),
    "SmolLM3-3B": (3_075_098_624, {"model_type": "smollm3", "hidden_size": 2048, "num_hidden_layers": 36,
        "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008, "vocab_size": 128256}),
    "starcoder2-3b": (3_030_371_328, {"model_type": "starcoder2", "hidden_size": 3072, "num_hidden_layers": 30,
        "num_attention_heads": 24, "num_key_value_heads": 2, "intermediate_size": 12288, "vocab_size": 49152}),
}  # fmt: skip
QWEN_MOE, DEEPSEEK = MODELS["Qwen1.5-MoE-A2.7B"][1], MODELS["DeepSeek-V2-Lite"][1]


def written(folder: Path, fields: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return str(path)


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_parameters_are_those_of_the_released_model(name: str, tmp_path: Path) -> None:
    parameters, fields = {**MODELS, **OTHERS}[name]
    written(tmp_path, fields)
    model = model_of_config(str(tmp_path))  # by its folder
    assert model.parameters == parameters
    blocks = [shape for kind in model.kinds() for shape in kind.block_shapes() * kind.layers]
    assert sum(math.prod(shape) for shape in (*blocks, *model.outer_shapes())) == parameters


def test_a_token_of_a_mixture_computes_with_its_experts_alone(tmp_path: Path) -> None:
    """Mixtral's paper: 47B parameters, 13B of them for each token."""
    model = model_of_config(written(tmp_path, MODELS["Mixtral-8x7B-v0.1"][1]))
    assert (model.parameters - model.idle_parameters) / 1e9 == pytest.approx(12.9, abs=0.05)
    dense = model.flops_per_token(2048) - model.attention_flops_per_token(2048)
    assert dense == 6 * (model.parameters - model.idle_parameters - model.lookup_parameters)


def test_layers_without_experts_are_counted_apart(tmp_path: Path) -> None:
    """One that is named, and each of odd number: what all tokens pass is the same, what waits is less."""
    whole = model_of_config(written(tmp_path, QWEN_MOE))
    some = model_of_config(written(tmp_path, {**QWEN_MOE, "mlp_only_layers": [3], "decoder_sparse_step": 2}))
    experts, router, gate = 60 * 3 * 2048 * 1408, 60 * 2048, 2048  # as wide as the shared one is the MLP in their place
    assert whole.parameters - some.parameters == 13 * (experts + router + gate)
    assert whole.lora_parameters(8) - some.lora_parameters(8) == 13 * 60 * 3 * 8 * (2048 + 1408)
    shapes = [shape for kind in some.kinds() for shape in kind.block_shapes() * kind.layers]
    assert sum(math.prod(shape) for shape in (*shapes, *some.outer_shapes())) == some.parameters


def test_the_language_model_of_one_that_sees_is_taken(tmp_path: Path) -> None:
    parameters, fields = MODELS["Mistral-7B-v0.1"]
    assert model_of_config(written(tmp_path, {"model_type": "llava", "text_config": fields})).parameters == parameters


def test_what_a_file_leaves_out_is_as_its_class_has_it(tmp_path: Path) -> None:
    """As transformers counts: null heads of keys and values are as many as heads, absent ones the class's."""
    parameters, fields = MODELS["Mistral-7B-v0.1"]
    absent = {name: value for name, value in fields.items() if name != "num_key_value_heads"}
    assert model_of_config(written(tmp_path, absent)).parameters == parameters
    null = model_of_config(written(tmp_path, {**fields, "num_key_value_heads": None}))
    assert null.parameters == parameters + 32 * 2 * 4096 * (4096 - 1024)
    parameters, fields = MODELS["gpt2"]
    untied = model_of_config(written(tmp_path, {**fields, "tie_word_embeddings": False}))
    assert untied.parameters == parameters + 50257 * 768
    inner = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    seeing = model_of_config(written(tmp_path, {"model_type": "gemma3", "text_config": inner}))  # gemma-3-4b-it
    assert seeing.parameters == 3_880_263_168
    assert seeing.name.endswith("its language model")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": "mamba"}, "'mamba'.*count any other as package.module:factory"),
        ({}, "None"),
        ([1], "not hold a JSON object"),
        ({"model_type": "llama", "hidden_size": 4096}, "missing"),
        ({**MODELS["Llama-2-7b"][1], "num_hidden_layers": "32"}, "no whole number"),
        ({**MODELS["Llama-2-7b"][1], "num_hidden_layers": -1}, "layers"),
        ({**MODELS["Llama-2-7b"][1], "attention_bias": True}, "attention_bias"),
        ({**MODELS["Mixtral-8x7B-v0.1"][1], "num_experts_per_tok": 9}, "experts"),
        ({**DEEPSEEK, "first_k_dense_replace": 28}, "first_k_dense_replace is 28, of 27 layers"),
        ({**DEEPSEEK, "moe_layer_freq": 2}, "moe_layer_freq is not 1"),
        ({**DEEPSEEK, "num_key_value_heads": 4}, "num_key_value_heads is 4; latent attention has 16"),
        ({name: value for name, value in DEEPSEEK.items() if name != "q_lora_rank"}, "'q_lora_rank' is missing"),
        ({name: value for name, value in DEEPSEEK.items() if name != "v_head_dim"}, "'v_head_dim' is missing"),
        ({**MODELS["phi-2"][1], "qk_layernorm": True}, "qk_layernorm is true"),
        ({**QWEN_MOE, "mlp_only_layers": [24]}, "mlp_only_layers is .24., no list of layers from 0 to 23"),
        ({**QWEN_MOE, "mlp_only_layers": "0"}, "mlp_only_layers is 0, no list"),
        ({**QWEN_MOE, "num_experts": None}, "'num_experts' is missing"),
        ({**QWEN_MOE, "shared_expert_intermediate_size": 0}, "shared_expert_intermediate_size is 0"),
        ({**MODELS["Llama-2-7b"][1], "num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({**MODELS["Llama-2-7b"][1], "head_dim": 10**40}, "more than a transformer has"),
        ({**MODELS["Llama-2-7b"][1], "tie_word_embeddings": "false"}, "neither true nor false"),
        ({**MODELS["Qwen3-8B"][1], "attention_bias": True}, "attention_bias is true"),
        ({**MODELS["pythia-6.9b"][1], "attention_bias": False}, "attention_bias is false"),
    ],
)
def test_what_is_no_known_configuration_is_refused(fields: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        model_of_config(written(tmp_path, fields))


def test_paths_and_names_are_told_apart(tmp_path: Path) -> None:
    assert not is_config("llama-8b")
    assert is_config("config.json")
    assert is_config(str(tmp_path))
    with pytest.raises(UsageError, match="is not a file"):
        model_of_config(str(tmp_path / "absent" / "config.json"))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read as JSON"):
        model_of_config(str(tmp_path))


def test_what_transformers_computes_by_separate_operations_is_kept(tmp_path: Path) -> None:
    """Bytes of a token that the modules of transformers keep beyond fused ones, by reading them."""
    setup = TrainingSetup(batch_size=1, sequence_length=1024, parameter_bytes=2, compiled=False)

    def kept(name: str, **changes: Any) -> float:
        model = model_of_config(written(tmp_path, {**MODELS[name][1], **changes}))
        return block_activation_bytes_per_token(model, setup)

    masks = 2 * 768
    assert kept("gpt2") - kept("gpt2", activation_function="gelu") == 3 * 4 * 768 * 2
    assert kept("gpt2") - kept("gpt2", resid_pdrop=0.0) == masks
    capped = kept("gemma-2-9b") - kept("gemma-2-9b", attn_logit_softcapping=None)
    assert capped == 16 * (1024 * (2 + 4 + 2) - 4)
    model = model_of_config(written(tmp_path, MODELS["gemma-2-9b"][1]))
    fused = replace(setup, kernels="fused")  # FlashAttention caps by itself
    assert block_activation_bytes_per_token(model, fused) == block_activation_bytes_per_token(
        replace(model, caps_scores=False), fused
    )
