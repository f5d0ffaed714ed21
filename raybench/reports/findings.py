"""Findings of the run and of the diagnosis of its logs, in words. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from diagnostics.findings import SEVERITY_ORDER, Finding
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import INTERRUPTED, OF_AN_END
from raybench.reports.spans import names_in_short, ranks_in_short
from raybench.reports.text import printable


def all_findings(result: RunResult, diagnosis: Diagnosis | None = None) -> tuple[Finding, ...]:
    """Each finding once, the gravest first, what follows from the end of the run below its cause."""
    return gravest_first(result, diagnosis.findings if diagnosis else ())


def gravest_first(result: RunResult, of_logs: Sequence[Finding]) -> tuple[Finding, ...]:
    """The same with the findings of the logs.

    Once something has broken a run, raybench ends its ranks, and their logs tell of peers that went away: that is at
    info, and omitted where it was the user who stopped the run.
    """
    causes = [finding.rule for finding in result.findings if finding.ended_the_run]
    findings: list[Finding] = []
    for finding in (*result.findings, *of_logs):
        of_the_end = finding.rule in OF_AN_END and not finding.ended_the_run
        if finding in findings or (of_the_end and INTERRUPTED in causes):
            continue
        findings.append(_following(finding, causes[0]) if causes and of_the_end else finding)
    return ordered(findings)


def _following(finding: Finding, cause: str) -> Finding:
    note = f"A part of the end that {cause} made of the run. "
    return replace(finding, severity="info", explanation=note + finding.explanation)


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


def network_facts(diagnosis: Diagnosis | None) -> tuple[tuple[str, str], ...]:
    """What the logs say of the network: (question, answer); null is "the logs cannot tell"."""
    answers = {"True": "yes", "False": "no", "None": "the logs cannot tell"}
    if diagnosis is None:
        return ()
    said = {
        "verdict of the NCCL logs": diagnosis.verdict,
        "network": diagnosis.network,
        "GPUDirect RDMA": diagnosis.gdr,
        "TCP fallback": diagnosis.tcp_fallback,
    }
    return tuple((question, answers.get(str(answer), str(answer))) for question, answer in said.items())
