"""Figures of earlier runs in place of an estimate: only of the very setting, on such a GPU, of a whole run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raybench.documents.estimate import MeasuredSetting
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.training.point import TrainingPoint
from raybench.performance_model.estimate.measured import Measured
from raybench.performance_model.request.own_runs import is_far
from raybench.services.estimating.measured_setting import Setting, differences, refusal

if TYPE_CHECKING:
    from raybench.performance_model.estimate.answer import Estimate
    from raybench.performance_model.ways.way import Way

_ALL_BUT = 0.95  # of a device's memory: a run that had so much of it and was refused more had all that there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """An estimate with the measured figures that stand in it, and what became of each setting that was given."""

    estimate: "Estimate"
    told: tuple[MeasuredSetting, ...]


def with_measured(estimate: "Estimate", settings: Sequence[Setting], *, way: str | None = None) -> Taking:
    """Trainings before memory runs: they have the whole way. Of two of the same setting the one given first is taken.

    ``way``: the name of the plan's way that it is.
    """
    has, told = Measured(), {}
    for index, setting in sorted(enumerate(settings), key=lambda pair: pair[1].kind == "memory"):
        one = _told(setting, estimate, way)
        if not one.why_not:
            found = _figures(setting, estimate)
            taken = tuple(
                name
                for name, is_new in (
                    ("step time", found.step_seconds and not has.step_seconds),
                    ("peak memory", found.peak and not has.peak),
                    ("whether it fits", found.fits is not None and has.fits is None),
                )
                if is_new
            )
            has = Measured(
                step_seconds=has.step_seconds or found.step_seconds,
                peak=has.peak or found.peak,
                least_peak=has.least_peak or found.least_peak,
                fits=found.fits if has.fits is None else has.fits,
            )
            why = "" if taken else "another run of this setting was taken, or it has no figure of a GPU"
            one = replace(one, taken=taken, why_not=why)
        told[index] = one
    measured = has if has != Measured() else None
    return Taking(estimate=replace(estimate, measured=measured), told=tuple(told[index] for index in sorted(told)))


def with_measured_ways(
    named: Sequence[tuple["Way", str]], settings: Sequence[Setting]
) -> tuple[tuple["Way", ...], tuple[MeasuredSetting, ...]]:
    """Ways of a plan with what was measured of them; of each setting that is of none, the way that it is nearest to."""
    found = [_fitting(way, name, settings) for way, name in named]
    ways, takings = tuple(way for way, _ in found), [taking for _, taking in found]
    told = []
    for index, setting in enumerate(settings):
        of_it = [taking.told[index] for taking in takings]
        taken = [one for one in of_it if one.taken]
        count = {
            name: len(differences(setting, way.estimate.request)) for way, (_, name) in zip(ways, named, strict=True)
        }
        told += taken or [min(of_it, key=lambda one: count[one.way or ""])]
    return ways, tuple(told)


def _fitting(way: "Way", name: str, settings: Sequence[Setting]) -> tuple["Way", Taking]:
    """The way with what was measured of it; where that did not fit, with fewer samples in a micro-batch."""
    from raybench.performance_model.ways.micro_batch import with_fewer_samples

    taking = with_measured(way.estimate, settings, way=name)
    fewer = with_fewer_samples(way) if taking.estimate.measured and taking.estimate.measured.fits is False else None
    if fewer is None:
        return _measured_way(way, taking), taking
    smaller, retaken = _fitting(fewer, name, settings)
    one = way.estimate.request
    lead = f"it did not fit with {one.accumulation} x {one.setup.batch_size} samples a rank: fewer are planned"
    told = tuple(
        replace(after, why_not="; ".join(filter(None, (lead, after.why_not)))) if before.taken else after
        for before, after in zip(taking.told, retaken.told, strict=True)
    )
    return smaller, replace(retaken, told=told)


def _measured_way(way: "Way", taking: Taking) -> "Way":
    measured = taking.estimate.measured
    if measured is None:
        return way
    return replace(way, estimate=taking.estimate, fits=way.fits if measured.fits is None else measured.fits)


def _told(setting: Setting, estimate: "Estimate", way: str | None) -> MeasuredSetting:
    """What is said of it where it is not taken, with its figures."""
    request, point = estimate.request, setting.point
    why = refusal(setting, request)
    unlike = () if why else differences(setting, request)
    if unlike:
        why = f"measured at another setting: {'; '.join(unlike)}"
    found = Measured() if why and not unlike else _figures(setting, estimate)
    training = point if isinstance(point, TrainingPoint) and found.step_seconds else None
    is_of_it = not refusal(setting, request) and not differences(setting, request, same_batch=False)
    return MeasuredSetting(
        kind=setting.kind,
        run_id=setting.run.run_id,
        taken=(),
        run_verdict=setting.run.conclusion.verdict,
        why_not=why or "",
        way=way,
        median_step_seconds=training.seconds.median if training else None,
        step_seconds=found.step_seconds,
        estimated_step_seconds=estimate.estimated_step_seconds if training and not unlike else None,
        peak_bytes=found.peak,
        estimated_peak_bytes=estimate.memory.peak if found.peak and not unlike else None,
        memory_ratios=_ratios(point) if is_of_it and isinstance(point, MemoryPoint) else {},
        is_odd=training is not None and not unlike and _is_odd(training, estimate),
    )


def _is_odd(training: TrainingPoint, estimate: "Estimate") -> bool:
    """Whether it took longer or shorter than nearly all trainings do beside what is told of them."""
    likely, bounds = estimate.likely_step_seconds, estimate.estimated_step_seconds
    if likely is None or bounds is None or bounds[0] == bounds[1]:
        return False
    return is_far(training.seconds.median, likely, math.log(bounds[1] / bounds[0]) / 2)


def _ratios(point: MemoryPoint) -> dict[str, float]:
    """Measured over estimated allocation by batch size."""
    pairs = ((use.batch_size, use.peak, use.estimated_bytes) for use in point.uses if use.fits)
    return {str(size): round(peak / estimate, 4) for size, peak, estimate in pairs if peak and estimate}


def _figures(setting: Setting, estimate: "Estimate") -> Measured:
    """Of the point, as figures of the device that is asked about."""
    point = setting.point
    if isinstance(point, TrainingPoint):
        steps = point.interval_seconds or (point.seconds.min, point.seconds.max)
        if point.memory_kind != "cuda" or not point.peak_allocated_bytes:
            return Measured(step_seconds=steps)
        # the largest of its peaks is what the allocator held
        held = _held(estimate, point.peak_allocated_bytes, point.peak_memory_bytes or 0)
        return replace(held, step_seconds=steps)
    batch = estimate.request.setup.batch_size
    use = next((one for one in point.uses if one.batch_size == batch), None) if point else None
    if point is None or use is None:
        return Measured()
    if use.fits and use.peak:
        return _held(estimate, use.peak, use.reserved)
    limit = estimate.request.memory_bytes
    has_all = limit is not None and point.limit_bytes + estimate.memory.context >= _ALL_BUT * limit
    return Measured(fits=False) if has_all and not use.fits else Measured()


def _held(estimate: "Estimate", allocated: int, reserved: int) -> Measured:
    """Of a run that ended well on such a GPU: it fits any that has all its memory. Nothing where that is left open."""
    request, context = estimate.request, estimate.memory.context
    limit = request.memory_bytes
    least, most = allocated + context, max(allocated, reserved) + context
    if limit is None:
        return Measured(peak=most, least_peak=least)
    if most <= limit or (request.gpu is not None and request.gpu.memory_bytes <= limit):
        return Measured(peak=min(most, limit), least_peak=min(least, limit), fits=True)
    # between the two it is open whether the allocator would have done with less: the estimate stays
    return Measured(peak=most, least_peak=least, fits=False) if least > limit else Measured()
