"""What is done to gradients on their way through the network: halved by rounding, or cut to a low rank.

Of replicas by DDP's communication hooks, of shards by the type in which FSDP2 reduces. PyTorch's own hooks are called
as they are, but for two limits that they have over gloo: the one of bfloat16 is refused by its name there, though gloo
sums bfloat16, and PowerSGD sends three messages a bucket from callbacks, whose order over several buckets differs
between ranks. So over gloo each bucket waits for the one before it, which overlaps with nothing.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from raybench.benchmarks.base import UnsupportedError
from raybench.benchmarks.training.options import TrainingOptions
from raybench.performance_model.communication import Shape

# PowerSGD begins here, which is in the warm-up: the first steps build the buckets, and error feedback needs one before.
FIRST_POWERSGD_STEP = 2
_LEAST_SAVED = 2  # torch.distributed's min_compression_rate: what saves less is sent whole
_SENT_AS = {"fp16": torch.float16, "bf16": torch.bfloat16}


def install_hook(wrapped: DistributedDataParallel, options: TrainingOptions) -> None:
    """Have the gradients of replicas sent as the options say."""
    # which cost some tenths of a second to import
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if options.comm_hook == "none":
        return
    if options.comm_hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=options.powersgd_rank,
            start_powerSGD_iter=FIRST_POWERSGD_STEP,
            min_compression_rate=_LEAST_SAVED,
            random_seed=options.seed,
        )
        in_turn = dist.get_backend() == "gloo"
        wrapped.register_comm_hook(
            state, _in_turn(powerSGD_hook.powerSGD_hook) if in_turn else powerSGD_hook.powerSGD_hook
        )
        return
    rounding = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}[options.comm_hook]

    def rounded(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        return rounding(state, bucket)

    wrapped.register_comm_hook(None, rounded)


def _in_turn(hook: Any) -> Any:
    def waited(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        done: torch.futures.Future[torch.Tensor] = hook(state, bucket)
        done.wait()
        return done

    return waited


def reduce_dtype(options: TrainingOptions) -> torch.dtype:
    """The type in which shards reduce their gradients. Raises UnsupportedError for what FSDP2 has no place for."""
    if options.comm_hook == "powersgd":
        raise UnsupportedError(
            "--comm-hook powersgd approximates whole gradients, and fsdp reduces them in parts (reduce_scatter), for "
            "which PyTorch has no such hook; take ddp, or fp16 or bf16"
        )
    return _SENT_AS.get(options.comm_hook, torch.float32)


def sent_shapes(shapes: Sequence[Shape], options: TrainingOptions) -> list[Shape]:
    """What of gradients of these shapes DDP sends: of PowerSGD two narrow matrices where they are much smaller."""
    if options.comm_hook != "powersgd":
        return list(shapes)
    return [part for shape in shapes for part in _factors(shape, options.powersgd_rank)]


def _factors(shape: Shape, rank: int) -> tuple[Shape, ...]:
    """``(rows, rank)`` and ``(columns, rank)`` of a matrix; a tensor of more dimensions has its others as columns."""
    if len(shape) < 2:
        return (shape,)
    rows, columns = shape[0], 1
    for size in shape[1:]:
        columns *= size
    rank = min(rows, columns, rank)
    if (rows + columns) * rank * _LEAST_SAVED >= rows * columns:
        return (shape,)
    return (rows, rank), (columns, rank)


def sent_bytes(options: TrainingOptions, plain: int) -> int:
    """Of an element of a gradient that has ``plain`` bytes in memory."""
    return min(plain, _SENT_AS[options.comm_hook].itemsize) if options.comm_hook in _SENT_AS else plain
