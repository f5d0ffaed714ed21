"""A torch.nn.Module by its import path: what is counted, beside a transformer whose figures are known, and refusals."""

import sys
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.performance_model.activations import block_activation_bytes_per_token
from raybench.performance_model.estimate import estimate
from raybench.performance_model.presets import preset_named
from raybench.performance_model.step.unknown import advice_on
from raybench.performance_model.training_setup import TrainingSetup
from raybench.services.estimate import EstimateOptions, estimate_request
from raybench.services.planning.counted_model import counted_model, is_import_path, model_of

torch = pytest.importorskip("torch")
counted = pytest.importorskip("raybench.benchmarks.training.models.counted")
SOURCE = """
import torch
from torch import nn
from raybench.benchmarks.training.models.transformer import LanguageModel
from raybench.performance_model.presets import preset_named

def language():
    return LanguageModel(preset_named("tinyllama-1.1b"))

def image():
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 32 * 32, 10))
    return model, (torch.zeros(1, 3, 32, 32),)

class Latent(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.value, self.out = nn.Linear(64, 4 * 24), nn.Linear(64, 4 * 16), nn.Linear(4 * 16, 64)

    def forward(self, x):
        query, value = (part(x).unflatten(-1, (4, -1)).transpose(1, 2) for part in (self.query, self.value))
        mixed = nn.functional.scaled_dot_product_attention(query, query, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

def latent():
    return Latent(), (torch.zeros(1, 8, 64),)

def nothing():
    return 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models.py").write_text(SOURCE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_models", raising=False)


def test_a_language_model_is_counted_as_its_shape_says() -> None:
    shape, length = preset_named("tinyllama-1.1b"), 512
    model = model_of("own_models:language", counted.counted("own_models:language", length, torch.bfloat16), length)
    assert (model.parameters, model.layers) == (shape.parameters, shape.layers)
    assert model.flops_per_token(length) == pytest.approx(shape.flops_per_token(length), rel=0.01)
    setup = TrainingSetup(
        batch_size=1, sequence_length=length, parameter_bytes=2, on_gpu=False
    )  # norms of several kernels
    known = block_activation_bytes_per_token(shape, setup)
    assert known <= block_activation_bytes_per_token(model, setup) < 1.25 * known


def test_values_narrower_than_keys_are_counted() -> None:
    """As DeepSeek's attention has them."""
    found = counted.counted("own_models:latent", 8, torch.bfloat16)
    model = model_of("own_models:latent", found, 8)
    assert model.parameters == 65 * (4 * 24 + 4 * 16) + 65 * 64
    attention, before, after = 2 * 4 * 8 * 8 * (24 + 16), 2 * 8 * 64 * (96 + 64), 2 * 8 * 64 * 64
    assert found["operations"] == 3 * attention + 2 * before + 3 * after  # the input has no gradient


def test_a_model_of_images_is_estimated_from_its_own_inputs() -> None:
    options = EstimateOptions(model="own_models:image", sequence_length=1, world_size=8, gpu="H100", batch_size=64)
    found = estimate(estimate_request(options))
    assert advice_on(found.request) == ()  # it has no words to pad
    assert found.request.model.parameters == 3 * 64 * 9 + 64 + 64 * 32 * 32 * 10 + 10
    forward = 2 * 32 * 32 * 64 * 27 + 2 * 64 * 32 * 32 * 10
    assert found.request.model.flops_per_token(1) == pytest.approx(3 * forward, rel=0.4)  # no gradient of the image
    assert found.fits
    assert found.step_seconds is not None


@pytest.mark.parametrize(
    ("path", "said"),
    [("absent_module:model", "ModuleNotFoundError"), ("own_models:nothing", "gives a int")],
)
def test_what_cannot_be_counted_is_refused(path: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert counted.main([path, "8", "bfloat16"]) == 1
    assert said in capsys.readouterr().err


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "own_models.py").write_text("raise ValueError('there is no sense in this')")
    with pytest.raises(UsageError, match="there is no sense in this"):
        counted_model("own_models:nothing", sequence_length=8, dtype="bf16")


def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(UsageError, match=r"within 0\.01 s"):
        counted_model("own_models:language", sequence_length=8, dtype="bf16", limit_seconds=0.01)


def test_only_what_looks_like_one_is_an_import_path() -> None:
    assert is_import_path("package.module:Class.build")
    for name in ("llama-8b", "./a:b", "C:\\model\\config.json", "a:", ":b", "a b:c"):
        assert not is_import_path(name)
    with pytest.raises(UsageError, match="its sizes cannot be chosen"):
        estimate_request(EstimateOptions(model="own_models:language", layers=3, gpu="H100"))
