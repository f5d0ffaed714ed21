"""Released models by name: the parameters that their publishers' weights have, and which name is whose."""

import json
import os
import re
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.performance_model.models.config import is_config, model_of_config, shape_taken
from raybench.performance_model.models.presets import ALIASES, PRESETS
from raybench.performance_model.models.released import plain_name, released_id, released_models, released_names
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request


@pytest.mark.parametrize("model_id", released_models())
def test_parameters_are_those_of_the_released_weights(model_id: str) -> None:
    model = model_of_config(model_id)
    assert (model.name, model.parameters) == (model_id, released_models()[model_id]["parameters"])


def test_the_weights_of_mimo_have_a_layer_of_multi_token_prediction() -> None:
    """As it was released, 7,833,409,536 parameters; transformers leaves its layer out."""
    options = EstimateOptions(model="XiaomiMiMo/MiMo-7B-RL", mtp_layers=1, gpu="H100", program="megatron-lm")
    assert estimate_request(options).model.parameters == 7_833_409_536


def test_the_weights_of_glm_4_6_have_a_layer_of_multi_token_prediction() -> None:
    """As it was released, 356,785,898,816 parameters, of which its 90 routers' correction biases are 160 each."""
    options = EstimateOptions(model="zai-org/GLM-4.6", mtp_layers=1, gpu="H100", program="megatron-lm")
    assert estimate_request(options).model.parameters == 356_785_898_816 - 90 * 160


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("mistralai/Devstral-Small-2507", 131072),  # tuned from Mistral Small 3.1, not from 2501 with 32,768
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", 131072),  # YaRN over Qwen3-8B's
        ("zai-org/GLM-4.5", 131072),
        ("zai-org/GLM-4.7", 202752),
        ("moonshotai/Kimi-K2-Instruct", 131072),
        ("moonshotai/Kimi-K2-Thinking", 262144),
        ("Alibaba-NLP/Tongyi-DeepResearch-30B-A3B", 131072),
        ("tiiuae/Falcon3-1B-Base", 4096),
    ],
)
def test_a_tuned_model_is_made_for_its_own_positions(name: str, positions: int) -> None:
    assert model_of_config(name).context == positions


def test_a_preset_has_the_shape_of_the_released_model_of_its_name() -> None:
    named = {name: model_id for model_id, one in released_models().items() for name in one.get("names", ())}
    both = named.keys() & PRESETS.keys()
    assert len(both) >= 8
    for name in both:
        assert PRESETS[name].parameters == model_of_config(named[name]).parameters
        assert PRESETS[name].context == model_of_config(named[name]).context


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("Mixtral", "mistralai/Mixtral-8x7B-v0.1"),
        ("qwen2.5-32b", "Qwen/Qwen2.5-32B"),
        ("qwen/qwen2.5-32b-instruct", "Qwen/Qwen2.5-32B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"),
        ("google/gemma-3-4b-it", "google/gemma-3-4b-pt"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-70B"),
        ("Qwen/Qwen3-8B-Base", "Qwen/Qwen3-8B"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "meta-llama/Llama-3.1-70B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B-Instruct-2507"),
        ("pythia-12b", "EleutherAI/pythia-12b"),
        ("llama-8b", None),  # a preset by an alias
        ("gpt2", None),
        ("somebody/Qwen2.5-32B", None),  # another's model of the name
        ("mistralai/Mistral-Small-24B-Instruct-2501", "mistralai/Mistral-Small-24B-Base-2501"),
        ("meta-llama/Llama-2-7b-chat-hf", "meta-llama/Llama-2-7b-hf"),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-32B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.1-8B"),
        ("TheBloke/Mistral-7B-Instruct-v0.2-GPTQ", "mistralai/Mistral-7B-v0.1"),
        ("RedHatAI/Qwen2.5-7B-Instruct-quantized.w4a16", "Qwen/Qwen2.5-7B"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B"),
        ("unsloth/DeepSeek-R1-Distill-Llama-8B-unsloth-bnb-4bit", "meta-llama/Llama-3.1-8B"),
        ("ZhipuAI/glm-4-9b-chat", "THUDM/glm-4-9b"),
        ("somebody/Qwen2.5-32B-bnb-4bit", None),
        ("unsloth/Qwen2.5-33B-bnb-4bit", None),
        ("mistralai/Mistral-Small-24B-Instruct-2503", None),  # another release
        ("nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", None),  # another name
        ("qwen2.5-33b", None),
        ("zai-org/GLM-4.7-Flash", "zai-org/GLM-4.7-Flash"),
        ("unsloth/Magistral-Small-2506-unsloth-bnb-4bit", "mistralai/Mistral-Small-3.1-24B-Base-2503"),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "mistralai/Mistral-Small-3.1-24B-Base-2503"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B"),
        ("deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", "deepseek-ai/DeepSeek-V2-Lite"),
        ("XiaomiMiMo/MiMo-7B-Base", "XiaomiMiMo/MiMo-7B-RL"),
        ("CohereLabs/aya-expanse-8b", "CohereForAI/aya-expanse-8b"),
        ("01-ai/Yi-1.5-34B-Chat", "01-ai/Yi-34B"),
    ],
)
def test_whose_name_it_is(name: str, model_id: str | None) -> None:
    assert released_id(name) == model_id
    assert is_config(name) == (model_id is not None or "/" in name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("somebody/Llama-2-7b-hf", "did you mean meta-llama/Llama-2-7b-hf? Else give"),
        ("Qwen/Qwen2.5-32", "did you mean Qwen/Qwen2.5-32B? Else give"),
        ("nobody/of-this-name", "huggingface_hub; give a model's name"),
        ("./qwen2.5-32b", "huggingface_hub; give a model's name"),  # a folder
    ],
)
def test_a_name_that_is_no_model_s_is_told_with_those_that_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=re.escape(meant)):
        model_of_config(name)


def test_of_another_s_shape_it_is_said_whose_is_taken() -> None:
    assert shape_taken("unsloth/Qwen3-14B-unsloth-bnb-4bit") == "Qwen/Qwen3-14B"
    assert [shape_taken(name) for name in ("Qwen/Qwen3-14B", "qwen3-14b", "llama-8b", "somebody/Qwen3-14B")] == [
        None
    ] * 4
    basis = estimate_request(EstimateOptions(model="Qwen/Qwen3-14B-Base", gpu="H100")).basis
    assert basis["model"] == "Qwen/Qwen3-14B-Base by the shape of Qwen/Qwen3-14B, which it shares"
    assert "model" not in estimate_request(EstimateOptions(model="Qwen/Qwen3-14B", gpu="H100")).basis


def test_no_plain_name_is_of_two_models() -> None:
    """Without how it was tuned and stored, each name is still one model's."""
    owners: dict[str, set[str]] = {}
    for model_id, one in released_models().items():
        for name in (model_id.partition("/")[2].lower(), *one.get("names", ())):
            owners.setdefault(plain_name(name), set()).add(model_id)
    assert [found for found in owners.values() if len(found) > 1] == []


def test_no_name_is_of_two_models() -> None:
    names = [name for one in released_models().values() for name in one.get("names", ())]
    assert len(names) == len({*names})
    assert not {*released_names()} & {*PRESETS, *ALIASES}
    assert all(released_id(name) for name in released_names())


def test_a_file_goes_before_the_cache_and_the_cache_before_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = dict(released_models()["Qwen/Qwen2.5-32B"]["config"])
    for layers, when, snapshot in ((3, 100, "old"), (5, 200, "new")):
        folder = tmp_path / "hub/models--Qwen--Qwen2.5-32B/snapshots" / snapshot
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({**fields, "num_hidden_layers": layers}))
        os.utime(folder, (when, when))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert model_of_config("Qwen/Qwen2.5-32B").layers == 5
    assert model_of_config("qwen2.5-32b").layers == 64
    own = tmp_path / "Qwen/Qwen2.5-32B"
    own.mkdir(parents=True)
    (own / "config.json").write_text(json.dumps({**fields, "num_hidden_layers": 7}))
    assert model_of_config("Qwen/Qwen2.5-32B").layers == 7


@pytest.mark.parametrize("ending", ["", "/", "/tree/main", "/blob/main/config.json?download=true", "#usage"])
def test_the_page_of_a_model_is_its_name(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is copied from a browser was looked for as a folder, https:/huggingface.co/."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert model_of_config(f"https://huggingface.co/Qwen/Qwen2.5-32B{ending}").layers == 64
    with pytest.raises(UsageError, match=r"^--model Foo/Bar is not a file"):
        model_of_config(f"https://huggingface.co/Foo/Bar{ending}")
    with pytest.raises(UsageError, match=r"example\.org/Qwen/Qwen2\.5-32B"):
        model_of_config(f"https://example.org/Qwen/Qwen2.5-32B{ending}")


def test_a_name_that_is_nobodys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"^--model Foo/Bar is not a file, nor a released model"):
        model_of_config("Foo/Bar")
    with pytest.raises(UsageError, match="is not a file"):
        model_of_config("../../no/such")
