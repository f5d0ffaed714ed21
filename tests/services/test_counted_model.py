"""A torch.nn.Module by its import path: what is counted, beside a transformer whose figures are known, and refusals."""

import contextlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from raybench.errors import UsageError
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.unknown import advice_on
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.memory.rank import MemoryEstimate
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.counted_model import counted_model, is_import_path, model_of
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

torch = pytest.importorskip("torch")
counted = pytest.importorskip("raybench.benchmarks.training.models.counted")
from raybench.benchmarks.training.models.counted_operations import grouped_operations

SOURCE = """
import torch
from torch import nn
from raybench.benchmarks.training.models.transformer import LanguageModel
from raybench.performance_model.models.presets import preset_named

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

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.weights = nn.Linear(64, 64), nn.Parameter(torch.zeros(4, 64, 32))

    def forward(self, x):
        return torch._grouped_mm(self.up(x), self.weights, offs=torch.full((4,), 4, dtype=torch.int32, device=x.device))

def experts():
    return Experts(), (torch.zeros(16, 64),)

def _kernel(name):
    schema = "(Tensor x, Tensor w) -> Tensor"
    kernel = torch.library.custom_op(name, lambda x, w: x.clone(), mutates_args=(), schema=schema)
    kernel.register_fake(lambda x, w: torch.empty_like(x))
    kernel.register_autograd(lambda _, gradient: (gradient, None))
    return kernel

class Own(nn.Module):
    def __init__(self, kernel, weights):
        super().__init__()
        self.kernel, self.before, self.weights = kernel, nn.Linear(8, 8), nn.Parameter(weights)

    def forward(self, x):
        return self.kernel(self.before(x), self.weights)

def own_product():
    return Own(_kernel("own::product"), torch.zeros(8, 8)), (torch.zeros(4, 8),)

def own_norm():
    return Own(_kernel("own::norm"), torch.zeros(8)), (torch.zeros(4, 8),)

class Scored(nn.Module):
    def __init__(self, tied=False):
        super().__init__()
        self.table, self.head = nn.Embedding(4096, 64), nn.Linear(64, 4096, bias=False)
        if tied:
            self.head.weight = self.table.weight
        self.register_buffer("mask", torch.ones(1024, 1024))
        self.register_buffer("again", self.mask, persistent=False)

    def forward(self, tokens, own_loss=True):
        logits = self.head(self.table(tokens)).flatten(0, 1)
        return nn.functional.cross_entropy(logits.float(), tokens.flatten()) if own_loss else logits

class Logits(Scored):
    def forward(self, tokens):
        return super().forward(tokens, own_loss=False)

def half_frozen():
    module = Scored()
    module.table.requires_grad_(False)
    return module

def tied_scored():
    return Scored(tied=True)

class Twice(Scored):  # one matrix in three layers
    def __init__(self):
        super().__init__(tied=True)
        self.other = nn.Linear(64, 4096, bias=False)
        self.other.weight = self.table.weight

    def forward(self, tokens):
        other = self.other(self.table(tokens)).flatten(0, 1).float()
        return super().forward(tokens) + nn.functional.cross_entropy(other, tokens.flatten())

def tied_logits():
    return Logits(tied=True)

def of_transformers(**changes):
    from transformers import Lfm2Config, Lfm2ForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    kinds = ["conv", "full_attention", "conv"]
    return Lfm2ForCausalLM(Lfm2Config(vocab_size=512, num_hidden_layers=3, layer_types=kinds, use_cache=False, **sizes))

class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def forward(self, tokens):
        return self.table(tokens) * (2 if (tokens == 0).all() else 1)

def wide():
    return nn.Linear(3_000_000, 10), (torch.zeros(1, 3_000_000),)
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


LENGTH, WORDS = 512, 4096


def memory_of(name: str, *, world_size: int = 1, batch_size: int = 8) -> MemoryEstimate:
    """With a plain loss, in the form that needs most."""
    options = EstimateOptions(
        model=f"own_models:{name}", world_size=world_size, strategy="fsdp" if world_size > 1 else "ddp", gpu="H100",
        batch_size=batch_size, sequence_length=LENGTH, kernels="plain", loss="plain", compile=False,
    )  # fmt: skip
    return estimate(estimate_request(options)).memory


@pytest.mark.parametrize("name", ["Scored", "Logits", "tied_logits"])
def test_logits_count_whether_the_module_computes_its_loss_or_not(name: str) -> None:
    """Their log-softmax and two gradients in fp32; logits were no part of it, nor what a loss passes on."""
    tokens = 8 * LENGTH
    one, more = (memory_of(name, batch_size=size).moments["loss, backward"] for size in (8, 16))
    assert more - one == pytest.approx(tokens * (WORDS * 12 + 64 * 2), rel=0.01)


@pytest.mark.parametrize("length", [8, 63, 64, 65])
@pytest.mark.parametrize("name", ["Scored", "tied_scored", "Twice"])
def test_logits_are_no_gradient_of_a_shared_matrix_though_they_may_have_its_shape(name: str, length: int) -> None:
    """With as many tokens as the hidden size they were taken for one: 34 GiB were told of 48.

    Of few tokens a gradient of the matrix is larger than all that passes, and counts as little as one of its own.
    """
    found = counted.counted(f"own_models:{name}", length, torch.bfloat16)
    assert found["passing_bytes"] == length * WORDS * 8  # gradients of the log-softmax and of what it reads, in fp32


def test_a_module_whose_loss_is_small_has_no_logits() -> None:
    """Ten classes of an image: what passes are its feature maps."""
    found = counted.counted("own_models:image", 2048, torch.bfloat16)
    model = model_of("own_models:image", found, 2048)
    assert model.vocabulary == 1
    assert model.passing_bytes == pytest.approx(2 * 64 * 32 * 32 * 2, rel=0.01)  # of ReLU's input and output


def test_a_model_of_transformers_without_a_cache_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """It looks whether samples are packed: all were refused, with layers without attention too (Lfm2)."""
    pytest.importorskip("transformers.models.lfm2")
    found = counted.counted("own_models:of_transformers", 64, torch.bfloat16)
    assert found["output_elements"] == 64 * 512
    assert counted.main(["own_models:Looks", "64", "bfloat16"]) == 1  # another that looks at values is none of those
    assert "meta" in capsys.readouterr().err


def test_a_model_known_by_its_shape_has_what_a_part_and_a_counted_one_have_as_fields() -> None:
    """Asked for by name with a default, a name that nobody has would count as nothing."""
    shape = preset_named("tinyllama-1.1b")
    part = part_of(shape, Layout(world_size=2, ranks_per_node=2, tensor=2))
    assert (shape.scores, shape.expert_ranks, shape.buffer_bytes, shape.passing_bytes) == (True, 1, 0, 0.0)
    assert (part.scores, part.expert_ranks, part.buffer_bytes, part.passing_bytes) == (True, 1, 0, 0.0)
    assert part.output_weights == shape.output_weights / 2 == 32000 * 2048 / 2
    model = model_of("m", counted.counted("own_models:Logits", 8, torch.bfloat16), 8)
    assert model.buffer_bytes == 1024 * 1024 * 4
    assert replace(model, shapes_outside=((64,), (WORDS, 64))).output_weights == WORDS * 64
    assert not part_of(shape, Layout(world_size=2, ranks_per_node=2, pipeline=2), stage=0).scores


def test_frozen_parameters_have_no_gradients_and_no_state() -> None:
    """All of a module counted as trained: of two tables as large one is frozen."""
    whole, half = memory_of("Scored"), memory_of("half_frozen")
    assert half.parameters == whole.parameters
    assert 2 * half.gradients == whole.gradients == 2 * WORDS * 64 * 4
    assert 2 * half.optimizer_state == whole.optimizer_state


def test_buffers_are_held_whole_by_each_rank_and_once() -> None:
    alone, shared = memory_of("Scored"), memory_of("Scored", world_size=8)
    mask = 1024 * 1024 * 4
    assert alone.parameters == 2 * WORDS * 64 * 4 + mask
    assert shared.parameters == 2 * WORDS * 64 * 4 / 8 + mask


def test_values_narrower_than_keys_are_counted() -> None:
    """As DeepSeek's attention has them."""
    found = counted.counted("own_models:latent", 8, torch.bfloat16)
    model = model_of("own_models:latent", found, 8)
    assert model.parameters == 65 * (4 * 24 + 4 * 16) + 65 * 64
    attention, before, after = 2 * 4 * 8 * 8 * (24 + 16), 2 * 8 * 64 * (96 + 64), 2 * 8 * 64 * 64
    assert found["operations"] == 3 * attention + 2 * before + 3 * after  # the input has no gradient


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped product")
def test_a_grouped_product_of_experts_is_counted() -> None:
    """Which torch's own counter takes for nothing: a mixture of experts was five times too fast."""
    found = counted.counted("own_models:experts", 1, torch.bfloat16)
    assert found["operations"] == 2 * 2 * 16 * 64 * 64 + 3 * 2 * 16 * 64 * 32  # the input has no gradient


@pytest.mark.parametrize(
    ("one", "other", "operations"),
    [
        ((16, 64), (4, 64, 32), 2 * 16 * 64 * 32),  # rows of groups
        ((4, 8, 64), (64, 32), 2 * 8 * 64 * 32),  # columns
        ((64, 16), (16, 32), 2 * 64 * 16 * 32),  # what is summed: weights' gradients
        ((4, 8, 64), (4, 64, 32), 4 * 2 * 8 * 64 * 32),  # a batch
    ],
)
def test_operations_of_a_grouped_product(one: tuple[int, ...], other: tuple[int, ...], operations: int) -> None:
    assert grouped_operations(one, other) == operations


def test_a_kernel_of_its_own_that_reads_a_matrix_is_refused_and_a_norm_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert counted.main(["own_models:own_product", "1", "bfloat16"]) == 1
    assert "operations of own.product.default cannot be counted" in capsys.readouterr().err
    assert counted.main(["own_models:own_norm", "1", "bfloat16"]) == 0


def test_a_layer_wider_than_any_transformer_is_counted() -> None:
    assert model_of("m", counted.counted("own_models:wide", 1, torch.bfloat16), 1).parameters == 30_000_010


@pytest.mark.parametrize("prints", ["count", "nothing"])
def test_a_child_that_its_factory_leaves_is_not_waited_for(
    prints: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds what the count was printed to."""
    (tmp_path / "count").write_text(json.dumps(counted.counted("own_models:latent", 8, torch.bfloat16)))
    (tmp_path / "nothing").touch()
    (tmp_path / "python").write_text(f"#!/bin/sh\nsleep 100 &\necho $! > {tmp_path}/pid\ncat {tmp_path}/{prints}\n")
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if prints == "count":
        assert counted_model("own_models:latent", sequence_length=8, dtype="bf16").parameters == 65 * 160 + 65 * 64
    else:
        with pytest.raises(UsageError, match="ended its process before it was counted"):
            counted_model("own_models:latent", sequence_length=8, dtype="bf16")
    assert _has_ended(int((tmp_path / "pid").read_text()))


def _has_ended(pid: int) -> bool:
    """Of a process that was killed just now."""
    for _ in range(200):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
                continue
        return True
    return False


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
