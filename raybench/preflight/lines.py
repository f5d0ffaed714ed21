"""The report in lines of text, for Ansible's output and for pipes."""

from collections.abc import Iterator, Sequence

from raybench.documents.preflight import PreflightReport
from raybench.documents.preflight_nodes import node_lines, nodes_in_short
from raybench.documents.preflight_problems import problems_of
from raybench.host_ranges import folded

_MARKS = {"fail": "FAIL", "error": "ERROR", "warn": "WARN"}
_MOST_HOSTS = 8


def report_lines(report: PreflightReport, *, path: str = "") -> list[str]:
    """Findings first, the worst on top, the same finding of many hosts once; then a line a host; then the totals."""
    return [*_findings(report), *_hosts(report), *_totals(report, path)]


def _findings(report: PreflightReport) -> Iterator[str]:
    for one in problems_of(report):
        expected = f" (expected: {one.expected})" if one.expected else ""
        yield printable(f"{_MARKS[one.verdict]} {one.check} on {_names(one.hosts)}: {one.seen}{expected}")
        if one.advice:
            yield printable(f"     -> {one.advice}")


def _names(hosts: Sequence[str]) -> str:
    count = f" ({len(hosts)} hosts)" if len(hosts) > 2 else ""
    return f"{folded(hosts, _MOST_HOSTS)}{count}"


def _hosts(report: PreflightReport) -> Iterator[str]:
    width = max((len(host.host) for host in report.hosts), default=0)
    for host in report.hosts:
        counts: dict[str, int] = {}
        for one in host.checks:
            counts[one.verdict] = counts.get(one.verdict, 0) + 1
        told = ", ".join(
            f"{counts[verdict]} {verdict}"
            for verdict in ("fail", "error", "warn", "unknown", "pass", "skipped")
            if counts.get(verdict)
        )
        yield printable(f"{host.host:<{width}}  {host.verdict:<8} {told}")


def _totals(report: PreflightReport, path: str) -> Iterator[str]:
    summary = report.summary
    hosts = f"{summary.hosts} host{'s' * (summary.hosts != 1)}"
    told = f"{hosts}: {len(summary.failed_hosts)} failed, {len(summary.warned_hosts)} with warnings"
    if summary.unreachable:
        told += f", {len(summary.unreachable)} without an answer ({folded(summary.unreachable, _MOST_HOSTS)})"
    yield f"{told}. Verdict: {report.verdict}"
    if short := nodes_in_short(report):
        yield short
        yield from (f"  {printable(line)}" for _, line in node_lines(report))
    if path:
        yield f"report: {path}"


def printable(text: str) -> str:
    """Text of hosts without control characters, on one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
