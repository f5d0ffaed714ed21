"""Whether the same training, seed and settings included, reached the same loss on both sides. Pure.

The bound is that of a study's variants (``documents/run/same_loss.py``): what the numbers' type rounds in a few steps.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raybench.comparison.differing import unlike
from raybench.comparison.parameters import parameters_of, value_text
from raybench.comparison.side import Side
from raybench.documents.run.same_loss import Curve, LossAgreement, LossVerdict, agreements

_ENDS: tuple[Callable[[Curve], float], ...] = (
    lambda one: one.first,
    lambda one: one.last,
)
_GRAVITY = ("same", "unknown", "different")
_NO_VALIDATION = "no validation loss, or one that is not a number"
_OF_MACHINE = ("ranks", "global batch size", "batch size a rank", "dtype")
_VERSIONS = ("raybench", "torch")  # another one may begin with other weights


def loss_agreements(sides: Sequence[Side]) -> tuple[LossAgreement, ...]:
    """Of each training that the reference and another side have with the same label, options, data and ranks."""
    return tuple(one for other in sides[1:] for one in _agreements(sides[0], other))


def changed_losses(sides: Sequence[Side], verdict: LossVerdict) -> tuple[str, ...]:
    """Those of a verdict, where no other version of raybench or torch can be the reason."""
    alike = [other for other in sides[1:] if not any(differs(sides[0], other, name) for name in _VERSIONS)]
    return tuple(one.text for other in alike for one in _agreements(sides[0], other) if one.verdict == verdict)


def _agreements(reference: Side, other: Side) -> Iterator[LossAgreement]:
    """Of each training the worst pair of runs."""
    for label, curves in reference.curves.items():
        for key in dict.fromkeys(curve.key for curve in curves):
            ours, theirs = (_extremes(_of_key(side, label, key)) for side in (reference, other))
            pairs = [one for before in ours for after in theirs for one in agreements([before, after])]
            if pairs:
                yield max(pairs, key=lambda one: (_GRAVITY.index(one.verdict), one.first_apart, one.last_apart))


def _of_key(side: Side, label: str, key: Hashable) -> Sequence[Curve]:
    """By the name of the side; of several runs each by its own."""
    curves = side.curves.get(label, ())
    alike = [one for one in curves if one.key == key]
    return alike if len(curves) > 1 else [replace(one, name=f"{label} of {side.name}") for one in alike]


def _extremes(curves: Sequence[Curve]) -> Sequence[Curve]:
    """Those that are furthest off at either end, and at their evaluation: a pair of them is the worst."""
    if not curves:
        return []
    found = []
    for value in _ENDS:
        found += [min(curves, key=value), max(curves, key=value)]
    evaluated = sorted((one for one in curves if one.validation is not None), key=lambda one: one.validation or 0.0)
    return list(dict.fromkeys([*found, *evaluated[:1], *evaluated[-1:]]))


def missing_losses(sides: Sequence[Side]) -> tuple[str, ...]:
    """Why losses that are there could not be judged, although nobody asked for another training.

    Those of the reference that another side has not as numbers, validation losses too; and those of trainings that
    were asked for alike and were of other things.
    """
    gone = (
        f"{label} of {other.name} has no losses that can be judged, that of {sides[0].name} has"
        for other in sides[1:]
        for label in sides[0].curves
        if label in other.losses and label not in other.curves
    )
    unlike_asked = (text for other in sides[1:] for text, is_declared in _apart(sides[0], other) if not is_declared)
    return (*gone, *_partly_evaluated(sides), *_no_longer_evaluated(sides), *unlike_asked)


def unjudged_losses(sides: Sequence[Side]) -> tuple[str, ...]:
    """Losses that nothing is held against: another training was asked for, or the reference has none."""
    declared = [text for other in sides[1:] for text, is_declared in _apart(sides[0], other) if is_declared]
    alone = [
        f"losses of {label} of {other.name} are not judged: {sides[0].name} has none that can be"
        for other in sides[1:]
        for label in other.curves
        if label not in sides[0].curves
    ]
    return (*declared, *alone)


def _partly_evaluated(sides: Sequence[Side]) -> Iterator[str]:
    """Trainings of one side of which some alone have validation losses."""
    for side in sides:
        for label, curves in side.curves.items():
            for key in dict.fromkeys(one.key for one in curves):
                alike = [one.is_evaluated for one in curves if one.key == key]
                if any(alike) and not all(alike):
                    lack = f"{alike.count(False)} of {len(alike)}"
                    yield f"{side.name}: {lack} trainings of {label} have {_NO_VALIDATION}"


def _no_longer_evaluated(sides: Sequence[Side]) -> Iterator[str]:
    for other in sides[1:]:
        for label, curves in sides[0].curves.items():
            for key in dict.fromkeys(one.key for one in curves if one.is_evaluated):
                theirs = [one.is_evaluated for one in other.curves.get(label, ()) if one.key == key]
                if theirs and not any(theirs):
                    yield f"{label} of {other.name} has {_NO_VALIDATION}, that of {sides[0].name} has"


def _apart(reference: Side, other: Side) -> Iterator[tuple[str, bool]]:
    """Trainings of one label that were of other things, and whether that was asked for, or follows from what differs.

    Another version counts parameters and names data otherwise; other machines have other ranks and types.
    """
    for label in reference.curves:
        ours, theirs = (
            tuple(dict.fromkeys(one.key for one in side.curves.get(label, ()))) for side in (reference, other)
        )
        new, gone = ([key for key in some if key not in others] for some, others in ((theirs, ours), (ours, theirs)))
        pairs = [(_nearest(key, ours), key) for key in new] or [(key, _nearest(key, theirs)) for key in gone if theirs]
        for before, after in pairs:
            asked = tuple(_changes(*(parameters_of(asked_of(key)) or {} for key in (before, after))))
            found = asked or tuple(_changes(*(decides_of(key) for key in (before, after))))
            is_declared = bool(asked) or _follows([name for name, *_ in found], reference, other)
            said = ", ".join(f"{name} {value_text(now)}, not {value_text(was)}" for name, was, now in found)
            yield (
                f"losses of {label} of {other.name} are not held against those of {reference.name}: {said}",
                is_declared,
            )


def _follows(names: Sequence[str], reference: Side, other: Side) -> bool:
    """Whether what decides losses differs since machines or versions do."""
    is_of_machine = all(name in _OF_MACHINE for name in names) and bool(unlike([reference, other]))
    return is_of_machine or any(differs(reference, other, name) for name in _VERSIONS)


def _nearest(key: Hashable, keys: Sequence[Hashable]) -> Hashable:
    """That which was asked for alike, if there is one."""
    return next((one for one in keys if asked_of(one) == asked_of(key)), keys[0])


def asked_of(key: Hashable) -> str:
    """What a training was started with, as one text: the first part of a side's key."""
    return key[0] if isinstance(key, tuple) else ""


def decides_of(key: Hashable) -> Mapping[str, Any]:
    """What decides its losses besides: the second part."""
    return dict(key[1]) if isinstance(key, tuple) else {}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def differs(reference: Side, other: Side, name: str) -> bool:
    """Whether the versions of something are not the same on both sides, or not known on one."""
    return reference.environment.get(name) != other.environment.get(name)
