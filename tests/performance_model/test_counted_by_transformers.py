"""Parameters and operations of 24 known config.json files, against transformers' own models and torch's FLOP counter.

Models have no memory (the meta device), one and two layers of full width, beside those that come first without experts:
blocks are alike, so that the rest follows.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raybench.performance_model.model_config import model_of_config
from tests.performance_model.test_model_config import MODELS, OTHERS

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
    fields["n_layer" if kind == "gpt2" else "num_hidden_layers"] = layers
    config = CONFIG_MAPPING[kind](**fields)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model.config._experts_implementation = "batched_mm"  # the others look at which expert each token has
        ids, mask = torch.zeros(1, tokens, dtype=torch.long), torch.zeros(1, 1, tokens, tokens)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=mask, position_ids=ids, use_cache=False).logits.sum().backward()
    return sum(one.numel() for one in model.parameters()), counter.get_total_flops()

asked = json.load(sys.stdin)
print(json.dumps([
    [counted(dict(fields), fields.get("first_k_dense_replace", 0) + more, asked["tokens"]) for more in (1, 2)]
    for fields in asked["models"]
]))
"""


@pytest.fixture(scope="module")
def counts() -> dict[str, list[list[int]]]:
    """(parameters, operations of a step) with one layer, and with two, beside those without experts, of each model."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed (pip install {name})")
    asked = json.dumps({"models": [fields for _, fields in ALL.values()], "tokens": TOKENS})
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], input=asked, capture_output=True, text=True, timeout=240, check=False,
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
    parameters, operations = (
        first + (model.layers - model.dense_layers - 1) * (second - first)
        for first, second in zip(one, two, strict=True)
    )
    assert parameters == model.parameters == ALL[name][0]
    assert model.flops_per_token(TOKENS) * TOKENS == pytest.approx(operations, rel=0.002)
