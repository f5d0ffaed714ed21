"""Whether the same training, seed and settings included, reached the same loss on both sides. Pure.

The bound is that of a study's variants (``documents/run/same_loss.py``): what the numbers' type rounds in a few steps.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from raybench.comparison.side import Side
from raybench.documents.run.same_loss import Curve, LossAgreement, LossVerdict, agreements

_ENDS: tuple[Callable[[Curve], float], ...] = (
    lambda one: one.first,
    lambda one: one.last,
    lambda one: one.validation or 0.0,
)
_GRAVITY = ("same", "unknown", "different")
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
    return list(dict.fromkeys(found))


def missing_losses(sides: Sequence[Side]) -> tuple[str, ...]:
    """Trainings whose losses can be judged on the reference, and not on another side, which has them."""
    return tuple(
        f"{label} of {other.name} has no losses that can be judged, that of {sides[0].name} has"
        for other in sides[1:]
        for label in sides[0].curves
        if label in other.losses and label not in other.curves
    )


def differs(reference: Side, other: Side, name: str) -> bool:
    """Whether the versions of something are not the same on both sides, or not known on one."""
    return reference.environment.get(name) != other.environment.get(name)
