"""The bus bandwidth that a healthy system reaches by message size: ``raybench expected --json``. Nothing is measured.

Schema ``raybench.expected/1``: keys are added, never renamed or removed. GB is 10^9 bytes.
"""

from dataclasses import dataclass
from typing import ClassVar

from raybench.documents.plain import PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPoint(PlainPart):
    """One message size. ``limit``: the share of it below which a measured figure is slow."""

    message_bytes: int
    busbw_gb_per_s: float
    limit: float | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedBandwidth(PlainDocument):
    """One collective on one system. ``unknown`` says why there is no figure; None where there is."""

    SCHEMA: ClassVar[str] = "raybench.expected/1"
    operation: str
    points: tuple[ExpectedPoint, ...]
    unknown: str | None

    @property
    def verdict(self) -> Verdict | None:
        """``unknown`` where a figure is not known; else there is nothing to judge."""
        return "unknown" if self.unknown is not None or not self.points else None

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)
