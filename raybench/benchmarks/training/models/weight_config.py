"""What of a Hugging Face config.json changes what weights compute, and not what it costs: the folder of weights has it.

Without it a model computes with Llama's first values, which is as fast, and loses with weights that were trained with
others: a Llama 3.1 has a rotary base of 500000 and stretched positions, a Qwen2.5 a base of a million.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from raybench.errors import UsageError

CONFIG = "config.json"
_ROTARY_BASE = 10_000.0
_PLAIN_ROTATIONS = ("default", "dynamic")  # dynamic changes nothing within the length that it was trained for
_NEEDED = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
_Positive = Annotated[float, Meta(gt=0)]
_GELUS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}  # as torch names the approximation


class _Rotation(Struct, frozen=True):
    """``rope_parameters``, or ``rope_scaling`` of older files, as transformers writes it."""

    rope_theta: float | None = None
    rope_type: str | None = None
    type: str | None = None
    factor: _Positive | None = None
    low_freq_factor: _Positive | None = None
    high_freq_factor: _Positive | None = None
    original_max_position_embeddings: _Positive | None = None


class _Config(Struct, frozen=True):
    """What is read of the file."""

    rope_parameters: _Rotation | None = None
    rope_scaling: _Rotation | None = None
    rope_theta: _Positive | None = None
    rms_norm_eps: float | None = None
    layer_norm_epsilon: float | None = None
    activation_function: str | None = None
    hidden_act: str | None = None


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
        return _details(path, msgspec.json.decode(path.read_bytes(), type=_Config))
    except FileNotFoundError:
        return PLAIN
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a configuration of a model: {error}") from error


def _details(path: Path, config: _Config) -> Details:
    rotation = config.rope_parameters or config.rope_scaling or _Rotation()
    kind = rotation.rope_type or rotation.type or "default"
    if kind not in (*_PLAIN_ROTATIONS, "linear", "llama3"):
        raise UsageError(
            f"{path}: positions of the kind '{kind}' are not computed here, so the losses would not be those of these "
            "weights; leave out --weights to measure the speed"
        )
    missing = [name for name in _NEEDED.get(kind, ()) if getattr(rotation, name) is None]
    if missing:
        raise UsageError(
            f"{path} is not a configuration of a model: positions of the kind '{kind}' have no {missing[0]}"
        )
    return Details(
        rotary_base=rotation.rope_theta or config.rope_theta or _ROTARY_BASE,
        linear=rotation.factor if kind == "linear" and rotation.factor else 1.0,
        stretch=_stretch(path, rotation) if kind == "llama3" else None,
        norm_epsilon=config.rms_norm_eps or config.layer_norm_epsilon or PLAIN.norm_epsilon,
        gelu=_GELUS.get(config.activation_function or config.hidden_act or "", PLAIN.gelu),
    )


def _stretch(path: Path, rotation: _Rotation) -> Stretch:
    low, high = rotation.low_freq_factor or 0.0, rotation.high_freq_factor or 0.0
    if not low < high:
        raise UsageError(f"{path} is not a configuration of a model: low_freq_factor {low} is not below {high}")
    trained = rotation.original_max_position_embeddings or 0.0
    return Stretch(factor=rotation.factor or 1.0, low=low, high=high, trained=trained)
