"""Findings of the run and of the diagnosis of its logs, as plain mappings (raybench.diagnosis/1). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raybench.documents.result import RunResult
from raybench.documents.run_verdict import INTERRUPTED, OF_AN_END
from raybench.reports.spans import names_in_short, ranks_in_short
from raybench.reports.text import printable

Finding = Mapping[str, Any]
_ORDER = {"critical": 0, "warning": 1, "info": 2}
_QUESTIONS = {
    "verdict of the NCCL logs": "verdict",
    "network": "network",
    "GPUDirect RDMA": "gdr",
    "TCP fallback": "tcp_fallback",
}


def all_findings(result: RunResult, diagnosis: Mapping[str, Any] | None = None) -> tuple[Finding, ...]:
    """Each finding once, the gravest first; of a run that its user stopped without what the logs say of that end."""
    findings: list[Finding] = []
    stopped = any(finding.get("rule") == INTERRUPTED for finding in result.findings)
    for finding in (*result.findings, *((diagnosis or {}).get("findings") or ())):
        if finding not in findings and not (stopped and finding.get("rule") in OF_AN_END):
            findings.append(finding)
    return ordered(findings)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest first."""
    return tuple(sorted(findings, key=lambda finding: _ORDER.get(severity(finding), 3)))


def severity(finding: Finding) -> str:
    """``critical``, ``warning`` or ``info``; anything else counts as info."""
    said = str(finding.get("severity"))
    return said if said in _ORDER else "info"


def headline(finding: Finding) -> str:
    """The severity and the summary, or the rule's name where there is no summary."""
    return printable(f"{severity(finding)}: {finding.get('summary') or finding.get('rule') or 'no summary'}")


def place(finding: Finding) -> str:
    """``ranks 0-3; hosts a, b and 6 more``; empty where the finding names neither."""
    ranks = [rank for rank in finding.get("ranks") or () if isinstance(rank, int)]
    hosts = tuple(finding.get("hosts") or ())
    parts = [ranks_in_short(ranks)] if ranks else []
    parts += [f"{'host' if len(hosts) == 1 else 'hosts'} {names_in_short(hosts)}"] if hosts else []
    return "; ".join(parts)


def next_steps(finding: Finding) -> Iterator[str]:
    """What to do, a sentence each."""
    for recommendation in finding.get("recommendations") or ():
        if recommendation.get("text"):
            yield printable(recommendation["text"])


def network_facts(diagnosis: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """What the logs say of the network: (question, answer); null is "the logs cannot tell"."""
    answers = {"True": "yes", "False": "no", "None": "the logs cannot tell"}
    if not diagnosis:
        return ()
    said = {question: str(diagnosis.get(key)) for question, key in _QUESTIONS.items()}
    return tuple((question, answers.get(answer, answer)) for question, answer in said.items())
