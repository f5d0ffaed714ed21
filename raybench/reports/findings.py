"""Findings of the run and of the diagnosis of its logs, in words. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from diagnostics.findings import SEVERITY_ORDER, Finding
from raybench.documents.diagnosis import findings_in
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import INTERRUPTED, OF_AN_END
from raybench.reports.spans import names_in_short, ranks_in_short
from raybench.reports.text import printable

_QUESTIONS = {
    "verdict of the NCCL logs": "verdict",
    "network": "network",
    "GPUDirect RDMA": "gdr",
    "TCP fallback": "tcp_fallback",
}


def all_findings(result: RunResult, diagnosis: Mapping[str, Any] | None = None) -> tuple[Finding, ...]:
    """Each finding once, the gravest first; of a run that its user stopped without what the logs say of that end."""
    return gravest_first(result, findings_in(diagnosis))


def gravest_first(result: RunResult, of_logs: Sequence[Finding]) -> tuple[Finding, ...]:
    """The same with the findings of the logs."""
    stopped = any(finding.rule == INTERRUPTED for finding in result.findings)
    findings: list[Finding] = []
    for finding in (*result.findings, *of_logs):
        if finding not in findings and not (stopped and finding.rule in OF_AN_END):
            findings.append(finding)
    return ordered(findings)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest first."""
    return tuple(sorted(findings, key=lambda finding: SEVERITY_ORDER[finding.severity]))


def headline(finding: Finding) -> str:
    """The severity and the summary, or the rule's name where there is no summary."""
    return printable(f"{finding.severity}: {finding.summary or finding.rule}")


def place(finding: Finding) -> str:
    """``ranks 0-3; hosts a, b and 6 more``; empty where the finding names neither."""
    parts = [ranks_in_short(finding.ranks)] if finding.ranks else []
    if finding.hosts:
        parts.append(f"{'host' if len(finding.hosts) == 1 else 'hosts'} {names_in_short(finding.hosts)}")
    return "; ".join(parts)


def next_steps(finding: Finding) -> Iterator[str]:
    """What to do, a sentence each."""
    return (printable(recommendation.text) for recommendation in finding.recommendations if recommendation.text)


def network_facts(diagnosis: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """What the logs say of the network: (question, answer); null is "the logs cannot tell"."""
    answers = {"True": "yes", "False": "no", "None": "the logs cannot tell"}
    if not diagnosis:
        return ()
    said = {question: str(diagnosis.get(key)) for question, key in _QUESTIONS.items()}
    return tuple((question, answers.get(answer, answer)) for question, answer in said.items())
