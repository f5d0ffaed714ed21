"""A config.json names what is trained: the same parameters as ``raybench estimate`` counts, or a refusal with why."""

import json
from pathlib import Path
from typing import Any

import pytest

from raybench.benchmarks.memory.options import MemoryOptions
from raybench.benchmarks.registry import labels_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.config_shape import with_config
from raybench.benchmarks.training.models.shapes import check_model, parameter_count, shape_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.errors import UsageError
from raybench.performance_model.models.config import model_of_config
from raybench.performance_model.models.presets import PRESETS
from tests.performance_model.configs.test_model_config import MODELS, written

SMALL = {
         "model_type": "llama", "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6,
         "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 600, "max_position_embeddings": 512,
}  # fmt: skip


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Llama-2-7b", "Mistral-7B-v0.1", "Qwen2.5-7B", "gpt2"])
def test_a_model_that_is_a_preset_is_named_by_it(name: str, tmp_path: Path) -> None:
    fields = {"max_position_embeddings": 32768} | MODELS[name][1]
    settings = with_config({"model": written(tmp_path, fields), "steps": 3})
    assert set(settings) == {"model", "model_name", "steps"}
    assert PRESETS[settings["model"]].parameters == MODELS[name][0]


@pytest.mark.parametrize(
    "fields",
    [SMALL, SMALL | {"num_key_value_heads": 6}, SMALL | {"tie_word_embeddings": True}, MODELS["Qwen2.5-32B"][1]],
)
def test_another_size_is_trained_with_the_parameters_of_the_file(fields: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, fields)
    options = TrainingOptions(**with_config({"model": path}))
    check_model(options)
    shape, length = shape_of(options)
    assert shape.parameters == model_of_config(path).parameters
    assert length == (512 if fields["vocab_size"] == 600 else 2048)
    memory = MemoryOptions(**with_config({"model": str(tmp_path)}))
    assert shape_of(memory.training(2))[0] == shape
    assert parameter_count(options) == parameter_count(memory.training(1)) == shape.parameters


@pytest.mark.parametrize(
    ("own", "called"),
    [
        ("Team/Model-2", "Team/Model-2"),
        ("/data/people/jo/model-3", "model-3"),
        ("./", "folder"),
        (None, "folder"),
    ],
)
def test_what_is_measured_has_the_name_of_the_file_s_model(own: str | None, called: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path = written(tmp_path / "folder", MODELS["Mistral-7B-v0.1"][1] | ({"_name_or_path": own} if own else {}))
    training = TrainingOptions(**with_config({"model": path}))
    memory = MemoryOptions(**with_config({"model": path}))
    assert (training.model, training.called, memory.called) == ("mistral-7b", called, called)
    for name, kind, options in (("fsdp", "training", training), ("memory", "memory", memory)):
        assert labels_of(BenchmarkSpec(name=name, kind=kind, sizes=(), options=options), 2) == (f"{name} {called}",)
    plain = TrainingOptions(**with_config({"model": "mistral-7b"}))
    assert (plain.called, plain.model_name) == ("mistral-7b", None)


def test_sizes_that_are_given_stay(tmp_path: Path) -> None:
    settings = with_config({"model": written(tmp_path, SMALL), "layers": 1, "sequence_length": 64})
    assert (settings["layers"], settings["sequence_length"], settings["heads"]) == (1, 64, 6)
    assert with_config({"model": "llama-8b"}) == {"model": "llama-8b"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Mixtral-8x7B-v0.1", "has experts"),
        ("Qwen3-8B", "normalises its heads"),
        ("gemma-2-9b", "has heads of a width"),
        ("Qwen2.5-0.5B", "has an output layer of another kind"),
        ("pythia-6.9b", "another"),
    ],
)
def test_what_is_not_built_is_refused_with_what_it_has(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"this model .*{why}.*raybench estimate and plan count it"):
        with_config({"model": written(tmp_path, MODELS[name][1])})
    with pytest.raises(UsageError, match="is not a file"):
        with_config({"model": str(tmp_path / "other.json")})
    (tmp_path / "config.json").write_text(json.dumps([1]))
    with pytest.raises(UsageError, match="JSON object"):
        with_config({"model": str(tmp_path)})
