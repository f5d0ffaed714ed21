"""Plain text: the verdict first, then a table of hosts, then findings with the lines they rest on and what to type."""

from collections.abc import Iterable, Sequence

from diagnostics.findings import Diagnosis, Evidence, Finding, RankRow

_COLORS = {
    "critical": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "info": "\x1b[36m",
    "ok": "\x1b[1;32m",
    "unknown": "\x1b[1m",
}
_RESET = "\x1b[0m"
MAX_HOST_ROWS = 24
MAX_INFO_EVIDENCE = 1


def render(diagnosis: Diagnosis, *, color: bool = False) -> str:
    """The whole report, lines ended by newlines. Of several jobs: the verdict of all, a table, then each."""
    if diagnosis.jobs:
        parts = [head(diagnosis, color)]
        for job in diagnosis.jobs:
            parts += [f"=== {job.job} ===", *_body(job, color)]
    else:
        parts = _body(diagnosis, color)
    parts.append(_reading(diagnosis))
    return "\n\n".join(part for part in parts if part) + "\n"


def _body(diagnosis: Diagnosis, color: bool) -> list[str]:
    parts = [_verdict(diagnosis, color), *_hosts(diagnosis.ranks)]
    if diagnosis.missing_ranks:
        parts.append(f"Ranks not in the log: {numbers(diagnosis.missing_ranks)}")
    elif diagnosis.ranks and diagnosis.ranks_not_listed:
        parts.append(f"{len(diagnosis.ranks)} of {diagnosis.world_size} ranks are in the table.")
    parts += [finding_text(finding, color) for finding in diagnosis.findings]
    return parts + ([_unsure(diagnosis)] if diagnosis.rules_cannot_tell else [])


def _jobs(jobs: Sequence[Diagnosis]) -> str:
    return "\n".join(aligned([("job", "verdict", "network", "ranks", "nodes", "first finding"), *job_rows(jobs)]))


def job_rows(jobs: Sequence[Diagnosis]) -> list[tuple[str, ...]]:
    """(job, verdict, network, ranks, nodes, first finding above info) of each job."""
    return [
        (
            job.job,
            job.verdict,
            job.network,
            number(job.world_size),
            number(job.nodes),
            next((finding.rule for finding in job.findings if finding.severity != "info"), "-"),
        )
        for job in jobs
    ]


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table with its columns below each other."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def head(diagnosis: Diagnosis, color: bool = False) -> str:
    """The verdict and its reason, and of several jobs a table of theirs."""
    return "\n\n".join([_head(diagnosis, color), *([_jobs(diagnosis.jobs)] if diagnosis.jobs else [])])


def _head(diagnosis: Diagnosis, color: bool) -> str:
    return f"{paint(diagnosis.verdict.upper(), diagnosis.verdict, color)}: {diagnosis.explanation}"


def _verdict(diagnosis: Diagnosis, color: bool) -> str:
    facts = [
        f"network {diagnosis.network}",
        f"GPUDirect RDMA {yes_no(diagnosis.gdr)}",
        f"TCP fallback {yes_no(diagnosis.tcp_fallback)}",
        f"{_counted(diagnosis.world_size, 'rank')} on {_counted(diagnosis.nodes, 'node')}",
        f"NCCL {', '.join(diagnosis.nccl_versions[:3]) or 'version not shown'}",
    ]
    return _head(diagnosis, color) + "\n" + " | ".join(facts)


def _counted(count: int | None, noun: str) -> str:
    return f"{number(count)} {noun}" + ("" if count == 1 else "s")


def yes_no(answer: bool | None) -> str:
    """The answer in a word."""
    return "cannot tell" if answer is None else "yes" if answer else "no"


def number(count: int | None) -> str:
    """A count, or a question mark."""
    return "?" if count is None else str(count)


def numbers(ranks: Sequence[int]) -> str:
    """Ranks with runs joined: ``0-3, 7``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(texts[:20]) + (" ..." if len(texts) > 20 else "")


def paint(text: str, severity: str, color: bool) -> str:
    """The text in the colour of a severity, where colours are wanted."""
    return f"{_COLORS[severity]}{text}{_RESET}" if color else text


def host_rows(ranks: Iterable[RankRow]) -> list[tuple[str, str, str, str, str]]:
    """(host, ranks, network, NICs, transports) for each host, in order of its first rank."""
    hosts: dict[str, list[RankRow]] = {}
    for row in ranks:
        hosts.setdefault(row.host or "?", []).append(row)
    return [
        (
            host,
            numbers([row.rank for row in rows]),
            ", ".join(sorted({row.network for row in rows if row.network})) or "?",
            ", ".join(sorted({str(row.nics) for row in rows if row.nics is not None})) or "?",
            ", ".join(sorted({name for row in rows for name in row.transports})) or "?",
        )
        for host, rows in hosts.items()
    ]


def _hosts(ranks: Sequence[RankRow]) -> list[str]:
    rows = host_rows(ranks)
    if not rows:
        return []
    table = [("host", "ranks", "network", "NICs", "transports"), *rows[:MAX_HOST_ROWS]]
    lines = aligned(table)
    if len(rows) > MAX_HOST_ROWS:
        lines.append(f"... and {len(rows) - MAX_HOST_ROWS} more hosts")
    return ["\n".join(lines)]


def finding_text(finding: Finding, color: bool = False) -> str:
    """One finding with its lines and commands."""
    name = paint(f"[{finding.severity}]", finding.severity, color)
    lines = [f"{name} {finding.rule}: {finding.summary}"]
    lines.append(f"    {finding.explanation} ({finding.confidence})")
    if finding.hosts:
        lines.append(f"    hosts: {', '.join(finding.hosts[:12])}{' ...' if len(finding.hosts) > 12 else ''}")
    if finding.ranks:
        lines.append(f"    ranks: {numbers(finding.ranks)}")
    shown = finding.evidence[:MAX_INFO_EVIDENCE] if finding.severity == "info" else finding.evidence
    lines += [f"    {quoted(evidence)}" for evidence in shown]
    if (finding.occurrences or 0) > len(shown):
        lines.append(f"    ({finding.occurrences} such lines in all)")
    lines += [f"    follows from it: {quoted(evidence)}" for evidence in finding.victims[:6]]
    if finding.severity != "info":
        lines += [
            line for action in finding.recommendations for line in _action(action.text, action.commands, action.link)
        ]
    return "\n".join(lines)


def quoted(evidence: Evidence) -> str:
    """A line of the log with its place."""
    return f"{evidence.file}:{evidence.line}: {evidence.text}"


def _action(text: str, commands: Sequence[str], link: str | None) -> list[str]:
    return [
        f"    -> {text}",
        *(f"         {command}" for command in commands),
        *([f"       see {link}"] if link else []),
    ]


def _unsure(diagnosis: Diagnosis) -> str:
    lines = ["What the log cannot tell:"]
    return "\n".join([*lines, *(f"    {rules}: {why}" for rules, why in diagnosis.open_questions)])


def _reading(diagnosis: Diagnosis) -> str:
    lines = diagnosis.lines
    text = f"{lines.read:,} lines read, {lines.nccl:,} of NCCL or PyTorch, {lines.unreadable:,} not readable."
    return "\n".join([text, *diagnosis.notes])
