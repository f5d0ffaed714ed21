"""Released models by their name on the Hub: what their ``config.json`` says, as far as it decides on the shape.

``released.json`` has, by the model's id, its parameters as the publisher's weights have them (a test counts them
again), other names that people type, and the fields. A model in the cache of ``huggingface_hub`` is read from there.
A fine-tuned model's name stands with a model of its shape, unless it is made for more positions than that one.

The fields are those of a ``config.json``, or of public code, tests and descriptions that repeat it. Of some models
only the shape was found so, and the total is what it counts: starcoder2-7b, Seed-Coder-8B, c4ai-command-r-v01 and r7b,
SmolLM-1.7B, internlm3-8b, EXAONE-4.0-1.2B, Falcon3-7B and 10B, dots.llm1.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from raybench.errors import nearest
from raybench.performance_model.models.presets import ALIASES, PRESETS

_TUNED = re.compile(r"-(?:instruct|chat|it|base|pt|hf)(?=-|$)")
# Of the same weights in another type, at the end: bitsandbytes', GPTQ's, AWQ's, llm-compressor's, llama.cpp's.
_STORED = re.compile(
    r"(?:-(?:unsloth-)?bnb-[48]bit|-gptq|-awq|-gguf|-hqq|-aqlm|-exl2|-fp8|-dynamic|-nvfp4|-fp4|-bf16|-fp16|-marlin"
    r"|-int[48]|-[48]bit|-w[48]a(?:16|8)|[-.]quantized\.w[48]a(?:16|8)(?:_channel)?|-g128)+$"
)
# Whose repositories are others' models, under their names: in another type, or without asking for a licence.
_UPLOAD_OTHERS = frozenset(
    {
        *("ai-modelscope", "amd", "casperhansen", "huggyllama", "hugging-quants", "llm-research", "lmstudio-community"),
        *("mistral-community", "mlx-community", "modelcloud", "modelscope", "neuralmagic", "nousresearch", "nvidia"),
        *("redhatai", "thebloke", "unsloth", "zai-org", "zhipuai", "coherelabs", "shanghai_ai_laboratory"),
    }
)


@lru_cache(maxsize=1)
def released_models() -> Mapping[str, Mapping[str, Any]]:
    """``{"Qwen/Qwen2.5-32B": {"parameters": 32763876352, "config": {...}}, ...}``; ``names``: others of the model."""
    found: Mapping[str, Mapping[str, Any]] = json.loads(
        (files("raybench.performance_model.models") / "released.json").read_text(encoding="utf-8")
    )
    return found


def released_names() -> tuple[str, ...]:
    """Short names, in lower case: those of the Hub without their owner, or shorter; none that a preset has."""
    names = map(_short_name, released_models())
    return tuple(sorted(name for name in names if name not in PRESETS and name not in ALIASES))


def released_id(name: str) -> str | None:
    """The id of a released model that is named by its id, or by a short name that no preset has; None for another.

    One that was tuned to follow instructions has the shape of the model that it was made of, as has a base of a model
    that was released tuned, and so has either where its weights are stored in fewer bits.
    """
    key = name.strip().lower()
    if key in PRESETS or key in ALIASES:
        return None
    owner, _, own_name = key.rpartition("/")
    key = own_name if owner in _UPLOAD_OTHERS else key
    return _ids().get(key) or _ids().get(plain_name(key))


def plain_name(name: str) -> str:
    """A name without what says how it was tuned, and in what its weights are stored: neither changes the shape."""
    owner, _, own_name = name.rpartition("/")
    own_name = _TUNED.sub("", _STORED.sub("", own_name)).removeprefix("meta-")
    return f"{owner}/{own_name}" if owner else own_name


def released_like(name: str) -> list[str]:
    """Ids of released models that may be meant: of such a name by another owner, else of one that is nearly so."""
    own_name = plain_name(name.strip().lower().rpartition("/")[2])
    same = _ids().get(own_name)
    return [same] if same else list(dict.fromkeys(_ids()[one] for one in nearest(own_name, _ids()) if one in _ids()))


def cached_config(name: str) -> Path | None:
    """The ``config.json`` of ``OWNER/MODEL`` in the cache of huggingface_hub, as its last download left it."""
    owner, _, model = name.partition("/")
    if not owner or not model or "/" in model or ".." in name:
        return None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface")
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{owner}--{model}" / "snapshots"
    kept = sorted(folder.glob("*/config.json"), key=lambda path: path.parent.lstat().st_mtime)
    return kept[-1] if kept else None


def _short_name(model_id: str) -> str:
    names = released_models()[model_id].get("names", ())
    return str(names[0]) if names else model_id.partition("/")[2].lower()


@lru_cache(maxsize=1)
def _ids() -> Mapping[str, str]:
    found = {}
    for model_id, model in released_models().items():
        owner, _, own_name = model_id.lower().partition("/")
        named = (own_name, *model.get("names", ()))
        for name in (*named, *(one.partition("/")[2] for one in named if "/" in one)):
            found[name] = found[f"{owner}/{name}"] = model_id
    plain = {plain_name(name): model_id for name, model_id in found.items()}
    return plain | found
