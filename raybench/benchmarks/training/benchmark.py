"""The training benchmark of one rank: build, check against one process, warm up, time steps, look into some of them."""

import contextlib
import gc
from collections.abc import Generator
from typing import Any

import torch

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.registry import labels_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.timing import synchronize
from raybench.benchmarks.training.clock import clock_of
from raybench.benchmarks.training.exposure.overlap import keep_trace, measure_exposure
from raybench.benchmarks.training.interim import UNCHECKED, Parts
from raybench.benchmarks.training.models.peft_adapters import versions_of_adapters
from raybench.benchmarks.training.models.precision import chosen_dtype
from raybench.benchmarks.training.models.trainable import Trainable, built, trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.ranges import ranges_of
from raybench.benchmarks.training.record import Check, Exposure, TrainingRecord, phase_seconds
from raybench.benchmarks.training.reference import check_training
from raybench.benchmarks.training.step import Trainer
from raybench.benchmarks.training.strategies import apply_strategy
from raybench.benchmarks.training.traffic import step_traffic
from raybench.benchmarks.training.usage import Usage, device_facts, free_bytes
from raybench.benchmarks.training.validation import Evaluations
from raybench.benchmarks.training.waiting import CollectiveClock

_WARM_UP_DATA = 2_000_000  # step numbers, and with them data, that no timed step has
_NO_STEPS: dict[str, Any] = {
    "stamps": (),
    "phases": {},
    "losses": (),
    "collectives": (),
    "pieces": (),
    "held_bytes": (),
}


def run(context: RankContext, spec: BenchmarkSpec) -> Generator[TrainingRecord, None, int]:
    """Train, and yield this rank's one record, with parts of it before.

    Raises UnsupportedError for what the device lacks.
    """
    options: TrainingOptions = spec.options
    dtype = chosen_dtype(options.dtype, context.device)
    context.progress.enter("preparing buffers")
    trainable = trainable_of(options, context.world_size)
    trainer = _trainer(context, trainable, spec.name, options, dtype)
    facts = _facts(context, spec, trainer, dtype, trainable)
    context.progress.enter("warming up")
    for step in range(options.warmup_steps):
        trainer.step(_WARM_UP_DATA + step)
        context.progress.iteration(step + 1)
    label = labels_of(spec, context.world_size)[0]
    timed = yield from _time(context, trainer, trainable, options, label, facts)
    exposure = _exposure(context, trainer, spec.name, options)
    trainer.end()
    del trainer
    gc.collect()  # PyTorch's wrappers and their model hold each other, and the check needs the memory
    timed |= {"label": label, "exposure": exposure, "facts": facts}
    yield TrainingRecord(**(timed | _NO_STEPS), check=UNCHECKED, interim=True)
    yield TrainingRecord(**timed, check=_check(context, trainable, spec, options, dtype))
    return 0


def _trainer(context: RankContext, trainable: Trainable, name: str, options: TrainingOptions, dtype: str) -> Trainer:
    model = built(trainable, context.device)
    return Trainer(context, trainable, apply_strategy(context, model, name, options, dtype), options, dtype)


def _check(
    context: RankContext, trainable: Trainable, spec: BenchmarkSpec, options: TrainingOptions, dtype: str
) -> Check:
    """With a trainer of its own, that has not trained yet."""
    if not spec.verify:
        return Check(reason="the check was switched off")
    if context.device.type == "cuda":  # gpu: train-ddp, train-fsdp
        torch.cuda.empty_cache()
    trainer = _trainer(context, trainable, spec.name, options, dtype)
    check = check_training(context, trainable, trainer, options, dtype, name=spec.name)
    trainer.end()
    return check


def _time(
    context: RankContext,
    trainer: Trainer,
    trainable: Trainable,
    options: TrainingOptions,
    label: str,
    facts: dict[str, Any],
) -> Generator[TrainingRecord, None, dict[str, Any]]:
    """Time the steps, and tell them in parts meanwhile: the last when an error ends them, or all are through."""
    context.progress.enter("timing")
    usage = Usage(context)
    evaluations = Evaluations(context, trainer, trainable.samples, options)
    evaluations.after(0)
    if trainer.feed is not None:
        trainer.feed.announce(0, options.steps * options.accumulate)
    synchronize(context)
    clock = clock_of(context.device)
    waiting = CollectiveClock(context.device, ranges_of(context.device, options))
    replicas = trainer.strategy.has_gradient_marks
    losses: list[torch.Tensor] = []
    kept = torch.empty(options.steps) if context.device.type == "cpu" else None
    parts = Parts(label, facts, clock, usage, None if replicas else waiting, losses, evaluations.found)
    try:
        with contextlib.nullcontext() if replicas else waiting.installed():
            for step in range(options.steps):
                loss, _ = trainer.step(step, clock)
                waiting.end_step()
                losses.append(_kept(loss, step, kept))
                usage.sample()
                context.progress.iteration(step + 1)
                if step == options.steps // 2:
                    usage.sample_gpu()
                if parts.is_due:
                    yield from parts.tell()
                if evaluations.is_due(step + 1):
                    with clock.pausing(), waiting.pausing():
                        evaluations.after(step + 1)
    except RuntimeError:
        with contextlib.suppress(RuntimeError):  # a device that is broken tells nothing any more
            yield from parts.tell()
        raise
    usage.sample_gpu()
    if usage.gpu_problem is not None:
        facts["gpu_utilization_unknown"] = usage.gpu_problem
    stamps, marks = clock.read()
    yield from parts.tell()
    return {
        "stamps": tuple(stamps),
        "phases": phase_seconds(marks),
        "collectives": () if replicas else waiting.read(),
        "pieces": () if replicas else waiting.pieces(),
        "losses": tuple(float(loss.item()) for loss in losses),
        "validations": tuple(evaluations.found),
        "memory": usage.memory(),
        "utilization": usage.utilization(),
        "held_bytes": tuple(usage.held),
        "free_bytes": free_bytes(context.device),
    }


def _kept(loss: torch.Tensor, step: int, kept: torch.Tensor | None) -> torch.Tensor:
    """The loss of a step, on a CPU in memory of its own.

    The C library makes it beside the step's largest blocks, and as long as it is there the next step's find no room in
    what they left: a process with scores of 4 MiB grew by 4 MiB a step. PyTorch's allocator of a GPU keeps small
    blocks apart.
    """
    return loss if kept is None else kept[step].copy_(loss)


def _exposure(context: RankContext, trainer: Trainer, strategy: str, options: TrainingOptions) -> Exposure:
    if context.world_size == 1:
        division = keep_trace(context, trainer, strategy) if options.profile else None
        return Exposure(remarks=("one rank has nobody to communicate with",), division=division)
    if not options.overlap_steps and not options.profile:
        return Exposure(remarks=("not measured: --overlap-steps is 0",))
    return measure_exposure(context, trainer, strategy, options)


def _data_facts(trainable: Trainable) -> dict[str, Any]:
    """What is trained on, where it can be learned."""
    samples = trainable.samples
    if samples is None:
        return {}
    return {
        "data": samples.name,
        "training_samples": samples.count,
        "validation_samples": samples.held_out,
        "data_remark": samples.remark,
    }


def _facts(
    context: RankContext, spec: BenchmarkSpec, trainer: Trainer, dtype: str, trainable: Trainable
) -> dict[str, Any]:
    options: TrainingOptions = spec.options
    traffic = step_traffic(context, trainer.strategy.plain, spec.name, options, dtype)
    parameters = list(trainer.strategy.plain.parameters())
    frozen = sum(buffer.numel() * buffer.element_size() for buffer in trainer.strategy.plain.buffers())
    return {
        **device_facts(context),
        "expected_wire_bytes": traffic.wire_bytes,
        "dtype": dtype,
        "parameters": sum(one.numel() for one in parameters),
        "trainable_parameters": sum(one.numel() for one in trainer.parameters),
        "quantised_bytes": frozen,
        "adapter": versions_of_adapters(options, spec.name),
        "tokens_per_sample": trainable.tokens_per_sample,
        **_data_facts(trainable),
        "threads": torch.get_num_threads(),
    }
