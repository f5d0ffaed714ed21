"""Programs whose steps or memory are out of the bounds of an estimate that names none, and which facts of theirs do it.

Bounds hold for what nobody says and users choose. What a program decides against the default of an option (gradients
reduced in 16 bits, whole ones added up, weights stored in 16 bits, activations on the CPU), and step times that are
published of it alone, would widen them for all: it is told beside them instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from raybench.documents.estimate import OtherPrograms
from raybench.errors import UsageError
from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate, with_meant
from raybench.performance_model.programs.program import Fact, Program, in_short
from raybench.performance_model.programs.table import PROGRAMS
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.step.attention import may_be_masked

OUTSIDE = 1.05  # how far a bound is out of one before that is told: errors are added as squares, one by one
_LESS = 0.02  # of a ratio, by which a fact has a part in it
_MASKED = "samples may be padded"
_OWN_TIMES = "its own published step times"


def other_programs(found: Estimate, among: Sequence[Program] = PROGRAMS) -> tuple[OtherPrograms, ...]:
    """Those ``among`` them that can train so and are out of the bounds, the furthest first, by reasons together.

    None where a program is named, or something was measured.
    """
    if found.request.program is not None or found.measured is not None:
        return ()
    alike: dict[object, list[EstimateRequest]] = {}
    for program in among:
        own = _trained_by(found.request, program)
        if own is not None:
            alike.setdefault(_decided(own), []).append(own)
    by_reason: dict[tuple[str, ...], OtherPrograms] = {}
    for group in alike.values():
        one = _beside(found, group)
        if one is not None:
            by_reason[one.why] = _together(by_reason[one.why], one) if one.why in by_reason else one
    return tuple(sorted(by_reason.values(), key=lambda one: -one.most))


def _trained_by(request: EstimateRequest, program: Program) -> EstimateRequest | None:
    """As the program trains; None where it cannot."""
    if request.setup.strategy not in program.strategies:
        return None
    asked = replace(request, program=program, checkpointing_known=True)  # as it was asked for
    try:
        return with_program(asked) if refused(program, asked) is None else None
    except UsageError:  # what it decides cannot be with what was asked for
        return None


def _decided(own: EstimateRequest) -> object:
    """What an estimate depends on of a program."""
    program = own.program
    facts = tuple((fact.name, fact.value, fact.is_open) for fact in own.taken)
    return program and (facts, own.setup, program.timing, program.deals_sequences, program.trains_given)


def _beside(found: Estimate, group: Sequence[EstimateRequest]) -> OtherPrograms | None:
    """Of requests that are alike but for the program's name."""
    ratios = _ratios(found, group[0])
    if max(ratios) <= OUTSIDE:
        return None
    faster, slower, more, less = (max(1.0, ratio) for ratio in ratios)
    names = tuple(own.program.name for own in group if own.program)
    why = _why(found, group[0], ratios)
    return OtherPrograms(names=names, faster=faster, slower=slower, more_memory=more, less_memory=less, why=why)


def _together(one: OtherPrograms, other: OtherPrograms) -> OtherPrograms:
    return OtherPrograms(
        names=(*one.names, *other.names),
        faster=max(one.faster, other.faster),
        slower=max(one.slower, other.slower),
        more_memory=max(one.more_memory, other.more_memory),
        less_memory=max(one.less_memory, other.less_memory),
        why=one.why,
    )


def _ratios(found: Estimate, asked: EstimateRequest) -> tuple[float, ...]:
    """Of the bounds of both: fastest, slowest, most and least memory; above 1 where the program's are out."""
    one = with_meant(estimate(asked, alone=False))
    steps, own = found.step_seconds, one.step_seconds
    times = (steps[0] / own[0], own[1] / steps[1]) if steps is not None and own is not None else (1.0, 1.0)
    return *times, one.peak / found.peak, found.least_peak / one.least_peak


def _why(found: Estimate, own: EstimateRequest, ratios: tuple[float, ...]) -> tuple[str, ...]:
    """The facts without which it would be less far out, first those that do most."""
    told = []
    for words, without in _without_each(found.request, own):
        new = _ratios(found, without)
        less = max(before - after for after, before in zip(new, ratios, strict=True) if before > OUTSIDE)
        if less > _LESS:
            told.append((less, words))
    return tuple(words for _, words in sorted(told, key=lambda pair: -pair[0]))


def _without_each(request: EstimateRequest, own: EstimateRequest) -> Iterator[tuple[str, EstimateRequest]]:
    """The program's request with one of its facts as it was before it."""
    for fact in own.taken:
        without = _as_before(request, own, fact)
        if without is not None:
            yield in_short(fact, own.dtype), without
    if may_be_masked(own.setup):
        yield _MASKED, replace(own, setup=replace(own.setup, masked_attention=False))
    if own.program is not None and own.program.timing:
        yield _OWN_TIMES, replace(own, program=replace(own.program, timing=""))


def _as_before(request: EstimateRequest, own: EstimateRequest, fact: Fact) -> EstimateRequest | None:
    name = "whole_gradients" if fact.name == "reduces_each" else fact.name
    before = getattr(request.setup, name, None)
    if before == getattr(own.setup, name, None):
        return None
    changes: dict[str, Any] = {name: before}
    changed = replace(own, setup=replace(own.setup, **changes))
    return replace(changed, reduce_bytes=request.reduce_bytes) if fact.name == "reduce_bytes" else changed
