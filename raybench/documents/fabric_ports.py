"""What tools of a fabric's management say of its ports: ``raybench fabric import --json``.

Schema ``raybench.fabric-ports/1``: keys are added, never renamed or removed.
"""

from functools import cached_property
from typing import ClassVar

from diagnostics.findings import Finding
from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.quantity import Count
from raybench.verdicts import Conclusion


class PortsFile(FieldwisePart, frozen=True, kw_only=True):
    """A file, and what it was: ``format`` is empty where it is of none that is known. ``covers``: what it tells of."""

    name: str
    format: str
    ports: Count = 0
    complaints: Count = 0
    covers: tuple[str, ...] = ()


class FabricPorts(FieldwiseDocument, frozen=True, kw_only=True):
    """All files together. ``judged``: what some file tells of; ``not_judged``: what none does, which is no pass.

    ``more_findings``: how many there are beyond those that are kept.
    """

    SCHEMA: ClassVar[str] = "raybench.fabric-ports/1"
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "verdict", "verdict_reason"})
    files: tuple[PortsFile, ...]
    nodes: Count
    ports: Count
    judged: tuple[str, ...]
    not_judged: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    more_findings: Count = 0

    @cached_property
    def conclusion(self) -> Conclusion:
        """The gravest finding; ok only of what was judged."""
        left = f"; not told: {', '.join(self.not_judged)}" if self.not_judged else ""
        if self.findings:
            first, more = self.findings[0], len(self.findings) + self.more_findings - 1
            reason = first.summary + (f" (and {more} more)" if more else "")
            return Conclusion(verdict="critical" if first.severity == "critical" else "warning", reason=reason)
        if not self.judged:
            return Conclusion(verdict="unknown", reason="nothing in these files can be judged")
        of = f" of {self.ports} ports of {self.nodes} nodes" if self.ports else ""
        return Conclusion(verdict="ok", reason=f"nothing wrong in {', '.join(self.judged)}{of}{left}")

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.conclusion.exit_code

    def to_json(self) -> Json:
        """With the verdict and its reason."""
        content = super().to_json()
        verdict = {"verdict": self.conclusion.verdict, "verdict_reason": self.conclusion.reason}
        return {"schema": self.SCHEMA, **verdict, **{key: one for key, one in content.items() if key != "schema"}}
