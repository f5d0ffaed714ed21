"""Whether the ranks match a single-process reference: a few steps of the same data, compared step by step.

Both begin from the same parameters. Rank 0 computes the whole batch by itself, without any communication, and the
losses and gradient norms of the first steps must agree within rounding. A rank whose gradients are not averaged is off
by its own data: some ten percent of the norm, a thousand times what rounding makes.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.free_memory import free_bytes
from raybench.benchmarks.training.models.precision import forward_context, loss_scaler, use_float8
from raybench.benchmarks.training.models.trainable import Trainable, built
from raybench.benchmarks.training.options import TrainingOptions, plain_dtype
from raybench.benchmarks.training.record import Check
from raybench.benchmarks.training.step import Trainer, batch_of
from raybench.benchmarks.training.strategies import prepare
from raybench.benchmarks.training.update import Update

CHECK_STEPS = 3
_FIRST_STEP = 1_000_000  # data that no timed step has

# Relative difference allowed: sums in another order, and in 16 bits products rounded to 2^-8 (bfloat16) or 2^-11.
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 2e-2, "float8": 0.25}
_BYTES_PER_PARAMETER = 16  # parameters, gradients, two moments in float32
_MOST_SAMPLES = 4096  # beyond, the reference would take longer than the benchmark


def check_training(
    context: RankContext, trainable: Trainable, trainer: Trainer, options: TrainingOptions, dtype: str, *, name: str
) -> Check:
    """Train a few steps and compare. Every rank must call it, with a trainer that has not trained yet."""
    reason = _obstacle(context, trainer, options)
    if reason is not None:
        return Check(reason=reason)
    context.progress.enter("verifying")
    losses, norms = [], []
    for step in range(CHECK_STEPS):
        loss, norm = trainer.step(_FIRST_STEP + step, norm=True)
        mean = loss.float().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / context.world_size)
        norms.append(float(norm.item()) if norm is not None else 0.0)
    expected = _reference(context, trainable, options, dtype, name) if context.rank == 0 else ((), ())
    dist.barrier()
    return Check(
        losses=tuple(losses),
        gradient_norms=tuple(norms),
        expected_losses=expected[0],
        expected_gradient_norms=expected[1],
        tolerance=max(TOLERANCE[dtype], TOLERANCE.get(plain_dtype(options.comm_hook) or "", 0.0)),
    )


def _obstacle(context: RankContext, trainer: Trainer, options: TrainingOptions) -> str | None:
    """Why one process cannot repeat it, the same in every rank."""
    if options.comm_hook == "powersgd":
        return "powersgd approximates the gradients: its losses are its own, to be compared with those of another hook"
    samples = options.batch_size * options.accumulate * context.world_size
    if samples > _MOST_SAMPLES:
        return f"a step has {samples} samples, too many for one process to repeat"
    parameters = sum(one.numel() for one in trainer.strategy.plain.parameters())
    fits = torch.tensor([parameters * _BYTES_PER_PARAMETER < 0.5 * free_bytes(context)], device=context.device).int()
    dist.all_reduce(fits, dist.ReduceOp.MIN)
    return None if fits.item() else f"a second model of {parameters} parameters does not fit the memory beside this one"


def _reference(
    context: RankContext, trainable: Trainable, options: TrainingOptions, dtype: str, name: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    model = built(trainable, context.device)
    if dtype == "float8":
        use_float8(model)
    prepare(model, name, context.device, options, dtype)
    parameters = [one for one in model.parameters() if one.requires_grad]
    scaler = loss_scaler(dtype, context.device)  # as the ranks have it: small gradients of float16 vanish otherwise
    update = Update(options, parameters, scaler)
    forward = forward_context(dtype, context.device)

    def loss_of(*batch: torch.Tensor) -> torch.Tensor:
        with forward():
            loss: torch.Tensor = model(*batch)
        return loss

    losses, norms = [], []
    for step in range(CHECK_STEPS):
        losses.append(_whole_batch(context, trainable, options, _FIRST_STEP + step, loss_of, scaler))
        norm = update(norm=True)
        norms.append(float(norm.item()) if norm is not None else 0.0)
    return tuple(losses), tuple(norms)


def _whole_batch(
    context: RankContext,
    trainable: Trainable,
    options: TrainingOptions,
    step: int,
    loss_of: Callable[..., torch.Tensor],
    scaler: torch.amp.GradScaler,
) -> float:
    """Accumulate the gradients of all ranks' samples of a step. Returns their mean loss."""
    parts = context.world_size * options.accumulate
    total = 0.0
    for micro in range(options.accumulate):
        for rank in range(context.world_size):
            batch = batch_of(trainable, options, rank, step * options.accumulate + micro)
            loss = loss_of(*(part.to(context.device) for part in batch))
            scaled: Any = scaler.scale(loss / parts)
            scaled.backward()
            total += loss.item()
    return total / parts
