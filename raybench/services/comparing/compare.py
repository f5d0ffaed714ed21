"""Results that exist beside each other."""

from collections.abc import Sequence
from pathlib import Path

from raybench.documents.comparison.comparison import Comparison
from raybench.errors import UsageError


def compare_results(paths: Sequence[Path], *, gate: str | None = None, allow_unlike: bool = False) -> Comparison:
    """The first of ``paths`` beside each of the others; ``gate`` as typed: ``5%``.

    Raises UsageError for what cannot be read, is of different kinds, or of unlike machines unless they are allowed.
    """
    from raybench.comparison.comparing import compare
    from raybench.services.comparing.sides import side_of

    share = None if gate is None else parse_gate(gate)
    return compare([side_of(path) for path in paths], gate=share, allow_unlike=allow_unlike)


def parse_gate(text: str) -> float:
    """``5%`` or ``0.05`` as a share. Raises UsageError for anything else, and for what is not between 0 and 100 %."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--gate {text} is not a share; write the least regression that counts, such as 5%")
    return share
