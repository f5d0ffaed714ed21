"""Shapes from config.json files, as far as they decide: parameters as the released models have them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.models.config import is_config, model_of_config
from raybench.performance_model.models.released import released_models
from raybench.performance_model.setup.training_setup import TrainingSetup


def _released(ids: dict[str, str]) -> dict[str, tuple[int, dict[str, Any]]]:
    """Parameters of the released weights, and what the released file says as far as it decides on the shape."""
    found = {name: released_models()[model_id] for name, model_id in ids.items()}
    return {name: (one["parameters"], dict(one["config"])) for name, one in found.items()}


MODELS = _released(
    {
        "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
        "Llama-2-7b": "meta-llama/Llama-2-7b-hf",
        "Mistral-7B-v0.1": "mistralai/Mistral-7B-v0.1",
        "Mixtral-8x7B-v0.1": "mistralai/Mixtral-8x7B-v0.1",
        "Qwen2.5-7B": "Qwen/Qwen2.5-7B",
        "Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B",
        "Qwen2.5-32B": "Qwen/Qwen2.5-32B",
        "Qwen3-8B": "Qwen/Qwen3-8B",
        "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B",
        "Qwen1.5-MoE-A2.7B": "Qwen/Qwen1.5-MoE-A2.7B",
        "gemma-2b": "google/gemma-2b",
        "gemma-7b": "google/gemma-7b",
        "gemma-2-9b": "google/gemma-2-9b",
        "gpt2": "openai-community/gpt2",
        "pythia-6.9b": "EleutherAI/pythia-6.9b",
        "Phi-3-mini-4k": "microsoft/Phi-3-mini-4k-instruct",
        "DeepSeek-V2-Lite": "deepseek-ai/DeepSeek-V2-Lite",
        "phi-2": "microsoft/phi-2",
        "OLMo-7B": "allenai/OLMo-7B-hf",
        "OLMo-2-7B": "allenai/OLMo-2-1124-7B",
        "OLMoE-1B-7B": "allenai/OLMoE-1B-7B-0924",
    }
)
# Whose memory is not counted beside the estimate (counted_config).
OTHERS = _released(
    {
        "gemma-3-1b": "google/gemma-3-1b-pt",
        "granite-3.1-8b": "ibm-granite/granite-3.1-8b-base",
        "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
        "phi-1": "microsoft/phi-1",
        "SmolLM3-3B": "HuggingFaceTB/SmolLM3-3B",
        "starcoder2-3b": "bigcode/starcoder2-3b",
        "OLMo-1B": "allenai/OLMo-1B-hf",
        "OLMo-2-32B": "allenai/OLMo-2-0325-32B",
        "Olmo-3-7B": "allenai/Olmo-3-1025-7B",
        "falcon-7b": "tiiuae/falcon-7b",
        "falcon-rw-1b": "tiiuae/falcon-rw-1b",
        "falcon-40b": "tiiuae/falcon-40b",
        "falcon-11B": "tiiuae/falcon-11B",
        "Llama-4-Scout": "meta-llama/Llama-4-Scout-17B-16E",
        "Llama-4-Maverick": "meta-llama/Llama-4-Maverick-17B-128E",
        "gpt-oss-20b": "openai/gpt-oss-20b",
        "gpt-oss-120b": "openai/gpt-oss-120b",
        "Mistral-Nemo-12B": "mistralai/Mistral-Nemo-Base-2407",
        "Mistral-Small-24B": "mistralai/Mistral-Small-24B-Base-2501",
        "phi-4": "microsoft/phi-4",
        "Phi-4-mini": "microsoft/Phi-4-mini-instruct",
        "gemma-2-27b": "google/gemma-2-27b",
        "gemma-3-27b": "google/gemma-3-27b-pt",
        "starcoder2-15b": "bigcode/starcoder2-15b",
        "mpt-7b": "mosaicml/mpt-7b",
        "gpt-j-6b": "EleutherAI/gpt-j-6b",
        "command-r-plus": "CohereForAI/c4ai-command-r-plus",
        "Phi-3.5-MoE": "microsoft/Phi-3.5-MoE-instruct",
    }
) | {
    "stablelm-2-12b": (12_143_185_920, {"model_type": "stablelm", "hidden_size": 5120, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 100352,
        "use_qkv_bias": False, "use_parallel_residual": True, "qk_layernorm": True, "partial_rotary_factor": 0.25}),
    "granite-3.0-3b-a800m": (3_298_793_472, {"model_type": "granitemoe", "hidden_size": 1536, "num_hidden_layers": 32,
        "num_attention_heads": 24, "num_key_value_heads": 8, "intermediate_size": 512, "vocab_size": 49155,
        "num_local_experts": 40, "num_experts_per_tok": 8, "tie_word_embeddings": True}),
    "internlm3-8b": (8_804_241_408, {"model_type": "internlm3", "hidden_size": 4096, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 10240,
        "vocab_size": 128512, "bias": False, "qkv_bias": False}),
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
    "bloom": (176_247_271_424, {"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112,
        "vocab_size": 250880}),
    "bloom-7b1": (7_069_016_064, {"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32,
        "vocab_size": 250880}),
    "opt-6.7b": (6_658_473_984, {"model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "ffn_dim": 16384, "vocab_size": 50272, "word_embed_proj_dim": 4096,
        "max_position_embeddings": 2048, "do_layer_norm_before": True}),
}  # fmt: skip
QWEN_MOE, DEEPSEEK = MODELS["Qwen1.5-MoE-A2.7B"][1], MODELS["DeepSeek-V2-Lite"][1]
# Of 2025 and 2026, counted once by transformers 5.23 on the meta device, where the files are long or none is released.
RECENT: dict[str, tuple[int, dict[str, Any]]] = {
    name: (parameters, fields)
    for name, (parameters, fields) in json.loads(Path(__file__).with_name("recent.json").read_text()).items()
}
OTHERS |= RECENT
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


@pytest.mark.parametrize("kind", ["qwen3_next", "falcon_h1", "lfm2", "jamba", "minimax", "nemotron_h"])
def test_a_model_of_recurrent_layers_is_refused_with_the_way_that_counts_it(kind: str, tmp_path: Path) -> None:
    fields = {**MODELS["Qwen3-8B"][1], "model_type": kind}
    refusal = rf"{kind} has layers without attention .*package\.module:factory of a torch"
    with pytest.raises(UsageError, match=refusal):
        model_of_config(written(tmp_path, fields))


def test_granite_4_is_read_where_all_of_its_layers_are_attention(tmp_path: Path) -> None:
    parameters, fields = RECENT["granite-4.0-micro"]
    assert model_of_config(written(tmp_path, fields)).parameters == parameters
    mixed = {**fields, "layer_types": ["mamba"] * 36 + ["attention"] * 4}
    with pytest.raises(UsageError, match="layers are of mamba, too"):
        model_of_config(written(tmp_path, mixed))
    with pytest.raises(UsageError, match="layers are of mamba, too"):
        model_of_config(written(tmp_path, {name: value for name, value in fields.items() if name != "layer_types"}))


@pytest.mark.parametrize("change", [{"moe_layer_end_index": 20}, {"moe_layer_interval": 2}, {"use_bias": True}])
def test_experts_elsewhere_than_in_the_last_layers_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    fields = RECENT["ERNIE-4.5-21B-A3B"][1]
    with pytest.raises(UsageError, match="not supported"):
        model_of_config(written(tmp_path, {**fields, **change}))


def test_a_language_model_of_one_that_sees_is_found_by_any_name_that_it_has(tmp_path: Path) -> None:
    parameters, fields = MODELS["Qwen2.5-7B"]
    flat = {**fields, "model_type": "qwen2_5_vl", "vision_config": {"depth": 32}}
    nested = [{"model_type": "internvl_chat", name: fields} for name in ("llm_config", "text_config")]
    for one in (flat, *nested):
        model = model_of_config(written(tmp_path, one))
        assert (model.parameters, model.name.endswith("its language model")) == (parameters, True)
    with pytest.raises(UsageError, match="no architecture"):
        model_of_config(written(tmp_path, {"model_type": "internvl_chat", "other_config": fields}))


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


@pytest.mark.parametrize("kind", ["qwen3_moe", "qwen2_moe", "olmoe", "mixtral", "gpt_oss", "deepseek_v3", "glm4_moe"])
def test_experts_are_counted_by_any_name_that_a_version_of_transformers_saves_them_by(
    kind: str, tmp_path: Path
) -> None:
    known = ("num_experts", "num_local_experts", "n_routed_experts")
    parameters, fields = next(one for one in (MODELS | OTHERS).values() if one[1]["model_type"] == kind)
    (count,) = (fields[name] for name in known if name in fields)
    for name in known:
        saved = {key: value for key, value in fields.items() if key not in known} | {name: count}
        (tmp_path / "config.json").write_text(json.dumps(saved))
        assert model_of_config(str(tmp_path)).parameters == parameters


@pytest.mark.parametrize(
    ("more", "context"),
    [
        ({}, 32768),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2}}, 65536),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}, 32768),
        ({"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 512}}, 32768),
        ({"rope_scaling": {"type": "yarn", "factor": "four"}}, 32768),
        ({"rope_scaling": None}, 32768),
    ],
)
def test_positions_are_those_that_a_rotary_model_s_scaling_stretches_them_to(
    more: dict[str, object], context: int, tmp_path: Path
) -> None:
    fields = MODELS["Qwen2.5-7B"][1] | {"max_position_embeddings": 32768} | more
    (tmp_path / "config.json").write_text(json.dumps(fields))
    assert model_of_config(str(tmp_path)).context == context


def test_the_language_model_of_one_that_sees_is_taken(tmp_path: Path) -> None:
    parameters, fields = MODELS["Mistral-7B-v0.1"]
    assert model_of_config(written(tmp_path, {"model_type": "llava", "text_config": fields})).parameters == parameters


@pytest.mark.parametrize(
    ("name", "heeded"),
    [("pythia", False), ("OLMoE-1B-7B", False), ("stablelm-2-1_6b", False), ("nemotron-like", True)],
)
def test_a_width_of_heads_is_read_for_classes_that_take_one_alone(name: str, heeded: bool, tmp_path: Path) -> None:
    """As transformers builds them (5.23, on the meta device)."""
    fields = next(model[1] for key, model in {**MODELS, **OTHERS}.items() if key.startswith(name))
    plain, wider = (model_of_config(written(tmp_path, {**fields, **more})) for more in ({}, {"head_dim": 96}))
    assert (wider.parameters != plain.parameters) is heeded


@pytest.mark.parametrize(
    ("name", "fields", "more"),
    [
        ("Llama-2-7b", {"attention_bias": True}, 32 * 4 * 4096),
        ("Llama-2-7b", {"mlp_bias": True}, 32 * (2 * 11008 + 4096)),
        ("Llama-2-7b", {"attention_bias": True, "mlp_bias": True}, 32 * (5 * 4096 + 2 * 11008)),
        ("Mistral-7B-v0.1", {"attention_bias": True}, 0),  # whose class has none
        ("Qwen3-8B", {"attention_bias": True}, 36 * (4096 + 2 * 1024 + 4096)),
        ("Qwen3-30B-A3B", {"attention_bias": True}, 48 * (4096 + 2 * 512 + 2048)),
        ("OLMo-2-7B", {"attention_bias": True}, 32 * 4 * 4096),
        ("gemma-7b", {"attention_bias": True}, 28 * (3 * 4096 + 3072)),
        ("AFM-4.5B", {"mlp_bias": True}, 36 * (18432 + 2560)),  # not gated
        ("ERNIE-4.5-0.3B", {"use_bias": True}, 18 * (2048 + 2 * 256 + 1024 + 2 * 3072 + 1024)),
    ],
)
def test_biases_that_a_file_turns_on_are_counted(name: str, fields: dict[str, bool], more: int, tmp_path: Path) -> None:
    """As transformers builds them (5.23, on the meta device); they were refused."""
    parameters, plain = {**MODELS, **OTHERS}[name]
    model = model_of_config(written(tmp_path, {**plain, **fields}))
    assert model.parameters - parameters == more
    blocks = [shape for kind in model.kinds() for shape in kind.block_shapes() * kind.layers]
    assert sum(math.prod(shape) for shape in (*blocks, *model.outer_shapes())) == model.parameters


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    parameters, fields = MODELS["Llama-2-7b"]
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8-sig")
    assert model_of_config(str(tmp_path)).parameters == parameters


@pytest.mark.parametrize(
    "name", ["a" * 5000 + ".json", "a/" * 3000, "~no-such-user/model", "a\0b.json", "b" * 300 + "/c"]
)
def test_a_path_that_no_machine_has_is_refused(name: str) -> None:
    """One longer than any was a traceback."""
    assert is_config(name)
    with pytest.raises(UsageError, match="is not a file"):
        model_of_config(name)


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
        ({"model_type": "mamba"}, "mamba has layers without attention.*count any other as package.module:factory"),
        (
            {"model_type": "qwen3_next", "num_hidden_layers": 48},
            "qwen3_next has layers without attention.*as package.module",
        ),
        ({**FALCON, "new_decoder_architecture": True, "parallel_attn": False}, "have no forward pass in its class"),
        ({**FALCON, "num_ln_in_parallel_attn": 2}, "num_ln_in_parallel_attn .2. have no forward pass"),
        ({**FALCON, "bias": 1}, "bias is 1, neither true nor false"),
        ({**MAVERICK, "moe_layers": [48]}, "moe_layers is .48., no list of layers from 0 to 47"),
        ({**MAVERICK, "num_local_experts": None}, "'num_local_experts' is missing"),
        ({**OTHERS["gpt-oss-20b"][1], "attention_bias": False}, "attention_bias is false"),
        ({**MODELS["gemma-2-9b"][1], "attention_bias": "yes"}, "attention_bias is 'yes', neither true nor false"),
        ({}, "has no model_type.*count any other as package.module"),
        ([1], "not hold a JSON object"),
        ({"model_type": "llama", "hidden_size": 4096}, "missing"),
        ({**MODELS["Llama-2-7b"][1], "num_hidden_layers": "32"}, "no whole number"),
        ({**MODELS["Llama-2-7b"][1], "num_hidden_layers": -1}, "layers"),
        (
            {**OTHERS["AFM-4.5B"][1], "model_type": "helium", "head_dim": 64},
            "head_dim is 64, and its heads.*count any other as package.module",
        ),
        ({**OTHERS["internlm3-8b"][1], "mlp_bias": True}, "mlp_bias is true"),
        ({**OTHERS["opt-6.7b"][1], "_remove_final_layer_norm": True}, "_remove_final_layer_norm is true"),
        ({**MODELS["Mixtral-8x7B-v0.1"][1], "num_experts_per_tok": 9}, "experts"),
        ({**DEEPSEEK, "first_k_dense_replace": 28}, "first_k_dense_replace is 28, of 27 layers"),
        ({**DEEPSEEK, "moe_layer_freq": 2}, "moe_layer_freq is not 1"),
        ({**DEEPSEEK, "num_key_value_heads": 4}, "num_key_value_heads is 4; latent attention has 16"),
        ({name: value for name, value in DEEPSEEK.items() if name != "q_lora_rank"}, "'q_lora_rank' is missing"),
        ({name: value for name, value in DEEPSEEK.items() if name != "v_head_dim"}, "'v_head_dim' is missing"),
        ({**MODELS["phi-2"][1], "qk_layernorm": True}, "qk_layernorm is true"),
        ({**OTHERS["mpt-7b"][1], "attn_config": {"alibi": True, "qk_ln": True}}, "qk_ln is true"),
        ({**OTHERS["mpt-7b"][1], "attn_config": {"alibi": False}}, "no_bias or alibi is false"),
        ({**OTHERS["mpt-7b"][1], "attn_config": "alibi"}, "attn_config is alibi, no object of fields"),
        ({"model_type": "chatglm", "num_layers": 28, "hidden_size": 4096}, "'num_attention_heads' is missing"),
        ({**released_models()["Qwen/Qwen-7B"]["config"], "no_bias": False}, "no_bias is false"),
        ({**QWEN_MOE, "mlp_only_layers": [24]}, "mlp_only_layers is .24., no list of layers from 0 to 23"),
        ({**QWEN_MOE, "mlp_only_layers": "0"}, "mlp_only_layers is 0, no list"),
        ({**QWEN_MOE, "num_experts": None}, "'num_experts' is missing"),
        ({**QWEN_MOE, "shared_expert_intermediate_size": -1}, "shared_expert_intermediate_size is -1"),
        ({**MODELS["Llama-2-7b"][1], "num_key_value_heads": 0}, "num_key_value_heads is 0"),
        (
            {**MODELS["Llama-2-7b"][1], "head_dim": 10**40},
            r"head_dim is 10{19}\.\.\. .41 digits.; no model has so much",
        ),
        ({**MODELS["Llama-2-7b"][1], "tie_word_embeddings": "false"}, "neither true nor false"),
        ({**OTHERS["opt-6.7b"][1], "do_layer_norm_before": False}, "do_layer_norm_before is false"),  # as OPT-350M
        ({**OTHERS["opt-6.7b"][1], "word_embed_proj_dim": 512}, "another than hidden_size"),
        ({**MODELS["pythia-6.9b"][1], "attention_bias": False}, "attention_bias is false"),
    ],
)
def test_what_is_no_known_configuration_is_refused(fields: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        model_of_config(written(tmp_path, fields))


def test_a_shared_expert_may_have_no_width(tmp_path: Path) -> None:
    """As who trains a mixture without one writes it in Qwen's form: transformers builds it, and its gate."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    fields = {**QWEN_MOE, "shared_expert_intermediate_size": 0}
    model = model_of_config(written(tmp_path, fields))
    with torch.device("meta"):
        built = transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(**fields))
    assert model.parameters == sum(one.numel() for one in built.parameters())


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


def test_a_file_of_another_name_names_its_model(tmp_path: Path) -> None:
    fields = {name: value for name, value in MODELS["Mixtral-8x7B-v0.1"][1].items() if name != "_name_or_path"}
    other = tmp_path / "my-mixture.json"
    other.write_text(json.dumps(fields))
    assert model_of_config(str(other)).name == "my-mixture"
    assert model_of_config(written(tmp_path, fields)).name == tmp_path.name


def test_a_model_type_prints_no_lines_of_its_own(tmp_path: Path) -> None:
    """A config.json is somebody else's: what it says stays on the line of the error."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "x\n# VERDICT: OK"}))
    with pytest.raises(UsageError) as error:
        model_of_config(str(tmp_path))
    assert "\n" not in str(error.value)
