"""A transformer's shape from the ``config.json`` of a Hugging Face model: a file, or the folder that has it.

Field names are those of transformers' configuration classes; what a file leaves out has the default of its class. Only
architectures whose parameters are known one by one are read: a wrong count would look like a right one.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from raybench.errors import UsageError, unknown_name
from raybench.performance_model.families import dense, experts, gemma, latent, layer_norm
from raybench.performance_model.families.fields import Fields, Reader
from raybench.performance_model.transformer import Transformer

_MOST_BYTES = 1 << 20  # of a config.json: the largest published have some ten thousand
_LONGEST_NAME = 200


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


_READERS: Mapping[str, Reader] = {
    **dense.READERS,
    **experts.READERS,
    **gemma.READERS,
    **layer_norm.READERS,
    **latent.READERS,
}
