"""What of a Hugging Face config.json changes what weights compute, and not what it costs: the folder of weights has it.

Without it a model computes with Llama's first values, which is as fast, and loses with weights that were trained with
others: a Llama 3.1 has a rotary base of 500000 and stretched positions, a Qwen2.5 a base of a million.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from raybench.errors import UsageError

CONFIG = "config.json"
_ROTARY_BASE = 10_000.0
_PLAIN_ROTATIONS = ("default", "dynamic")  # dynamic changes nothing within the length that it was trained for
_GELUS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}  # as torch names the approximation


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Rotations of Llama 3.1: slow ones are ``factor`` times slower, those between the bounds in part.

    A channel that turns less than ``low`` times over the ``trained`` positions is slow, one above ``high`` is not.
    """

    factor: float
    low: float
    high: float
    trained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """``linear``: all rotations are so many times slower. ``gelu``: torch's approximation of it."""

    rotary_base: float = _ROTARY_BASE
    linear: float = 1.0
    stretch: Stretch | None = None
    norm_epsilon: float = 1e-5
    gelu: str = "none"


PLAIN = Details()


def details_of(folder: str) -> Details:
    """Those of the ``config.json`` beside the weights; the plain ones where there is none.

    Raises UsageError for a file that cannot be read, or positions that raybench does not compute.
    """
    path = Path(folder) / CONFIG
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return _details(path, content)
    except FileNotFoundError:
        return PLAIN
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a configuration of a model: {error}") from error


def _details(path: Path, content: Mapping[str, Any]) -> Details:
    rotation = content.get("rope_parameters") or content.get("rope_scaling") or {}
    base = rotation.get("rope_theta") or content.get("rope_theta") or _ROTARY_BASE
    kind = rotation.get("rope_type") or rotation.get("type") or "default"
    if kind not in (*_PLAIN_ROTATIONS, "linear", "llama3"):
        raise UsageError(
            f"{path}: positions of the kind '{kind}' are not computed here, so the losses would not be those of these "
            "weights; leave out --weights to measure the speed"
        )
    epsilon = content.get("rms_norm_eps") or content.get("layer_norm_epsilon") or PLAIN.norm_epsilon
    activation = content.get("activation_function") or content.get("hidden_act")
    return Details(
        rotary_base=float(base),
        linear=float(rotation["factor"]) if kind == "linear" else 1.0,
        stretch=_stretch(rotation) if kind == "llama3" else None,
        norm_epsilon=float(epsilon),
        gelu=_GELUS.get(str(activation), PLAIN.gelu),
    )


def _stretch(rotation: Mapping[str, Any]) -> Stretch:
    low, high = float(rotation["low_freq_factor"]), float(rotation["high_freq_factor"])
    if not low < high:
        raise ValueError(f"low_freq_factor {low} is not below high_freq_factor {high}")
    trained = float(rotation["original_max_position_embeddings"])
    return Stretch(factor=float(rotation["factor"]), low=low, high=high, trained=trained)
