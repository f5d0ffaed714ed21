"""The models of published rows: their sizes by ``published/models.csv``, their forms by name."""

import csv
from typing import Any

from raybench.performance_model.models.transformer import Transformer
from tests.performance_model.published_run import FOLDER

_GPT = {"gated": False, "norm": "layer", "biases": True, "tied": True}
_FORMS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-tied": {"tied": True},
    "qwen": {"qkv_biases": True},
    "gelu": {"gated": False, "norm": "layer", "biases": True},
    "gelu-one-stream": {"gated": False, "norm": "layer", "biases": True, "parallel": True},
    "gpt-long": {**_GPT, "positions": 8192},
    "gpt-by-hand": {**_GPT, "tied": False, "positions": 1024, "drops": True, "formula_gelu": True},
    "gelu-parallel": {"gated": False, "norm": "layer", "biases": True, "norms_per_layer": 1},
    "gelu-parallel-bare": {"gated": False, "norm": "layer"},
    "gpt": {**_GPT, "positions": 2048},
    "gpt-1024": {**_GPT, "positions": 1024},
    "gpt-1024-dropped": {**_GPT, "positions": 1024, "drops": True},
    "gpt-dropped": {**_GPT, "positions": 2048, "drops": True},
    "gpt2-dropped": {**_GPT, "positions": 1024, "drops": True, "formula_gelu": True},
    "gptj": {"gated": False, "norm": "layer", "norms_per_layer": 1, "parallel": True, "formula_gelu": True},
    "gelu-tied": {"gated": False, "norm": "layer", "biases": True, "tied": True},
    "mpt": {"gated": False, "norm": "layer", "tied": True},
    "ungated": {"gated": False},
    "ungated-tied": {"gated": False, "tied": True},
    "ungated-norms": {"gated": False, "head_norms": True},
    "norms": {"head_norms": True},
    "norms-tied": {"head_norms": True, "tied": True},
    "norms-projection": {"head_norms": True, "head_norm_weights": "projection"},
    "gemma-2": {"norms_per_layer": 4},
    "gemma-2-tied": {"norms_per_layer": 4, "tied": True, "caps_scores": True, "caps_logits": True},
    "gpt-bare": {"gated": False, "norm": "layer", "tied": True, "positions": 2048},
    "llama-dropped": {"drops": True},
    "gpt-untied": {"gated": False, "norm": "layer", "biases": True, "positions": 2048},
    "gpt-untied-dropped": {"gated": False, "norm": "layer", "biases": True, "positions": 1024, "drops": True},
    "ungated-tied-positions": {"gated": False, "tied": True, "positions": 1024},
    "qwen-tied": {"qkv_biases": True, "tied": True},
    "megatron": {"tied": True, "biases": True, "positions": 8192, "drops": True},  # what its script does not name
    "megatron-untied": {"gated": False, "norm": "layer", "biases": True, "positions": 8192, "drops": True},
    "gpt-rotary-dropped": {**_GPT, "drops": True},
}


def published_models() -> dict[str, Transformer]:
    """All of them by name."""
    with (FOLDER / "models.csv").open() as file:
        return {row["name"]: _model(row) for row in csv.DictReader(file)}


def _model(row: dict[str, str]) -> Transformer:
    sizes = {name: int(row[name]) for name in row if name not in ("name", "form") and row[name]}
    return Transformer(name=row["name"], **sizes, **_FORMS[row["form"]])
