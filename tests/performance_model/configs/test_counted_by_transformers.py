"""Parameters and operations of 88 known config.json files, against transformers' own models and torch's FLOP counter.

Models have no memory (the meta device), one and two layers of full width, beside those that come first without experts:
blocks are alike, so that the rest follows. Where experts are in each so many-th layer alone, it is so many and twice.
transformers computes all of Llama 4's experts for each token, and weighs those that are not chosen with 0.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.performance_model.models.config import model_of_config
from tests.performance_model.configs.test_model_config import MODELS, OTHERS

TOKENS = 256
ALL = {**MODELS, **OTHERS}
pytestmark = pytest.mark.long  # importing transformers, and all of the models
COUNTED = """
import json, sys
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

def counted(fields, layers, tokens):
    kind = fields.pop("model_type")
    named = ("n_layer", "n_layers", "num_layers")
    fields[next((name for name in named if name in fields), "num_hidden_layers")] = layers
    if "layer_types" in fields:
        fields["layer_types"] = fields["layer_types"][:layers]
    config = CONFIG_MAPPING[kind](**fields)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model.config._experts_implementation = "batched_mm"  # the others look at which expert each token has
        ids, mask = torch.zeros(1, tokens, dtype=torch.long), torch.zeros(1, 1, tokens, tokens)
        in_scores = fields.get("alibi") or kind in ("bloom", "mpt")
        mask = torch.ones(1, tokens) if in_scores else mask  # positions are counted in it
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=mask, position_ids=ids, use_cache=False).logits.sum().backward()
    return sum(one.numel() for one in model.parameters()), counter.get_total_flops()

asked = json.load(sys.stdin)
print(json.dumps([
    [counted(dict(fields), layers, asked["tokens"]) for layers in both] for fields, both in asked["models"]
]))
"""


def layers_counted(fields: dict[str, Any]) -> tuple[int, int]:
    """Of the two models that stand for one."""
    first = fields.get("first_k_dense_replace", fields.get("moe_layer_start_index", 0))
    step = fields.get("interleave_moe_layer_step", 1)
    return first + step, first + 2 * step


@pytest.fixture(scope="module")
def counts() -> dict[str, list[list[int]]]:
    """(parameters, operations of a step) with one layer, and with two, beside those without experts, of each model."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (pip install {name})")
    asked = json.dumps({"models": [(fields, layers_counted(fields)) for _, fields in ALL.values()], "tokens": TOKENS})
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], input=asked, capture_output=True, text=True, timeout=360, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(ALL, found, strict=True))


@pytest.mark.parametrize("name", ALL)
def test_parameters_and_operations_are_those_of_transformers(
    counts: dict[str, list[list[int]]], name: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(ALL[name][1]))
    model = model_of_config(str(tmp_path))
    one, two = counts[name]
    fewer, more = layers_counted(ALL[name][1])
    parameters, operations = (
        first + (model.layers - fewer) // (more - fewer) * (second - first)
        for first, second in zip(one, two, strict=True)
    )
    assert parameters == model.parameters == ALL[name][0]
    if ALL[name][1]["model_type"] == "llama4_text":
        model = replace(model, experts_per_token=model.experts)
    assert model.flops_per_token(TOKENS) * TOKENS == pytest.approx(operations, rel=0.002)
