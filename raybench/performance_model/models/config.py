"""A transformer's shape from the ``config.json`` of a Hugging Face model: a file, or the folder that has it.

Field names are those of transformers' configuration classes; what a file leaves out has the default of its class. Only
architectures whose parameters are known one by one are read: a wrong count would look like a right one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from raybench.errors import UsageError, unknown_name
from raybench.performance_model.models.families import (
    beside_weights,
    dense,
    experts,
    gemma,
    gpt,
    latent,
    layer_norm,
    recent,
)
from raybench.performance_model.models.families.fields import Fields, Reader
from raybench.performance_model.models.released import cached_config, released_id, released_like, released_models
from raybench.performance_model.models.transformer import Transformer

_MOST_BYTES = 1 << 20  # of a config.json: the largest published have some ten thousand
_LONGEST_NAME, _LONGEST_PATH = 200, 1000
_ELSE = "estimate and plan count any other as package.module:factory of a torch.nn.Module"
_INNER = ("text_config", "llm_config", "language_config")  # what a model that sees has of its language model
# Most of whose layers are no attention, but a recurrence: Mamba, linear or lightning attention, short convolutions.
_RECURRENT = frozenset(
    {
        *("bailing_hybrid", "bamba", "falcon_h1", "falcon_mamba", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "lfm3"),
        *("mamba", "mamba2", "minimax", "minimax_m1", "minimax_text_01", "nemotron_h", "olmo_hybrid", "qwen3_5"),
        *("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "recurrent_gemma", "rwkv", "xlstm", "zamba"),
        *("zamba2", "zaya"),
    }
)
_FOLDERS = ("/", "~", ".")  # what the name of a folder begins with, and that of no released model


def is_config(name: str) -> bool:
    """Whether a model's name is meant as a path, or is that of a released model and of no preset."""
    is_path = name.endswith(".json") or "/" in name
    return is_path or (_is_there(Path(name)) and Path(name).is_dir()) or released_id(name) is not None


def shape_taken(name: str) -> str | None:
    """The released model whose shape is taken for another of a name with an owner; None where it is its own."""
    released = released_id(name)
    is_own = released is None or "/" not in name or released.lower() == name.strip().lower()
    return None if is_own or _is_there(Path(name)) or cached_config(name) else released


def model_of_config(name: str) -> Transformer:
    """The shape, of a file, a folder, a model in huggingface_hub's cache, or a released one by its name or its page.

    Raises UsageError where the file cannot be read, or is of an architecture that is not known.
    """
    page = re.match(r"(?:https?://)?huggingface\.co/([^/?#]+/[^/?#]+)", name)
    name = page[1] if page else name
    path = _expanded(name)
    path = path / "config.json" if _is_there(path) and path.is_dir() else path
    released = released_id(name)
    if not _is_there(path):
        path = cached_config(name) or path
    if released is not None and not _is_there(path):
        return _shape({**released_models()[released]["config"], "_name_or_path": released}, path)
    return _shape(_read(path), path)


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # of no user that this machine has
        return Path(name)


def _is_there(path: Path) -> bool:
    """Whether the path is one of this machine: not where it is longer than any, or has a zero byte."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _shape(whole: Fields, path: Path) -> Transformer:
    fields = _language_model(whole)
    kind = fields.get("model_type")
    if kind is None:
        raise UsageError(f"{path} has no model_type, which says its architecture, such as llama. {_ELSE}")
    read = _READERS.get(str(kind))
    if str(kind) in _RECURRENT:
        what = f"{kind} has layers without attention (Mamba, linear attention or convolutions)"
        raise UsageError(f"--model {path}: {what}, of which no estimate is made by a configuration. {_ELSE}")
    if read is None:
        unknown = unknown_name(f"architecture of {path} (model_type)", str(kind), sorted(_READERS))
        raise UsageError(f"{unknown}. {_ELSE}")
    try:
        sees = fields is not whole or "vision_config" in whole
        found = read(_name_of(whole, path) + (", its language model" if sees else ""), fields)
        return replace(found, family=str(kind))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{path}: {_what(error)}; it is not a whole configuration of a {kind} model that is known"
        raise UsageError(f"{what}. {_ELSE}") from error


def _name_of(fields: Fields, path: Path) -> str:
    """Its own; where that is a folder of some machine, which tells others nothing, the folder's last name."""
    own = fields.get("_name_or_path")
    if isinstance(own, str) and 0 < len(own) <= _LONGEST_NAME:
        named = PurePath(own).name if own.startswith(_FOLDERS) else own
        if named.strip("."):
            return named
    return (path.parent.resolve().name if path.name == "config.json" else path.stem) or "model"


def _language_model(fields: Fields) -> Fields:
    """Of a model that sees, too, the language model alone; tied as the file says of the whole."""
    inner = next((one for one in map(fields.get, _INNER) if isinstance(one, dict)), None)
    if inner is None:
        return fields
    tied = {name: fields[name] for name in ("tie_word_embeddings",) if name in fields}
    return {**tied, **inner, "model_type": inner.get("model_type")}


def _what(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _read(path: Path) -> Fields:
    try:
        fields = json.loads(_text(path))
    except UsageError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--model {path} cannot be read as JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"--model {path} does not hold a JSON object; give a config.json")
    return fields


def _text(path: Path) -> str:
    if not _is_there(path) or not path.is_file():
        raise UsageError(
            f"--model {str(path)[:_LONGEST_PATH]} is not a file, nor a released model that raybench knows, nor in "
            f"the cache of huggingface_hub; {_meant(path)}give a model's name, its config.json, or the folder with it"
        )
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"--model {path} has more than {_MOST_BYTES} bytes; give a config.json")
    return path.read_text(encoding="utf-8-sig")  # as editors on Windows write it


def _meant(path: Path) -> str:
    named = "" if path.suffix == ".json" else path.as_posix()
    found = released_like(named) if named.count("/") == 1 else []
    return f"did you mean {' or '.join(found)}? Else " if found else ""


_READERS: Mapping[str, Reader] = {
    **dense.READERS,
    **experts.READERS,
    **gemma.READERS,
    **gpt.READERS,
    **layer_norm.READERS,
    **latent.READERS,
    **beside_weights.READERS,
    **recent.READERS,
}
