"""Transformers by name: the shapes of published configurations, and of two small ones of raybench's own."""

from collections.abc import Iterable
from dataclasses import replace

from raybench.errors import unknown_name
from raybench.performance_model.models.transformer import Transformer


def _gpt(name: str, layers: int, hidden: int, heads: int, *, context: int = 1024) -> Transformer:
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        feedforward=4 * hidden,
        vocabulary=50257,
        gated=False,
        norm="layer",
        biases=True,
        tied=True,
        positions=context,
        context=context,
        family="gpt2",
    )


def _llama(
    name: str,
    shape: tuple[int, int, int, int, int, int],
    *,
    context: int,
    tied: bool = False,
    family: str = "llama",
) -> Transformer:
    layers, hidden, heads, kv_heads, feedforward, vocabulary = shape
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        feedforward=feedforward,
        vocabulary=vocabulary,
        tied=tied,
        context=context,
        family=family,
    )


# Published configurations: openai/gpt2*, Brown et al. 2020 (table 2.1), meta-llama/*, TinyLlama, mistralai/*, Qwen/*.
# `tiny` and `small` are ours: for CPUs and tests.
_PRESETS: tuple[Transformer, ...] = (
    _llama("tiny", (2, 64, 4, 2, 176, 512), context=256),
    _llama("small", (4, 256, 8, 4, 704, 4096), context=512),
    _gpt("gpt2", 12, 768, 12),
    _gpt("gpt2-medium", 24, 1024, 16),
    _gpt("gpt2-large", 36, 1280, 20),
    _gpt("gpt2-xl", 48, 1600, 25),
    _gpt("gpt3-175b", 96, 12288, 96, context=2048),
    _llama("tinyllama-1.1b", (22, 2048, 32, 4, 5632, 32000), context=2048),
    _llama("llama-2-7b", (32, 4096, 32, 32, 11008, 32000), context=4096),
    _llama("llama-2-13b", (40, 5120, 40, 40, 13824, 32000), context=4096),
    _llama("llama-2-70b", (80, 8192, 64, 8, 28672, 32000), context=4096),
    _llama("llama-3.2-1b", (16, 2048, 32, 8, 8192, 128256), context=131072, tied=True),
    _llama("llama-3.2-3b", (28, 3072, 24, 8, 8192, 128256), context=131072, tied=True),
    _llama("llama-3.1-8b", (32, 4096, 32, 8, 14336, 128256), context=131072),
    _llama("llama-3.1-70b", (80, 8192, 64, 8, 28672, 128256), context=131072),
    _llama("llama-3.1-405b", (126, 16384, 128, 8, 53248, 128256), context=131072),
    _llama("mistral-7b", (32, 4096, 32, 8, 14336, 32000), context=32768, family="mistral"),
    replace(_llama("qwen2.5-7b", (28, 3584, 28, 4, 18944, 152064), context=131072, family="qwen2"), qkv_biases=True),
)
PRESETS: dict[str, Transformer] = {preset.name: preset for preset in _PRESETS}

# The same model under the names people type.
ALIASES: dict[str, str] = {
    "gpt": "gpt2",
    "llama-1b": "llama-3.2-1b",
    "llama-3b": "llama-3.2-3b",
    "llama-7b": "llama-2-7b",
    "llama-8b": "llama-3.1-8b",
    "llama-3-8b": "llama-3.1-8b",
    "llama-13b": "llama-2-13b",
    "llama-70b": "llama-3.1-70b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-405b": "llama-3.1-405b",
    "mistral": "mistral-7b",
    "qwen-7b": "qwen2.5-7b",
}


def preset_named(name: str, *, others: Iterable[str] = ()) -> Transformer:
    """A preset by its name or alias. Raises UsageError for another name, with those there are and ``others``."""
    key = name.strip().lower()
    found = PRESETS.get(ALIASES.get(key, key))
    if found is None:
        instead = f"of another give the config.json of a Hugging Face model, or its folder (./{key})"
        raise unknown_name("model", name, (*PRESETS, *ALIASES, *others), else_=instead)
    return found
