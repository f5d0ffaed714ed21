"""What a part of rank 0 says of each of its steps, for whoever follows a training from afar. Pure."""

from collections.abc import Iterator
from itertools import pairwise

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.record import TrainingRecord, step_ends
from raybench.benchmarks.workload import StepFigures
from raybench.documents.run.facts import TrainingFacts, typed

MOST_OF_A_PART = 100  # steps; parts come each second or two, and trackers take some hundred figures a second


def step_figures(
    part: TrainingRecord, before: TrainingRecord | None, spec: BenchmarkSpec, world_size: int
) -> Iterator[StepFigures]:
    """Loss, time and rate of its steps, and what the held-out samples gave by now. ``position`` counts from 1.

    The loss is rank 0's own. The first step of a part begins where the last of the part ``before`` ended: without that
    its time is not known, but in the first part.
    """
    yield from _validations(part)
    if part.marks is None or not part.losses:
        return
    ends = step_ends(part.marks, part.started)
    begin = 0.0 if part.first_step == 0 else _end(before)
    first = None if begin is None else ends[0] - begin
    seconds = [first, *(end - earlier for earlier, end in pairwise(ends))]
    stride = -(-len(seconds) // MOST_OF_A_PART)
    name, samples = _rate_of(part, spec, world_size)
    for index in range((len(seconds) - 1) % stride, len(seconds), stride):  # the last one is among them
        values = {"loss": part.losses[index]}
        spent = seconds[index]
        if spent:
            values |= {"step_seconds": spent, name: samples / spent}
        yield StepFigures(axis="step", position=part.first_step + index + 1, values=values)


def _end(part: TrainingRecord | None) -> float | None:
    """When the last step of a part ended, seconds since the timed steps began."""
    return None if part is None or part.marks is None else step_ends(part.marks, part.started)[-1]


def _rate_of(part: TrainingRecord, spec: BenchmarkSpec, world_size: int) -> tuple[str, float]:
    """The name of the rate, and what a step of all ranks is worth in it."""
    samples = spec.options.batch_size * spec.options.accumulate * world_size
    tokens = typed(TrainingFacts, part.facts).tokens_per_sample
    return ("tokens_per_s", samples * tokens) if tokens else ("samples_per_s", samples)


def _validations(part: TrainingRecord) -> Iterator[StepFigures]:
    """Those that are new in this part: it has all until now."""
    for one in part.validations:
        if one.step >= part.first_step or (one.step == 0 and part.first_step == 0):
            values = {"validation_loss": one.loss, "validation_accuracy": one.accuracy, "epoch": one.epoch}
            yield StepFigures(axis="step", position=one.step, values=values)
