"""Steps that prove training: each strategy and number type, the largest models, and a plain torch loop beside it."""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.events import BenchmarkFinished, Event, WorkloadMeasured
from raybench.benchmarks.registry import records_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.timing import synchronize
from raybench.benchmarks.training.benchmark import _trainer
from raybench.benchmarks.training.clock import clock_of
from raybench.benchmarks.training.models import trainable as models
from raybench.benchmarks.training.models.precision import chosen_dtype, forward_context
from raybench.benchmarks.training.models.trainable import built, trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import TrainingRecord
from raybench.benchmarks.training.step import batch_of
from raybench.benchmarks.training.strategies import materialise
from raybench.benchmarks.training.update import optimizer_of
from raybench.documents.run.training.point import TrainingPoint
from tests.gpu.record import Comparison
from tests.gpu.step import Bench, NotRunError, Outcome, StepFailedError
from tests.measurements.straggler_detection import Sleeping

_LARGE = {"model": "mistral-7b", "batch_size": 1, "sequence_length": 512, "dtype": "bfloat16"}
_SLOW_RANK = 1


def options_of(bench: Bench, **wanted: Any) -> TrainingOptions:
    """A model of the size that the device takes in seconds."""
    gpu = {"model": "gpt2", "batch_size": 4, "sequence_length": 512, "steps": 30, "warmup_steps": 5}
    cpu = {"model": "tiny", "batch_size": 2, "sequence_length": 16, "steps": 4, "warmup_steps": 1}
    return TrainingOptions(**({"overlap_steps": 0} | bench.sized(gpu, cpu) | wanted))


def trained(
    bench: Bench,
    strategy: str,
    options: TrainingOptions,
    *,
    ranks: int = 1,
    verify: bool = True,
    before: Callable[[int], None] | None = None,
) -> tuple[TrainingPoint, Mapping[int, TrainingRecord]]:
    """The point that raybench makes of it, and the records of the ranks. Raises NotRunError with why it was skipped."""
    spec = BenchmarkSpec(name=strategy, kind="training", sizes=(), options=options, verify=verify)
    heard = [event for events in bench.launch([spec], ranks, before=before) for event in events]
    skipped = next((one.skipped for one in heard if isinstance(one, BenchmarkFinished) and one.skipped), None)
    if skipped is not None:
        raise NotRunError(skipped)
    launch = _launch(heard)
    point = records_of("training").point([launch], spec, ranks, None)
    assert isinstance(point, TrainingPoint)
    if point.failed:
        raise StepFailedError(point.failed)
    return point, launch


def _launch(heard: Sequence[Event]) -> dict[int, TrainingRecord]:
    told = (one for one in heard if isinstance(one, WorkloadMeasured))
    return {one.rank: one.record for one in told if isinstance(one.record, TrainingRecord) and not one.record.interim}


def strategy(bench: Bench, name: str, *, ranks: int = 1, **wanted: Any) -> Outcome:
    """A strategy against one process that computes the whole batch: losses and gradient norms."""
    fewer = {"steps": 10, "warmup_steps": 2} if bench.on_gpu and ranks > 1 else {}  # half a GB a step through loopback
    point, _ = trained(bench, name, options_of(bench, **(fewer | wanted)), ranks=ranks)
    difference = point.check["max_relative_difference"]
    compared = [
        Comparison(what="difference from one process", value=difference, most=point.check["tolerance"]),
        *_sane(bench, point),
    ]
    return Outcome(figures=_figures(point), comparisons=compared)


def large(bench: Bench, *, adapter: str) -> Outcome:
    """QLoRA of a model of 7 billion parameters; in a dry run of a tiny one."""
    wanted: dict[str, Any] = {**bench.sized(_LARGE, {}), "adapter": adapter, "steps": bench.sized(10, 4)}
    point, _ = trained(bench, "qlora", options_of(bench, **wanted), verify=False)
    allocated = point.peak_allocated_bytes
    peak = bench.on_gpu_only("peak memory, GiB", allocated and allocated / 2**30, 3.0, 16.0)
    return Outcome(figures=_figures(point), comparisons=[*_sane(bench, point), peak])


def _sane(bench: Bench, point: TrainingPoint) -> list[Comparison]:
    finite = all(map(math.isfinite, point.losses))
    found = [Comparison(what="losses finite", value=float(finite and bool(point.losses)), least=1)]
    if point.peak_tflops or (bench.on_gpu and point.known_facts.dtype != "float8"):
        found.append(bench.on_gpu_only("MFU", point.mfu, 0.001, 0.95))
    return found


def _figures(point: TrainingPoint) -> dict[str, Any]:
    return {
        "step_seconds": asdict(point.seconds),
        "tokens_per_s": point.tokens_per_s,
        "tflop_per_s_per_rank": point.tflop_per_s_per_rank,
        "mfu": point.mfu,
        "mfu_unknown": point.peak_reason,
        "memory": dict(point.memory),
        "phases_seconds": dict(point.phases),
        "gpu_utilization": point.gpu_utilization,
        "losses": [point.losses[0], point.losses[-1]],
        "facts": {name: value for name, value in point.facts.items() if isinstance(value, str | int | float)},
    }


def step_parity(bench: Bench) -> Outcome:
    """raybench's step, marks included, and a plain torch loop with the same model and data, in alternation.

    Once with a batch that keeps the GPU busy, once with one whose kernels wait for the processor that launches them:
    there a round's ratio is off by a tenth, and their median by one or two hundredths.
    """
    busy = _compared(bench, bench.sized((32, 10, 5), (2, 6, 3), (2, 4, 2)))
    waiting = _compared(bench, bench.sized((4, 40, 5), (1, 6, 3), (1, 4, 2)))
    return Outcome(
        figures={"step_seconds": {"busy": _by_side(busy), "waiting": _by_side(waiting)}},
        comparisons=[
            bench.on_gpu_only("step time over a plain loop's", _ratio(busy), 0.99, 1.01),
            bench.on_gpu_only("where kernels wait for the processor", _ratio(waiting), 0.97, 1.03),
        ],
    )


def _compared(bench: Bench, sizes: tuple[int, int, int]) -> list[tuple[float, float]]:
    """By batch size, rounds and steps."""
    batch, rounds, steps = sizes
    found: list[tuple[float, float]] = bench.on_ranks(_alternating, options_of(bench, batch_size=batch), rounds, steps)[
        0
    ]
    return found


def _by_side(pairs: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    return {"raybench": [one for one, _ in pairs], "plain": [one for _, one in pairs]}


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(ours / plain for ours, plain in pairs)


def _alternating(context: RankContext, options: TrainingOptions, rounds: int, steps: int) -> list[tuple[float, float]]:
    """Seconds of a step of both sides in each round; every other round begins with the other side."""
    dtype = chosen_dtype(options.dtype, context.device)
    trainer = _trainer(context, trainable_of(options), "ddp", options, dtype)
    clock = clock_of(context.device)
    sides = [lambda number: trainer.step(number, clock), _plain_loop(context, options, dtype)]
    pairs = []
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        found = {side: _mean_step(context, sides[side], steps) for side in order}
        pairs.append((found[0], found[1]))
    return pairs[1:]  # the first warms up


def _mean_step(context: RankContext, step: Callable[[int], object], steps: int) -> float:
    synchronize(context)
    begin = time.perf_counter()
    for number in range(steps):
        step(number)
    if context.device.type == "cuda":
        torch.cuda.synchronize(context.device)
    return (time.perf_counter() - begin) / steps


def _plain_loop(context: RankContext, options: TrainingOptions, dtype: str) -> Callable[[int], object]:
    """What a person would write."""
    trainable = trainable_of(options)
    model = built(trainable, context.device)
    materialise(model, context.device, options)
    on_gpu = context.device.type == "cuda"
    wrapped = DistributedDataParallel(
        model, device_ids=[context.device] if on_gpu else None, gradient_as_bucket_view=True, broadcast_buffers=False
    )
    optimizer = optimizer_of(options, list(model.parameters()))
    autocast = forward_context(dtype, context.device)

    def step(number: int) -> None:
        batch = (part.to(context.device, non_blocking=True) for part in batch_of(trainable, options, 0, number))
        with autocast():
            loss = wrapped(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def overlap(bench: Bench) -> Outcome:
    """Communication and computation of a step of two ranks, as PyTorch's profiler saw them on their streams."""
    options = options_of(bench, overlap_steps=bench.sized(5, 2), steps=bench.sized(10, 2), warmup_steps=1, profile=True)
    point, launch = trained(bench, "ddp", options, ranks=2, verify=False)
    traces = len(list(bench.folder.glob("trace-rank-*.json.gz")))
    seen = launch[0].exposure
    divided = seen.division
    parts = [seen.communication, seen.computation, seen.overlap, seen.idle]
    hidden = None if seen.overlap is None or not seen.communication else seen.overlap / seen.communication
    return Outcome(
        figures={
            "seconds": dict(zip(("communication", "computation", "overlap", "idle"), parts, strict=True)),
            "operations": dict(seen.operations),
            "profile": point.profile.to_json() if point.profile else None,
            "remarks": list(seen.remarks),
            "step_seconds": point.seconds.median,
        },
        comparisons=(
            Comparison(what="operations seen", value=sum(seen.operations.values()), least=1),
            Comparison(what="traces kept, with NVTX ranges around the phases", value=float(traces), least=2, most=2),
            bench.on_gpu_only("seconds of kernels in a traced step", divided and divided.computation, 1e-6, None),
            bench.on_gpu_only("seconds of communication", seen.communication, 1e-6, None),
            bench.on_gpu_only("seconds of computation", seen.computation, 1e-6, None),
            bench.on_gpu_only("share of communication beside computation", hidden, 0.0, 1.0),
        ),
    )


def straggler(bench: Bench) -> Outcome:
    """Three ranks, one of which takes a third longer in its layers: it, and nobody else, is named."""
    seconds = bench.sized(0.06, 0.04, 0.03)
    wanted = {"model": "mlp", "batch_size": 2, "sequence_length": None, "dtype": "float32", "warmup_steps": 2}
    options = options_of(bench, **wanted, steps=bench.sized(60, 30, 24))
    point, _ = trained(bench, "ddp", options, ranks=3, verify=False, before=partial(_slowed, seconds))
    named = [one.rank for one in point.stragglers]
    return Outcome(
        figures={"named": [one.to_json() for one in point.stragglers], "reason": point.straggler_reason},
        comparisons=(
            Comparison(what="the slow rank is named", value=float(_SLOW_RANK in named), least=1),
            Comparison(what="others named", value=len(set(named) - {_SLOW_RANK}), most=0),
        ),
    )


def _slowed(seconds: float, rank: int) -> None:
    """Make a rank's perceptron take its time in its layers."""
    source = random.Random(rank)
    length = seconds * (4 / 3 if rank == _SLOW_RANK else 1.0)

    def forward(self: models.Perceptron, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = inputs
        for layer in self.layers:
            each = length / len(self.layers)
            made: Any = Sleeping.apply(layer(hidden), lambda each=each: each * source.gauss(1.0, 0.005))
            hidden = made
        return functional.mse_loss(hidden, targets)

    perceptron: type[nn.Module] = models.Perceptron
    perceptron.forward = forward
