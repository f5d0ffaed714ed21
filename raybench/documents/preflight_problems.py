"""The problems that a preflight found: each once, with the hosts that have it, the worst first. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.findings import Finding
from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.finding_rules.preflight import CHECK
from raybench.unreachable import brief_reason
from raybench.verdicts import CheckVerdict

_WORST_FIRST: tuple[CheckVerdict, ...] = ("fail", "error", "warn")
_ANY_HOST = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightProblem:
    """A check that some hosts did not pass alike, and what to do; HOST in that stands for any of several."""

    check: str
    verdict: CheckVerdict
    seen: str
    expected: str
    advice: str
    hosts: tuple[str, ...]

    @property
    def finding(self) -> Finding:
        """The same in the form of every finding."""
        return CHECK.finding(
            severity="critical" if self.verdict == "fail" else "warning",
            confidence="certain",
            summary=f"{self.check}: {self.seen}",
            explanation=f"Expected: {self.expected}." if self.expected else "",
            hosts=self.hosts,
            recommendations=CHECK.advise(advice=self.advice) if self.advice else (),
        )


def problems_of(report: PreflightReport) -> Iterator[PreflightProblem]:
    """All of them."""
    for verdict in _WORST_FIRST:
        grouped: dict[tuple[str, str, str, str], list[str]] = {}
        for host in report.hosts:
            for one in (check for check in host.checks if check.verdict == verdict):
                key = (one.check, _seen(host.host, one), one.expected, _advice(host.host, one))
                grouped.setdefault(key, []).append(host.host)
        for (check, seen, expected, general), hosts in grouped.items():
            advice = general.replace(_ANY_HOST, "HOST" if len(hosts) > 1 else hosts[0])
            yield PreflightProblem(
                check=check, verdict=verdict, seen=seen, expected=expected, advice=advice, hosts=tuple(hosts)
            )


def _seen(host: str, one: CheckResult) -> str:
    """What was seen; of a host that did not answer, the reason in words that others with that reason share."""
    return brief_reason(one.seen, host) if one.check == "host-reachable" else one.seen


def _advice(host: str, one: CheckResult) -> str:
    """What to do; of a host that did not answer without its name, so that others share it."""
    return one.advice.replace(host, _ANY_HOST) if one.check == "host-reachable" else one.advice
