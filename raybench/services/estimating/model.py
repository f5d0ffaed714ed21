"""The model that an estimate is of, by its name and the sizes that are given."""

from dataclasses import replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.counted_model import counted_model, is_import_path
from raybench.services.estimating.options import at_least_one

if TYPE_CHECKING:
    from raybench.performance_model.models.transformer import Transformer
    from raybench.services.estimating.options import EstimateOptions

_COUNTED_LENGTH = 2048  # tokens of a sample, where nobody says, of a model that is counted


def model_asked(options: "EstimateOptions") -> "Transformer":
    """The model, resized as asked. Raises UsageError for one that is not known, or cannot have these sizes."""
    from raybench.performance_model.models.config import is_config, model_of_config
    from raybench.performance_model.models.presets import preset_named
    from raybench.performance_model.models.released import released_names

    names = ("layers", "hidden", "heads", "kv_heads", "feedforward", "vocabulary")
    changes = {
        name: value for name in names if (value := at_least_one(getattr(options, name), f"--{name.replace('_', '-')}"))
    }
    if _is_call(options.model):
        raise UsageError(
            f"--model {options.model} has arguments, and an import path has none; name a function that gives the "
            "module: def make(): return Net(64), and --model package.module:make"
        )
    if is_import_path(options.model):
        return _counted(options, changes)
    if is_config(options.model):
        model = model_of_config(options.model)
    else:
        model = preset_named(options.model, others=released_names())
    length = options.sequence_length or 0
    if changes.keys() - {"vocabulary"} and 0 < model.positions < length:  # another model, with a table of its own
        changes["positions"] = at_least_one(length, "--sequence-length") or length
    model = model.resized(**changes) if changes else model
    ahead = at_least_one(options.mtp_layers, "--mtp-layers")
    if ahead and options.lora_rank:
        raise UsageError("--mtp-layers are of a model that is trained whole; leave them out with adapters")
    model = model.with_prediction(ahead) if ahead else model
    return model if options.dropout is None else replace(model, drops=options.dropout)


def _is_call(name: str) -> bool:
    """Whether an import path is written as a call: ``package.module:factory(64)``."""
    path, bracket, _ = name.partition("(")
    return bool(bracket) and is_import_path(path)


def _counted(options: "EstimateOptions", changes: dict[str, int]) -> "Transformer":
    in_part = options.selective_checkpointing or options.recompute_modules
    if changes or options.lora_rank or in_part or options.dropout is not None or options.mtp_layers:
        part = "--selective-checkpointing" if options.selective_checkpointing else "--recompute-modules"
        rest = part if in_part else "--dropout" if options.dropout is not None else "--mtp-layers"
        given = "its sizes" if changes else "LoRA" if options.lora_rank else rest
        raise UsageError(f"--model {options.model} is taken as it is; {given} cannot be chosen beside an import path")
    length = at_least_one(options.sequence_length, "--sequence-length") or _COUNTED_LENGTH
    return counted_model(options.model, sequence_length=length, dtype=options.dtype)


def with_positions(model: "Transformer", options: "EstimateOptions") -> tuple["Transformer", dict[str, str]]:
    """With a table of positions as long as the samples, where all of it is trained; and a line that says so.

    A model that is trained from the start has the table that it is told (nanoGPT's ``block_size``, Megatron-LM's
    ``--max-position-embeddings``). Raises UsageError for longer samples with adapters: a frozen table has its length.
    """
    length, own = options.sequence_length, model.positions
    if length is None or not 0 < own < length:
        return model, {}
    if options.lora_rank or is_import_path(options.model):
        raise UsageError(
            f"--sequence-length is {length}, and {options.model} has a table of {own} positions; "
            "take a shorter one, or a model with rotary positions such as llama"
        )
    at_least_one(length, "--sequence-length")
    longer = replace(model, positions=length, context=max(model.context, length))
    return longer, {"positions": f"a table of {length}, as --sequence-length asks, in place of {model.name}'s {own}"}


def shape_basis(name: str) -> dict[str, str]:
    """A line of a model that is estimated by the shape of another release of it."""
    from raybench.performance_model.models.config import shape_taken

    released = None if is_import_path(name) else shape_taken(name)
    return {"model": f"{name.strip()} by the shape of {released}, which it shares"} if released else {}
