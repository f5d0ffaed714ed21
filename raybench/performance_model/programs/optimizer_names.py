"""Optimizers by the names that programs have for them."""

from types import MappingProxyType

from raybench.errors import unknown_name
from raybench.performance_model.setup.training_setup import OPTIMIZERS, Optimizer

# transformers/training_args.py, OptimizerNames; bitsandbytes' classes; llm-foundry's decoupled AdamW. What is fused of
# them is a matter of time and of a program.
_ALIASES: MappingProxyType[str, Optimizer] = MappingProxyType(
    {
        **dict.fromkeys(("adamw-torch", "adamw-torch-fused", "adamw-apex-fused", "adamw-hf", "adamw-fused"), "adamw"),
        **dict.fromkeys(("fused-adamw", "decoupled-adamw", "adamw-32bit"), "adamw"),
        **dict.fromkeys(("adamw-bnb-8bit", "adamw-torch-8bit", "adamw8bit", "adam-8bit"), "adamw-8bit"),
        **dict.fromkeys(("pagedadamw8bit", "paged-adamw-bnb-8bit"), "paged-adamw-8bit"),
        **dict.fromkeys(("paged-adamw-32bit", "pagedadamw", "pagedadamw32bit"), "paged-adamw"),
        "fused-adam": "adam",
    }
)
# Of those that are not estimated: what comes near to the memory of their state.
_NEAR = (
    ("adafactor", "Adafactor keeps a row and a column of a matrix: sgd has nearly its memory"),
    ("lion", "Lion keeps one moment: momentum has its memory"),
    ("muon", "Muon keeps one moment of matrices: momentum has nearly its memory"),
    ("galore", "GaLore's moments are of a rank that no option says"),
    ("4bit", "moments in 4 bits take half of those in 8: adamw-8bit has the nearest"),
)


def optimizer_named(name: str) -> Optimizer:
    """An optimizer by its name, or by that of a program. Raises UsageError for one that is not estimated."""
    key = name.strip().lower().replace("_", "-")
    found = _ALIASES.get(key) or next((one for one in OPTIMIZERS if one == key), None)
    if found is None:
        near = next((words for part, words in _NEAR if part in key), "")
        raise unknown_name("optimizer", name, OPTIMIZERS, else_=near)
    return found
