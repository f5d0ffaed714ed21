"""What no training can be: values out of range, and settings that contradict each other."""

from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.performance_model.setup.training_setup import TrainingSetup

_MOST_SIZE, _MOST_RANK = 10**9, 10**5


def check_setup(setup: "TrainingSetup") -> None:
    """Raises UsageError, by the options that are to be changed."""
    _check_ranges(setup)
    if setup.selective and setup.checkpointing:
        raise UsageError("activation checkpointing is selective or full; give one of them")
    if setup.recompute_modules and (setup.selective or setup.checkpointing):
        raise UsageError("--recompute-modules is instead of other activation checkpointing; give one of them")
    if setup.offload == "all" and not setup.is_sharded:
        raise UsageError("--cpu-offload all is of sharded parameters; take --strategy fsdp (ZeRO-3), or optimizer")
    _check_adapters(setup)


def _check_ranges(setup: "TrainingSetup") -> None:
    if not 0 <= setup.lora_rank <= _MOST_RANK:
        raise UsageError(f"--lora-rank is {setup.lora_rank}; it must be from 1 to {_MOST_RANK}, or 0 for none")
    for name, value in (("--batch-size", setup.batch_size), ("--sequence-length", setup.sequence_length)):
        if not 1 <= value <= _MOST_SIZE:
            raise UsageError(f"{name} is {value}; it must be from 1 to {_MOST_SIZE}")
    if not 0 < setup.recomputed_share <= 1:
        raise UsageError(f"{setup.recomputed_share:g} of the blocks cannot be computed again; give above 0, up to 1")


def _check_adapters(setup: "TrainingSetup") -> None:
    """What is of a frozen base, and whether there is one."""
    if setup.quantized and not setup.lora_rank:
        raise UsageError("4-bit weights cannot be trained; give --lora-rank of at least 1 with them")
    if setup.lora_targets and not setup.lora_rank:
        raise UsageError("targets of LoRA need its rank; give --lora-rank, such as 16")
    if setup.upcast and not setup.quantized:
        raise UsageError("only what a 4-bit base leaves in 16 bits is cast up; give 4-bit weights with it")
    if setup.base_bytes and (setup.quantized or not setup.lora_rank):
        raise UsageError("a type of a frozen base is of adapters over one that is not packed; give --lora-rank")
