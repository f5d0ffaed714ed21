"""What one rank measured of a training benchmark in one launch. Travels as MessagePack; no torch here."""

from collections.abc import Sequence
from itertools import chain
from math import isfinite
from typing import Any

import msgspec

from raybench.benchmarks.training.exposure.division import Division

PHASES = ("data", "copy", "forward", "backward", "gradient_sync", "optimizer")


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What this rank knows of its communication in one step, seconds; None where an estimator does not apply.

    ``synchronised`` and ``unsynchronised`` are step times of alternating pairs. Of the profiled steps: the median
    seconds of ``communication`` (waiting for late ranks taken out), ``computation``, both at once (``overlap``) and
    neither (``idle``). ``isolated`` is the time of the same operations alone, ``replayed`` what would stay exposed if
    they ran so fast, one after another, from the moment at which each was ready. ``division``: of the kept trace.
    """

    synchronised: tuple[float, ...] = ()
    unsynchronised: tuple[float, ...] = ()
    communication: float | None = None
    computation: float | None = None
    overlap: float | None = None
    idle: float | None = None
    isolated: float | None = None
    replayed: float | None = None
    wire_bytes: float | None = None
    operations: dict[str, int] = {}
    remarks: tuple[str, ...] = ()
    division: Division | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A short run compared with one process that computes the whole batch: losses and gradient norms, step by step.

    Without a comparison the expected ones are empty; where there was no run either, ``reason`` says why.
    """

    losses: tuple[float, ...] = ()
    expected_losses: tuple[float, ...] = ()
    gradient_norms: tuple[float, ...] = ()
    expected_gradient_norms: tuple[float, ...] = ()
    tolerance: float = 0.0
    reason: str | None = None


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What the held-out samples gave after ``step`` timed steps, the same on every rank.

    ``epoch``: how often all others had been trained on by then, steps before the timed ones included. ``accuracy``: a
    share.
    """

    step: int
    epoch: float
    loss: float
    accuracy: float
    samples: int


class StepMarks(msgspec.Struct, frozen=True, kw_only=True):
    """When each phase of each step ended, as the clock has it: ``at[step * len(names) + mark]`` in nanoseconds.

    A mark ``forward:2`` ends a piece of the phase ``forward``; the last of
    each step is its end.
    """

    names: tuple[str, ...]
    at: tuple[int, ...]


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True, tag="training"):
    """One rank's steps. ``stamps[i]``: seconds from a common start to the end of step i on this rank.

    ``phases[name][i]``: seconds of a phase in step i, of PHASES; ``losses[i]`` are this rank's own, on its own data.
    ``collectives[i]``: of shards, seconds of step i within collectives, waiting for late ranks included; ``pieces[i]``:
    of shards on a CPU, seconds before, between and after them.
    ``memory`` in bytes; ``facts`` is what depends on the model and the device alone.

    An ``interim`` record is a part, told while the benchmark goes on: the steps from ``first_step``, where the part
    before ended, in all that is by step; what is known so far in the rest. It counts where the whole never comes.
    Stamps and phases are left to whoever needs them, to be worked out from ``marks``, as seconds since ``started``.
    ``validations``: all until now, of a part too.
    ``held_bytes[i]``: memory after step i, of a whole record; ``free_bytes``: what was left after the last.
    ``ready_seconds``: for how long of a part the rank was ready to run and had no processor, where its kernel says so.
    """

    label: str
    stamps: tuple[float, ...]
    phases: dict[str, tuple[float, ...]]
    losses: tuple[float, ...]
    memory: dict[str, float | str]
    utilization: dict[str, float | None]
    exposure: Exposure
    check: Check
    facts: dict[str, Any]
    collectives: tuple[float, ...] = ()
    pieces: tuple[tuple[float, ...], ...] = ()
    interim: bool = False
    first_step: int = 0
    marks: StepMarks | None = None
    started: int = 0  # nanoseconds of the clock of the marks
    ready_seconds: float | None = None
    validations: tuple[Validation, ...] = ()
    held_bytes: tuple[float, ...] = ()
    free_bytes: float | None = None


def joined(parts: Sequence[TrainingRecord], before: float = 0.0) -> TrainingRecord:
    """One interim record of a rank's parts, in their order. ``before``: seconds at which their first step began."""
    steps = [step for part in parts if part.marks for step in _steps(part.marks, part.started)]
    known = all(len(part.collectives) == len(part.losses) for part in parts)
    return msgspec.structs.replace(
        parts[-1],
        first_step=0,
        marks=None,
        stamps=tuple(marks[-1][1] for marks in steps),
        phases=phase_seconds(steps, before),
        losses=tuple(chain.from_iterable(part.losses for part in parts)),
        collectives=tuple(chain.from_iterable(part.collectives for part in parts)) if known else (),
    )


def step_ends(marks: StepMarks, started: int) -> list[float]:
    """When each step ended, seconds since ``started``."""
    return [step[-1][1] for step in _steps(marks, started)]


def _steps(marks: StepMarks, started: int) -> list[list[tuple[str, float]]]:
    width = len(marks.names)
    rows = (marks.at[first : first + width] for first in range(0, len(marks.at), width))
    return [[(name, (at - started) / 1e9) for name, at in zip(marks.names, row, strict=True)] for row in rows]


def phase_seconds(steps: Sequence[Sequence[tuple[str, float]]], before: float = 0.0) -> dict[str, tuple[float, ...]]:
    """Seconds of each phase in each step: the sum over its marks of the time since the mark before.

    A mark ``forward:2`` ends a piece of the phase ``forward``; what is before the first mark counts from ``before``.
    What is between the last phase and the end of its step, where a rank may lose its processor, belongs to that phase.
    """
    names = list(dict.fromkeys(name.partition(":")[0] for marks in steps for name, _ in marks if name != "end"))
    phases: dict[str, list[float]] = {name: [] for name in names}
    for marks in steps:
        spent = dict.fromkeys(names, 0.0)
        phase = ""
        for name, at in marks:
            phase = phase if name == "end" else name.partition(":")[0]
            if phase:
                spent[phase] += at - before
            before = at
        for name, seconds in spent.items():
            phases[name].append(seconds)
    return {name: tuple(values) for name, values in phases.items()}


def first_steps(record: TrainingRecord, count: int) -> TrainingRecord:
    """The record as if it had ended after ``count`` steps; memory and utilisation stay those of all."""
    return msgspec.structs.replace(
        record,
        stamps=record.stamps[:count],
        phases={name: values[:count] for name, values in record.phases.items()},
        losses=record.losses[:count],
        collectives=record.collectives[:count],
        pieces=record.pieces[:count],
    )


def differences(check: Check) -> float | None:
    """The largest relative difference of a loss or norm from the reference; None where there is none.

    What is not a number in the reference either is left out: there the training diverges, whoever does it.
    """
    if not check.expected_losses:
        return None
    pairs = [
        *zip(check.losses, check.expected_losses, strict=True),
        *zip(check.gradient_norms, check.expected_gradient_norms, strict=True),
    ]
    return max((_relative(found, expected) for found, expected in pairs if isfinite(expected)), default=None)


def _relative(found: float, expected: float) -> float:
    difference = abs(found - expected) / max(abs(expected), 1e-12)
    return difference if difference == difference else float("inf")  # noqa: PLR0124 - NaN is not near anything
