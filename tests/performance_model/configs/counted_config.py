"""Memory of a step of known config.json files: all tensors that transformers makes in it, on a GPU that is not there.

    python -m tests.performance_model.configs.counted_config

prints a table: estimated and counted, of 21 models at their full width and three layers, parameters in bfloat16, AdamW,
8 samples of 2048 tokens (GPT-2: 1024), without activation checkpointing and with it. The modules are those of the
installed transformers (``AutoModelForCausalLM.from_config``), with its loss; attention is one fused kernel, but in
Gemma 2, whose scores are capped; experts are computed by grouped products.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.config import model_of_config
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.configs.test_model_config import MODELS

LAYERS, BATCH, TOKENS = 3, 8, 2048
ROOT = Path(__file__).parents[3]


def estimated(name: str, *, checkpointing: bool) -> int:
    """Bytes that the estimate has for the allocator's peak."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODELS[name][1]))
        model = replace(model_of_config(folder), layers=LAYERS)
    setup = TrainingSetup(
        batch_size=BATCH,
        sequence_length=min(TOKENS, model.positions or TOKENS),
        parameter_bytes=2,
        checkpointing=checkpointing,
        gradients_kept=False,
        compiled=False,
        loss="plain",  # transformers shifts the labels since 4.46, no longer a copy of the logits
        joined_projections=MODELS[name][1]["model_type"] in ("falcon", "gpt_neox", "phi3"),
    )
    return estimate_memory(model, setup, Layout(world_size=1, ranks_per_node=1)).allocated


def counted(library: Path) -> dict[str, dict[str, int]]:
    """Bytes at the fullest moment, by model and by whether blocks are computed again.

    ``library``: of ``absent_gpu.build``. Raises RuntimeError where the counting process fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.performance_model.configs.counted_config", "count"],
        capture_output=True, text=True, timeout=1200, check=False, cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _count(fields: dict[str, Any], *, checkpointing: bool) -> int:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    from tests.performance_model.absent_gpu import Counted, pretended

    asked = dict(fields)
    kind = asked.pop("model_type")
    asked["n_layer" if kind == "gpt2" else "num_hidden_layers"] = LAYERS
    config = CONFIG_MAPPING[kind](**asked, use_cache=False)
    tokens = min(TOKENS, asked.get("n_positions", TOKENS))
    kernel = "eager" if kind == "gemma2" else "sdpa"
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=kernel, dtype=torch.bfloat16)
    with pretended(), FakeTensorMode(allow_non_fake_inputs=True), Counted() as counter:
        model.to_empty(device="cuda")
        model.tie_weights()
        ids = torch.zeros(BATCH, tokens, dtype=torch.long, device="cuda")
        if kind in ("mixtral", "olmoe", "gpt_oss", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3"):
            model.config._experts_implementation = "grouped_mm"  # eager ones look at which expert each token has
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        for _ in range(2):
            gc.collect()
            counter.peak = counter.now()
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return int(counter.peak)


def table(counts: dict[str, dict[str, int]]) -> str:
    """A line a model: GiB estimated and counted, and their ratio, without checkpointing and with it."""
    lines = [f"{'model':20}{'estimated':>10}{'counted':>9}{'ratio':>7} |{'checkpointed':>13}{'counted':>9}{'ratio':>7}"]
    for name, found in counts.items():
        cells: list[str] = []
        for key in ("kept", "again"):
            guess, real = estimated(name, checkpointing=key == "again"), found.get(key)
            shown = (f"{real / 2**30:.2f}", f"{guess / real:.3f}") if real else ("-", "-")
            cells += [f"{guess / 2**30:.2f}", *shown]
        widths = (10, 9, 7, 13, 9, 7)
        words = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append(f"{name:20}{''.join(words[:3])} |{''.join(words[3:])}")
    return "\n".join(lines)


def main() -> None:
    """Print the table; with ``count``, what it is made of, as the preloaded process."""
    if sys.argv[1:] != ["count"]:
        from tests.performance_model.absent_gpu import build  # imports torch

        with tempfile.TemporaryDirectory() as folder:
            print(table(counted(build(Path(folder)))))
        return
    found: dict[str, dict[str, int]] = {}
    for name, (_, fields) in MODELS.items():
        found[name] = {}
        for key in ("kept", "again"):
            try:
                found[name][key] = _count(fields, checkpointing=key == "again")
            except (RuntimeError, ValueError, TypeError) as error:  # of one model: the others are counted all the same
                print(name, key, type(error).__name__, str(error)[:300], file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
