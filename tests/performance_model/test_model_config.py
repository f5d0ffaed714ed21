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
    "OLMo-7B": (6_888_095_744, {"model_type": "olmo", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 50304}),
    "OLMo-2-7B": (7_298_617_344, {"model_type": "olmo2", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 100352}),
    "OLMoE-1B-7B": (6_919_161_856, {"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 1024, "num_experts": 64,
        "num_experts_per_tok": 8, "vocab_size": 50304}),
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
    "OLMo-1B": (1_176_764_416, {"model_type": "olmo", "hidden_size": 2048, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 8192, "vocab_size": 50304,
        "clip_qkv": None, "tie_word_embeddings": True}),
    "OLMo-2-32B": (32_234_279_936, {"model_type": "olmo2", "hidden_size": 5120, "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 100352}),
    "Olmo-3-7B": (7_298_011_136, {"model_type": "olmo3", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 100278}),
    "falcon-7b": (6_921_720_704, {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
        "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": True, "parallel_attn": True, "bias": False,
        "new_decoder_architecture": False, "alibi": False, "vocab_size": 65024}),
    "falcon-rw-1b": (1_311_625_216, {"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 32, "num_kv_heads": 32, "multi_query": False, "parallel_attn": False, "bias": True,
        "new_decoder_architecture": False, "alibi": True, "vocab_size": 50304}),
    "falcon-40b": (41_303_293_952, {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
        "num_attention_heads": 128, "num_kv_heads": 8, "multi_query": True, "parallel_attn": True, "bias": False,
        "new_decoder_architecture": True, "alibi": False, "vocab_size": 65024}),
    "falcon-11B": (11_102_822_400, {"model_type": "falcon", "hidden_size": 4096, "num_hidden_layers": 60,
        "num_attention_heads": 32, "num_kv_heads": 8, "ffn_hidden_size": 16384, "num_ln_in_parallel_attn": 1,
        "parallel_attn": True, "bias": False, "new_decoder_architecture": True, "tie_word_embeddings": False,
        "vocab_size": 65024}),
    "Seed-OSS-36B": (36_151_104_512, {"model_type": "seed_oss", "hidden_size": 5120, "num_hidden_layers": 64,
        "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 27648,
        "vocab_size": 155136, "attention_bias": True, "attention_out_bias": False, "mlp_bias": False}),
    "AFM-4.5B": (4_619_184_640, {"model_type": "arcee", "hidden_size": 2560, "num_hidden_layers": 36,
        "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 18432,
        "vocab_size": 128004}),
    "Hunyuan-0.5B": (539_010_048, {"model_type": "hunyuan_v1_dense", "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3584,
        "vocab_size": 120818, "tie_word_embeddings": True}),
    "ERNIE-4.5-0.3B": (360_748_032, {"model_type": "ernie4_5", "hidden_size": 1024, "num_hidden_layers": 18,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 3072,
        "vocab_size": 103424, "tie_word_embeddings": True, "use_bias": False}),
    "EXAONE-4.0-32B": (32_003_216_384, {"model_type": "exaone4", "hidden_size": 5120, "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 27392,
        "vocab_size": 102400}),
    "glm-4-9b": (9_399_951_360, {"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696,
        "vocab_size": 151552, "attention_bias": True}),
    "GLM-4-9B-0414": (9_400_279_040, {"model_type": "glm4", "hidden_size": 4096, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696,
        "vocab_size": 151552, "attention_bias": True}),
    "GLM-4.5-Air": (106_852_245_504, {"model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "first_k_dense_replace": 1, "vocab_size": 151552, "attention_bias": True, "use_qk_norm": False}),
    "c4ai-command-r-v01": (34_980_831_232, {"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40,
        "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528, "vocab_size": 256000}),
    "c4ai-command-r7b": (8_028_033_024, {"model_type": "cohere2", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 256000}),
    "nemotron-like": (7_734_829_056, {"model_type": "nemotron", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 16384,
        "vocab_size": 256000}),
    "stablelm-2-1_6b": (1_644_515_328, {"model_type": "stablelm", "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 5632, "vocab_size": 100352,
        "use_qkv_bias": True}),
    "gpt_bigcode-santacoder": (1_124_886_528, {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16,
        "n_inner": 8192, "n_positions": 2048, "vocab_size": 49280, "multi_query": True}),
    "Llama-4-Scout": (107_769_861_120, {"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1, "use_qk_norm": True, "attention_chunk_size": 8192, "vocab_size": 202048}),
    "Llama-4-Maverick": (400_711_848_960, {"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_local_experts": 128, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2, "use_qk_norm": False, "attention_chunk_size": 8192, "vocab_size": 202048}),
    "gpt-oss-20b": (20_914_757_184, {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
        "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088}),
    "gpt-oss-120b": (116_829_156_672, {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
        "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088}),
    "Mistral-Nemo-12B": (12_247_782_400, {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
        "vocab_size": 131072}),
    "Mistral-Small-24B": (23_572_403_200, {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768,
        "vocab_size": 131072}),
    "phi-4": (14_659_507_200, {"model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 40, "num_key_value_heads": 10, "intermediate_size": 17920, "vocab_size": 100352}),
    "Phi-4-mini": (3_836_021_760, {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32,
        "num_attention_heads": 24, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 200064,
        "partial_rotary_factor": 0.75, "tie_word_embeddings": True}),
    "gemma-2-27b": (27_227_128_320, {"model_type": "gemma2", "hidden_size": 4608, "num_hidden_layers": 46,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 36864,
        "vocab_size": 256000}),
    "gemma-3-27b": (27_009_346_304, {"model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504,
        "vocab_size": 262208}),
    "starcoder2-15b": (15_957_889_024, {"model_type": "starcoder2", "hidden_size": 6144, "num_hidden_layers": 40,
        "num_attention_heads": 48, "num_key_value_heads": 4, "intermediate_size": 24576, "vocab_size": 49152,
        "tie_word_embeddings": False}),
}  # fmt: skip
QWEN_MOE, DEEPSEEK = MODELS["Qwen1.5-MoE-A2.7B"][1], MODELS["DeepSeek-V2-Lite"][1]
FALCON, MAVERICK = OTHERS["falcon-7b"][1], OTHERS["Llama-4-Maverick"][1]


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


def test_layers_with_experts_are_those_that_are_named_or_each_so_many_th(tmp_path: Path) -> None:
    """Llama 4 Maverick: each second layer. An empty list is as many as none."""

    def counted(**changes: Any) -> tuple[int, int]:
        model = model_of_config(written(tmp_path, {**MAVERICK, **changes}))
        return model.layers - model.dense_layers, model.parameters

    assert counted() == counted(moe_layers=[*range(1, 48, 2)]) == (24, 400_711_848_960)
    assert counted(interleave_moe_layer_step=5)[0] == len(range(4, 48, 5))
    assert counted(moe_layers=[])[0] == 0
    whole = model_of_config(written(tmp_path, {"model_type": "llama4", "text_config": MAVERICK}))
    assert (whole.parameters, whole.name.endswith("its language model")) == (400_711_848_960, True)


def test_biases_of_experts_that_wait_are_computed_for_no_token(tmp_path: Path) -> None:
    """OpenAI: 3.6B of gpt-oss-20b's parameters for each token, with the output layer and without the token table."""
    model = model_of_config(written(tmp_path, OTHERS["gpt-oss-20b"][1]))
    assert model.computing_parameters / 1e9 == pytest.approx(3.61, abs=0.01)


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
        ({"model_type": "qwen3_next", "num_hidden_layers": 48}, "'qwen3_next'.*count any other as package.module"),
        ({**FALCON, "new_decoder_architecture": True, "parallel_attn": False}, "have no forward pass in its class"),
        ({**FALCON, "num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn .2. have no forward pass"),
        ({**FALCON, "bias": 1}, "bias is 1, neither true nor false"),
        ({**MAVERICK, "moe_layers": [48]}, "moe_layers is .48., no list of layers from 0 to 47"),
        ({**MAVERICK, "num_local_experts": None}, "'num_local_experts' is missing"),
        ({**OTHERS["gpt-oss-20b"][1], "attention_bias": False}, "attention_bias is false"),
        ({**MODELS["OLMo-2-7B"][1], "attention_bias": True}, "attention_bias is true"),
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
