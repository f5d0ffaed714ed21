"""Fields of a ``config.json``, each checked where it is read."""

from collections.abc import Callable, Mapping
from typing import Any

from raybench.performance_model.models.transformer import Transformer

Fields = Mapping[str, Any]
Reader = Callable[[str, Fields], Transformer]  # of a model's name and its fields
NO_HEAD_DIM = 0  # of a class that takes no head_dim, whatever a file says: hidden size over heads
_MOST = 10**15
_STRETCHING = ("yarn", "linear", "dynamic")  # kinds of rotary scaling whose files name the positions before it
_MOST_STRETCHED = 1000
_DIGITS = 20  # of a number that is shown whole


def whole(fields: Fields, *names: str, default: int | None = None, least: int = 1) -> int:
    """The first of these that is there, a whole number."""
    for name in names:
        value = fields.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name} is {value!r}, no whole number")
            if value < least:
                raise ValueError(f"{name} is {_short(value)}; it must be at least {least}")
            if value > _MOST:
                raise ValueError(f"{name} is {_short(value)}; no model has so much of anything")
            return value
    if default is None:
        raise KeyError(names[0])
    return default


def _short(value: int) -> str:
    text = str(value)
    return text if len(text) <= _DIGITS else f"{text[:_DIGITS]}... ({len(text)} digits)"


def flag(fields: Fields, name: str, *, default: bool) -> bool:
    """True or false; null and what is not there are as the class has it."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, neither true nor false")
    return default if value is None else value


def without(fields: Fields, *names: str) -> None:
    """Raises ValueError where one of these is on: parameters come with it that are not counted."""
    for name in names:
        if flag(fields, name, default=False):
            raise ValueError(f"{name} is true, which is not supported")


def with_all(fields: Fields, name: str) -> None:
    """Raises ValueError where this is off that is on in each released model of its kind."""
    if not flag(fields, name, default=True):
        raise ValueError(f"{name} is false, which is not supported")


def layer_numbers(fields: Fields, name: str) -> list[int]:
    """A list of layers, counted from 0; empty where it is absent or null."""
    layers, named = whole(fields, "num_hidden_layers"), fields.get(name) or []
    if not isinstance(named, list) or any(type(one) is not int or not 0 <= one < layers for one in named):
        raise ValueError(f"{name} is {str(named)[:80]}, no list of layers from 0 to {layers - 1}")
    return named


def positions_made_for(fields: Fields) -> int:
    """Positions that a rotary model is made for: those in the file, or what its scaling stretches them to.

    YaRN, linear and dynamic scaling stretch the original ones by a factor; files of llama3, LongRoPE have the result.
    """
    named = whole(fields, "max_position_embeddings", default=2048)
    scaling = fields.get("rope_parameters") or fields.get("rope_scaling")
    kind = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
    if not isinstance(scaling, dict) or kind not in _STRETCHING:
        return named
    factor = scaling.get("factor")
    if not isinstance(factor, (int, float)) or not 1 <= factor <= _MOST_STRETCHED:
        return named
    return max(named, int(whole(scaling, "original_max_position_embeddings", default=named) * factor))


def with_biases(
    fields: Fields, *, attention: str = "attention_bias", mlp: str = "", gated: bool = True
) -> dict[str, Any]:
    """What a model of ``rotary`` has of its own where its files turn biases on, as Llama's class reads them.

    ``attention``: the field of those of q, k, v and the output of attention; ``mlp``: of those of all of the MLP.
    """
    hidden, added = whole(fields, "hidden_size"), 0
    of_attention = flag(fields, attention, default=False)
    added += hidden if of_attention else 0
    if mlp and flag(fields, mlp, default=False):
        added += hidden + (2 if gated else 1) * whole(fields, "intermediate_size")
    return {"qkv_biases": of_attention, "other_parameters": added}


def rotary(name: str, fields: Fields, *, shared: int | None = None, **own: Any) -> Transformer:
    """Of Llama's kind: RMSNorm, SwiGLU, rotary positions; ``own`` is what an architecture has of its own.

    ``shared``: heads of keys and values of its class where the file does not name them; null is as many as heads.
    """
    heads = whole(fields, "num_attention_heads")
    shared = heads if shared is None or "num_key_value_heads" in fields else shared
    shape: dict[str, Any] = {
        "name": name,
        "layers": whole(fields, "num_hidden_layers"),
        "hidden": whole(fields, "hidden_size"),
        "heads": heads,
        "kv_heads": whole(fields, "num_key_value_heads", default=shared),
        "head_width": 0 if "head_width" in own else whole(fields, "head_dim", default=0),
        "feedforward": whole(fields, "intermediate_size"),
        "vocabulary": whole(fields, "vocab_size"),
        "context": positions_made_for(fields),
        "tied": flag(fields, "tie_word_embeddings", default=False),
    }
    return Transformer(**(shape | own))
