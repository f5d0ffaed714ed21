"""What is known of a rule beside its check: id, title, severity and page. Every finding is made by one of these."""

from dataclasses import dataclass
from typing import cast, get_args

from diagnostics.findings import Confidence, Evidence, Finding, MeasuredPairs, Recommendation, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """A rule that findings are of. ``severity`` says which one a finding has, and when: the usual one comes first."""

    id: str
    title: str
    severity: str

    @property
    def severities(self) -> tuple[Severity, ...]:
        """Those that ``severity`` names, the usual one first."""
        words = self.severity.replace(";", " ").replace(",", " ").split()
        return tuple(dict.fromkeys(cast("Severity", word) for word in words if word in get_args(Severity)))

    @property
    def page(self) -> str:
        """Title line, symptom, reason, limits and source."""
        raise NotImplementedError

    @property
    def advice(self) -> tuple[Recommendation, ...]:
        """What to do, for a reader of the page."""
        raise NotImplementedError

    def finding(
        self,
        *,
        confidence: Confidence,
        summary: str,
        explanation: str,
        severity: Severity | None = None,
        ranks: tuple[int, ...] = (),
        hosts: tuple[str, ...] = (),
        evidence: tuple[Evidence, ...] = (),
        recommendations: tuple[Recommendation, ...] = (),
        pairs: MeasuredPairs | None = None,
        step: str | None = None,
        component: str | None = None,
        broken_with: tuple[str, ...] | None = None,
    ) -> Finding:
        """A finding of this rule that rests on no line of a log; without ``severity`` with the usual one."""
        return Finding(
            rule=self.id,
            severity=severity or self.severities[0],
            confidence=confidence,
            summary=summary,
            explanation=explanation,
            ranks=ranks,
            hosts=hosts,
            evidence=evidence,
            recommendations=recommendations,
            pairs=pairs,
            step=step,
            component=component,
            broken_with=broken_with,
        )
