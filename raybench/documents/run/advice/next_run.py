"""What to train with next, from a training's own figures: what limits it, and what its memory allows."""

from collections.abc import Iterator

from raybench.documents.run.advice.limit import limit_advice
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.threshold import TIGHT_MEMORY

_STATE_BYTES = 16  # of a parameter: itself, its gradient, and AdamW's two moments in float32
_GATHERED_BYTES = 4
_ROOMY = 0.5  # of the device: below it a batch twice as large may fit
_GIB = 2**30
_SMALLER = {
    "ddp": "take --strategy fsdp, --activation-checkpointing, or lora where it is enough to train that",
    "fsdp": "take --activation-checkpointing, or more nodes, over which the shards get smaller",
    "lora": "take qlora, or --activation-checkpointing",
    "qlora": "take --activation-checkpointing, or a shorter --sequence-length",
}


def training_advice(point: TrainingPoint) -> Iterator[str]:
    """What limits a step and what to change, then what the device's memory says of strategy and batch."""
    yield from limit_advice(point)
    yield from memory_advice(point)


def memory_advice(point: TrainingPoint) -> Iterator[str]:
    """Nothing on a CPU: the memory of a process does not tell what a device would hold."""
    total, peak = point.memory_limit_bytes, point.peak_memory_bytes
    if point.memory_kind != "cuda" or not total or not peak:  # gpu: train-ddp
        return
    strategy, share = point.label.partition(" ")[0], peak / total
    if share > TIGHT_MEMORY:
        yield (
            f"{share:.0%} of the device's memory is taken, which is tight: {_SMALLER.get(strategy, _SMALLER['ddp'])}; "
            "a smaller --batch-size with --gradient-accumulation-steps keeps the global batch"
        )
        return
    if strategy == "ddp" and point.world_size > 1:
        yield f"{share:.0%} of the device's memory is taken: ddp fits, and fsdp would spare what is not short"
    elif strategy == "fsdp":
        yield from _of_shards(point, peak, total)
    if share < _ROOMY:
        yield "a --batch-size twice as large may fit: 'raybench memory' finds the largest, 'study batch-size' its use"


def _of_shards(point: TrainingPoint, peak: int, total: int) -> Iterator[str]:
    """Whole replicas, or parameters that stay gathered, where they would fit by their bytes."""
    count = point.parameter_count
    if not count:
        return
    elsewhere = count * (1 - 1 / point.world_size)  # of its parameters, on other ranks
    replica, gathered = peak + _STATE_BYTES * elsewhere, peak + _GATHERED_BYTES * elsewhere
    if replica <= TIGHT_MEMORY * total:
        yield (
            f"ddp would take about {replica / _GIB:.1f} of {total / _GIB:.0f} GiB and sends less: "
            "'raybench study strategy' measures both"
        )
    elif gathered <= TIGHT_MEMORY * total:
        yield (
            f"ddp would take about {replica / _GIB:.1f} of {total / _GIB:.0f} GiB, too much; --sharding grad-op about "
            f"{gathered / _GIB:.1f}, and gathers once less"
        )
    else:
        yield f"neither ddp (about {replica / _GIB:.1f} GiB) nor --sharding grad-op would fit: fsdp it is"
