"""Whether the same training, seed and settings included, reached the same loss on both sides. Pure.

The bound is that of a study's variants (``documents/run/same_loss.py``): what the numbers' type rounds in a few steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from raybench.comparison.side import Side
from raybench.documents.run.same_loss import LossAgreement, LossVerdict, agreements

_VERSIONS = ("raybench", "torch")  # another one may begin with other weights


def loss_agreements(sides: Sequence[Side]) -> tuple[LossAgreement, ...]:
    """Of each training that the reference and another side have with the same label, options, data and ranks."""
    return tuple(one for other in sides[1:] for one in _agreements(sides[0], other))


def changed_losses(sides: Sequence[Side], verdict: LossVerdict) -> tuple[str, ...]:
    """Those of a verdict, where no other version of raybench or torch can be the reason."""
    alike = [other for other in sides[1:] if not any(_differs(sides[0], other, name) for name in _VERSIONS)]
    return tuple(one.text for other in alike for one in _agreements(sides[0], other) if one.verdict == verdict)


def _agreements(reference: Side, other: Side) -> Iterator[LossAgreement]:
    for label, curve in reference.curves.items():
        if label in other.curves:
            both = ((reference, curve), (other, other.curves[label]))
            yield from agreements([replace(one, name=f"{label} of {side.name}") for side, one in both])


def _differs(reference: Side, other: Side, name: str) -> bool:
    return reference.environment.get(name) != other.environment.get(name)
