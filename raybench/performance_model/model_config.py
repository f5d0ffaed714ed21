"""A transformer's shape from the ``config.json`` of a Hugging Face model: a file, or the folder that has it.

Field names are those of transformers' configuration classes; what a file leaves out has the default of its class. Only
architectures whose parameters are known one by one are read: a wrong count would look like a right one.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raybench.errors import UsageError, unknown_name
from raybench.performance_model.transformer import Transformer

_MOST_BYTES = 1 << 20  # of a config.json: the largest published have some ten thousand
Fields = Mapping[str, Any]


def is_config(name: str) -> bool:
    """Whether a model's name is meant as a path."""
    return name.endswith(".json") or "/" in name or Path(name).is_dir()


def model_of_config(name: str) -> Transformer:
    """The shape. Raises UsageError where the file cannot be read, or is of an architecture that is not known."""
    path = Path(name).expanduser()
    path = path / "config.json" if path.is_dir() else path
    fields = _read(path)
    kind = fields.get("model_type")
    read = _READERS.get(str(kind))
    if read is None:
        raise unknown_name(f"architecture of {path} (model_type)", str(kind), sorted(_READERS))
    try:
        return read(str(fields.get("_name_or_path") or path.parent.name or "model"), fields)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: {_what(error)}; it is not a whole configuration of a {kind} model") from error


def _what(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _read(path: Path) -> Fields:
    try:
        if not path.is_file():
            raise UsageError(
                f"--model {path} is not a file; give a model's name, its config.json, or the folder with it"
            )
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"--model {path} has more than {_MOST_BYTES} bytes; give a config.json")
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--model {path} cannot be read as JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"--model {path} does not hold a JSON object; give a config.json")
    inner = fields.get("text_config")  # of a model that sees, too: its language model alone
    return {**inner, "model_type": inner.get("model_type")} if isinstance(inner, dict) else fields


def _whole(fields: Fields, *names: str, default: int | None = None) -> int:
    """The first of these that is there, a whole number."""
    for name in names:
        value = fields.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is {value!r}, no whole number")
            return value
    if default is None:
        raise KeyError(names[0])
    return default


def _rotary(name: str, fields: Fields, **own: Any) -> Transformer:
    """Of Llama's kind: RMSNorm, SwiGLU, rotary positions; ``own`` is what an architecture has of its own."""
    heads = _whole(fields, "num_attention_heads")
    shape: dict[str, Any] = {
        "name": name,
        "layers": _whole(fields, "num_hidden_layers"),
        "hidden": _whole(fields, "hidden_size"),
        "heads": heads,
        "kv_heads": _whole(fields, "num_key_value_heads", default=heads),
        "head_width": _whole(fields, "head_dim", default=0),
        "feedforward": _whole(fields, "intermediate_size"),
        "vocabulary": _whole(fields, "vocab_size"),
        "context": _whole(fields, "max_position_embeddings", default=2048),
        "tied": bool(fields.get("tie_word_embeddings", False)),
    }
    return Transformer(**(shape | own))


def _llama(name: str, fields: Fields) -> Transformer:
    if fields.get("attention_bias") or fields.get("mlp_bias"):
        raise ValueError("biases of a Llama's layers are not supported")
    return _rotary(name, fields)


def _qwen2(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, qkv_biases=True)


def _qwen3(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, head_norms=True, head_width=_whole(fields, "head_dim", default=128))


def _mixtral(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, **_experts(fields, "num_local_experts"))


def _qwen3_moe(name: str, fields: Fields) -> Transformer:
    if _whole(fields, "decoder_sparse_step", default=1) != 1 or fields.get("mlp_only_layers"):
        raise ValueError("layers without experts among those with them are not supported")
    return _rotary(
        name,
        fields,
        head_norms=True,
        head_width=_whole(fields, "head_dim", default=128),
        feedforward=_whole(fields, "moe_intermediate_size"),
        **_experts(fields, "num_experts"),
    )


def _experts(fields: Fields, name: str) -> dict[str, int]:
    return {"experts": _whole(fields, name), "experts_per_token": _whole(fields, "num_experts_per_tok")}


def _gemma(name: str, fields: Fields) -> Transformer:
    width = _whole(fields, "head_dim", default=256)
    return _rotary(name, fields, head_width=width, tied=bool(fields.get("tie_word_embeddings", True)))


def _gemma2(name: str, fields: Fields) -> Transformer:
    width = _whole(fields, "head_dim", default=256)
    tied = bool(fields.get("tie_word_embeddings", True))
    return _rotary(name, fields, head_width=width, tied=tied, norms_per_layer=4)


def _gpt2(name: str, fields: Fields) -> Transformer:
    hidden, positions = _whole(fields, "n_embd"), _whole(fields, "n_positions", "n_ctx", default=1024)
    return Transformer(
        name=name,
        layers=_whole(fields, "n_layer"),
        hidden=hidden,
        heads=_whole(fields, "n_head"),
        feedforward=_whole(fields, "n_inner", default=4 * hidden),
        vocabulary=_whole(fields, "vocab_size"),
        gated=False,
        norm="layer",
        biases=True,
        tied=True,
        positions=positions,
        context=positions,
    )


def _gpt_neox(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, gated=False, norm="layer", biases=True, kv_heads=0)


_READERS: Mapping[str, Callable[[str, Fields], Transformer]] = {
    "llama": _llama,
    "mistral": _rotary,
    "phi3": _rotary,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
}
