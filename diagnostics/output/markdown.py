"""Markdown to paste into a ticket. Text of the log cannot become markup."""

import re

from diagnostics.findings import Diagnosis, Finding
from diagnostics.output.text import host_rows, job_rows, number, numbers, quoted, yes_no

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~@-])")


def render(diagnosis: Diagnosis) -> str:
    """The whole report."""
    parts = [_verdict(diagnosis), _jobs(diagnosis), _hosts(diagnosis)]
    parts += [_finding(finding) for finding in diagnosis.findings]
    if diagnosis.rules_cannot_tell:
        rows = [f"- `{rules}`: {escape(why)}" for rules, why in diagnosis.open_questions]
        parts.append("\n".join(["### What the log cannot tell", "", *rows]))
    lines = diagnosis.lines
    parts.append(f"{lines.read} lines read, {lines.nccl} of NCCL or PyTorch, {lines.unreadable} not readable.")
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text that Markdown and the HTML inside it show as it is."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", escaped).replace("://", ":\u200b//")


def fenced(lines: list[str]) -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    content = "\n".join(lines)
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{content}\n{fence}"


def _verdict(diagnosis: Diagnosis) -> str:
    return "\n".join(
        [
            f"## NCCL diagnosis: {diagnosis.verdict}",
            "",
            escape(diagnosis.explanation),
            "",
            f"- network: {escape(diagnosis.network)}",
            f"- GPUDirect RDMA: {yes_no(diagnosis.gdr)}",
            f"- TCP fallback: {yes_no(diagnosis.tcp_fallback)}",
            f"- ranks: {number(diagnosis.world_size)}, nodes: {number(diagnosis.nodes)}",
            f"- NCCL: {escape(', '.join(diagnosis.nccl_versions[:4]) or 'version not shown')}",
        ]
    )


def _hosts(diagnosis: Diagnosis) -> str:
    rows = host_rows(diagnosis.ranks)
    if not rows:
        return ""
    cells = [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]
    return "\n".join(["| host | ranks | network | NICs | transports |", "|---|---|---|---|---|", *cells])


def _jobs(diagnosis: Diagnosis) -> str:
    if not diagnosis.jobs:
        return ""
    cells = [f"| {' | '.join(escape(cell) for cell in row)} |" for row in job_rows(diagnosis.jobs)]
    return "\n".join(
        ["| job | verdict | network | ranks | nodes | first finding |", "|---|---|---|---|---|---|", *cells]
    )


def _finding(finding: Finding) -> str:
    whose = f" in {escape(finding.job)}" if finding.job else ""
    parts = [
        f"### {finding.severity}: `{finding.rule}`{whose}",
        f"**{escape(finding.summary)}** ({finding.confidence})",
    ]
    parts.append(escape(finding.explanation))
    if finding.ranks or finding.hosts:
        parts.append(f"Ranks: {numbers(finding.ranks) or '?'}; hosts: {escape(', '.join(finding.hosts[:12]) or '?')}")
    if finding.evidence:
        parts.append(fenced([quoted(evidence) for evidence in finding.evidence]))
    if finding.victims:
        parts += ["Follows from it:", fenced([quoted(evidence) for evidence in finding.victims[:8]])]
    for action in finding.recommendations:
        parts.append(f"- {escape(action.text)}" + (f" ([documentation]({action.link}))" if action.link else ""))
        parts += [fenced(list(action.commands))] if action.commands else []
    return "\n\n".join(parts)
