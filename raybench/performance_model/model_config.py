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
_LONGEST_NAME = 200
_CAPS = {"caps_scores": "attn_logit_softcapping", "caps_logits": "final_logit_softcapping"}
_FORMULAS = ("gelu_new", "gelu_fast")  # of transformers' GELUs, those written as operations
Fields = Mapping[str, Any]


def is_config(name: str) -> bool:
    """Whether a model's name is meant as a path."""
    return name.endswith(".json") or "/" in name or Path(name).is_dir()


def model_of_config(name: str) -> Transformer:
    """The shape. Raises UsageError where the file cannot be read, or is of an architecture that is not known."""
    path = Path(name).expanduser()
    path = path / "config.json" if path.is_dir() else path
    whole = _read(path)
    fields = _language_model(whole)
    kind = fields.get("model_type")
    read = _READERS.get(str(kind))
    if read is None:
        unknown = unknown_name(f"architecture of {path} (model_type)", str(kind), sorted(_READERS))
        raise UsageError(f"{unknown}. estimate and plan count any other as package.module:factory of a torch.nn.Module")
    try:
        return read(_name_of(whole, path) + (", its language model" if fields is not whole else ""), fields)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: {_what(error)}; it is not a whole configuration of a {kind} model") from error


def _name_of(fields: Fields, path: Path) -> str:
    own = fields.get("_name_or_path")
    return own if isinstance(own, str) and 0 < len(own) <= _LONGEST_NAME else path.parent.resolve().name or "model"


def _language_model(fields: Fields) -> Fields:
    """Of a model that sees, too, the language model alone; tied as the file says of the whole."""
    inner = fields.get("text_config")
    if not isinstance(inner, dict):
        return fields
    tied = {name: fields[name] for name in ("tie_word_embeddings",) if name in fields}
    return {**tied, **inner, "model_type": inner.get("model_type")}


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
    return fields


def _whole(fields: Fields, *names: str, default: int | None = None) -> int:
    """The first of these that is there, a whole number."""
    for name in names:
        value = fields.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is {value!r}, no whole number")
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
            return value
    if default is None:
        raise KeyError(names[0])
    return default


def _flag(fields: Fields, name: str, *, default: bool) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, neither true nor false")
    return default if value is None else value


def _without(fields: Fields, *names: str) -> None:
    """Raises ValueError where one of these is on: parameters come with it that are not counted."""
    for name in names:
        if _flag(fields, name, default=False):
            raise ValueError(f"{name} is true, which is not supported")


def _rotary(name: str, fields: Fields, *, shared: int | None = None, **own: Any) -> Transformer:
    """Of Llama's kind: RMSNorm, SwiGLU, rotary positions; ``own`` is what an architecture has of its own.

    ``shared``: heads of keys and values of its class where the file does not name them; null is as many as heads.
    """
    heads = _whole(fields, "num_attention_heads")
    shared = heads if shared is None or "num_key_value_heads" in fields else shared
    shape: dict[str, Any] = {
        "name": name,
        "layers": _whole(fields, "num_hidden_layers"),
        "hidden": _whole(fields, "hidden_size"),
        "heads": heads,
        "kv_heads": _whole(fields, "num_key_value_heads", default=shared),
        "head_width": _whole(fields, "head_dim", default=0),
        "feedforward": _whole(fields, "intermediate_size"),
        "vocabulary": _whole(fields, "vocab_size"),
        "context": _whole(fields, "max_position_embeddings", default=2048),
        "tied": _flag(fields, "tie_word_embeddings", default=False),
    }
    return Transformer(**(shape | own))


def _llama(name: str, fields: Fields) -> Transformer:
    _without(fields, "attention_bias", "mlp_bias")
    return _rotary(name, fields)


def _smollm3(name: str, fields: Fields) -> Transformer:
    _without(fields, "attention_bias", "mlp_bias")
    return _rotary(name, fields, shared=4, tied=_flag(fields, "tie_word_embeddings", default=True))


def _mistral(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, shared=8)


def _phi3(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields)


def _qwen2(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, shared=32, qkv_biases=True)


def _qwen3(name: str, fields: Fields) -> Transformer:
    _without(fields, "attention_bias")
    return _rotary(name, fields, shared=32, head_norms=True, head_width=_whole(fields, "head_dim", default=128))


def _mixtral(name: str, fields: Fields) -> Transformer:
    return _rotary(name, fields, shared=8, **_experts(fields, "num_local_experts"))


def _qwen3_moe(name: str, fields: Fields) -> Transformer:
    _without(fields, "attention_bias")
    if _whole(fields, "decoder_sparse_step", default=1) != 1 or fields.get("mlp_only_layers"):
        raise ValueError("layers without experts among those with them are not supported")
    return _rotary(
        name,
        fields,
        shared=4,
        head_norms=True,
        feedforward=_whole(fields, "moe_intermediate_size"),
        **_experts(fields, "num_experts"),
    )


def _experts(fields: Fields, name: str) -> dict[str, int]:
    return {"experts": _whole(fields, name), "experts_per_token": _whole(fields, "num_experts_per_tok")}


def _gemma(name: str, fields: Fields) -> Transformer:
    return _of_gemma(name, fields, shared=16)


def _gemma2(name: str, fields: Fields) -> Transformer:
    caps = {own: fields.get(field, 1) is not None for own, field in _CAPS.items()}  # null: none
    return _of_gemma(name, fields, shared=4, norms_per_layer=4, **caps)


def _gemma3(name: str, fields: Fields) -> Transformer:
    """Files of the models that see leave out what is as its class has it."""
    usual = {"vocab_size": 262_208, "num_attention_heads": 8}
    return _of_gemma(name, {**usual, **fields}, shared=4, norms_per_layer=4, head_norms=True)


def _of_gemma(name: str, fields: Fields, **own: Any) -> Transformer:
    _without(fields, "attention_bias")
    tied = _flag(fields, "tie_word_embeddings", default=True)
    return _rotary(name, fields, head_width=_whole(fields, "head_dim", default=256), tied=tied, **own)


def _gpt2(name: str, fields: Fields) -> Transformer:
    _without(fields, "add_cross_attention")
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
        tied=_flag(fields, "tie_word_embeddings", default=True),
        positions=positions,
        context=positions,
        formula_gelu=fields.get("activation_function", "gelu_new") in _FORMULAS,
        drops=fields.get("resid_pdrop", 0.1) != 0,
    )


def _gpt_neox(name: str, fields: Fields) -> Transformer:
    _all_biases(fields, "attention_bias")
    return _rotary(name, fields, gated=False, norm="layer", biases=True, kv_heads=0)


def _starcoder2(name: str, fields: Fields) -> Transformer:
    _all_biases(fields, "use_bias")
    tied = _flag(fields, "tie_word_embeddings", default=True)
    return _rotary(name, fields, shared=2, gated=False, norm="layer", biases=True, tied=tied)


def _all_biases(fields: Fields, name: str) -> None:
    if not _flag(fields, name, default=True):
        raise ValueError(f"{name} is false, which is not supported")


_READERS: Mapping[str, Callable[[str, Fields], Transformer]] = {
    "llama": _llama,
    "granite": _llama,
    "smollm3": _smollm3,
    "mistral": _mistral,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "starcoder2": _starcoder2,
}
