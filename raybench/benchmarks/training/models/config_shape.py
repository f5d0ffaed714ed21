"""``--model`` as the ``config.json`` of a Hugging Face model: a model that can be trained, in the sizes that it names.

Read where the command is called. What travels to the ranks is the name of a preset of the same build and its sizes, so
that no other node needs the file, and the model's own name, which labels what is measured.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.benchmarks.training.models.shapes import LONGEST_DEFAULT, SIZE_FIELDS
from raybench.benchmarks.training.models.weight_config import CONFIG
from raybench.errors import UsageError
from raybench.performance_model.models.config import is_config, model_of_config
from raybench.performance_model.models.presets import PRESETS
from raybench.performance_model.models.transformer import Transformer

_OURS = ("tiny", "small")
_BUILD = {  # what sizes do not change, and what is said of a model that has another than each preset
    "experts": "has experts",
    "key_value_rank": "has latent attention",
    "parallel": "has attention and MLP side by side",
    "head_bias": "has a bias in its output layer",
    "embedding_norm": "normalises its token embeddings",
    "head_norms": "normalises its heads",
    "head_width": "has heads of a width of their own",
    "norms_per_layer": "has more norms in a layer",
    "positions": "has a table of positions of another length",
    "gated": "has another kind of feed-forward layer",
    "norm": "has another norm",
    "biases": "has other biases",
    "qkv_biases": "has other biases",
    "tied": "has an output layer of another kind (tied to the token embedding, or of its own)",
}


def with_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a training with the model, its name and the sizes that a path as ``model`` stands for.

    Sizes that the settings have themselves stay. Raises UsageError where the file cannot be read, or is of a model that
    raybench does not build.
    """
    rest = dict(settings)
    name = rest.pop("model", None) or _beside_weights(**settings)
    if not isinstance(name, str) or not is_config(name):
        return dict(settings)
    shape = model_of_config(name)
    return _named(shape, name) | {"model_name": shape.name} | rest


def _beside_weights(*, weights: Any = None, **_: Any) -> str | None:
    """The folder of weights, where no model is named and it has a configuration."""
    return weights if isinstance(weights, str) and (Path(weights) / CONFIG).is_file() else None


def _named(shape: Transformer, path: str) -> dict[str, Any]:
    plain = _plain(shape)
    presets = [preset for preset in PRESETS.values() if preset.name not in _OURS]
    for preset in presets:
        if replace(plain, name=preset.name) == replace(_plain(preset), context=plain.context):
            return {"model": preset.name} | _length(shape, preset)
    alike = [one for one in presets if all(getattr(_plain(one), field) == getattr(plain, field) for field in _BUILD)]
    if not alike:
        raise UsageError(
            f"--model {path}: this model {_difference(plain, presets)}, and raybench trains none like it; "
            "raybench estimate and plan count it"
        )
    sizes = {flag: getattr(shape, field) for flag, field in SIZE_FIELDS.items() if field != "kv_heads"}
    return {"model": alike[0].name, **sizes, "kv_heads": shape.key_value_heads} | _length(shape, alike[0])


def _plain(shape: Transformer) -> Transformer:
    """The shape with what follows from the rest left to it."""
    usual = shape.head_width * shape.heads == shape.hidden
    kv_heads = 0 if shape.kv_heads == shape.heads else shape.kv_heads
    width = 0 if usual else shape.head_width
    return replace(shape, head_width=width, kv_heads=kv_heads, formula_gelu=False, drops=False)  # raybench has neither


def _length(shape: Transformer, preset: Transformer) -> dict[str, int]:
    """The default length of the model where the preset has another."""
    own, others = min(shape.context, LONGEST_DEFAULT), min(preset.context, LONGEST_DEFAULT)
    return {"sequence_length": own} if own != others else {}


def _difference(shape: Transformer, presets: list[Transformer]) -> str:
    """What no preset has, or of the one most alike what it has not."""
    unlike = [
        {field for field in _BUILD if getattr(shape, field) != getattr(_plain(preset), field)} for preset in presets
    ]
    order = [*_BUILD]
    fields = set.intersection(*unlike) or min(unlike, key=lambda one: (len(one), -max(map(order.index, one))))
    return next(words for field, words in _BUILD.items() if field in fields)
