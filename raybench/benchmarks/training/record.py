"""What one rank measured of a training benchmark in one launch. Travels as MessagePack; no torch here."""

from math import isfinite
from typing import Any

import msgspec

PHASES = ("data", "forward", "backward", "gradient_sync", "optimizer")


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What this rank knows of its communication in one step, seconds; None where an estimator does not apply.

    ``synchronised`` and ``unsynchronised`` are step times of alternating pairs. Of the profiled steps: the median
    seconds of ``communication`` (waiting for late ranks taken out), ``computation``, both at once (``overlap``) and
    neither (``idle``). ``isolated`` is the time of the same operations alone, ``replayed`` what would stay exposed if
    they ran so fast, one after another, from the moment at which each was ready.
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


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True, tag="training"):
    """One rank's steps. ``stamps[i]``: seconds from a common start to the end of step i on this rank.

    ``phases[name][i]``: seconds of a phase in step i, of PHASES; ``losses[i]`` are this rank's own, on its own data.
    ``collectives[i]``: of shards, seconds of step i within collectives, waiting for late ranks included; ``pieces[i]``:
    of shards on a CPU, seconds before, between and after them.
    ``memory`` in bytes; ``facts`` is what depends on the model and the device alone.
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


def differences(check: Check) -> float | None:
    """The largest relative difference of a loss or norm from the reference; None where there is none.

    What is no number in the reference either is left out: there the training diverges, whoever does it.
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
