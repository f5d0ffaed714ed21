"""The report in lines of text, for Ansible's output and for pipes."""

from collections.abc import Iterator, Sequence

from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.host_ranges import folded
from raybench.unreachable import brief_reason

_MARKS = {"fail": "FAIL", "error": "ERROR", "warn": "WARN", "unknown": "unknown"}
_MOST_HOSTS = 8
_ANY_HOST = "\0"


def report_lines(report: PreflightReport, *, path: str = "") -> list[str]:
    """Findings first, the worst on top, the same finding of many hosts once; then a line a host; then the totals."""
    return [*_findings(report), *_hosts(report), *_totals(report, path)]


def findings_lines(report: PreflightReport, *, paths: Sequence[str] = ()) -> list[str]:
    """The same without a line a host: for where a table shows them."""
    return [*_findings(report), *_totals(report, ""), *(f"report: {path}" for path in paths)]


def _findings(report: PreflightReport) -> Iterator[str]:
    for verdict, mark in _MARKS.items():
        if verdict == "unknown":
            continue
        grouped: dict[tuple[str, str, str, str], list[str]] = {}
        for host in report.hosts:
            for one in host.checks:
                if one.verdict == verdict:
                    key = (one.check, _seen(host.host, one), one.expected, _advice(host.host, one))
                    grouped.setdefault(key, []).append(host.host)
        for (name, seen, expected, general), hosts in grouped.items():
            advice = general.replace(_ANY_HOST, "HOST" if len(hosts) > 1 else hosts[0])
            yield printable(f"{mark} {name} on {_names(hosts)}: {seen}{f' (expected: {expected})' if expected else ''}")
            if advice:
                yield printable(f"     -> {advice}")


def _seen(host: str, one: CheckResult) -> str:
    """What was seen; of a host that did not answer, the reason in words that others with that reason share."""
    return brief_reason(one.seen, host) if one.check == "host-reachable" else one.seen


def _advice(host: str, one: CheckResult) -> str:
    """What to do; of a host that did not answer without its name, so that others share it."""
    return one.advice.replace(host, _ANY_HOST) if one.check == "host-reachable" else one.advice


def _names(hosts: list[str]) -> str:
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
    if path:
        yield f"report: {path}"


def printable(text: str) -> str:
    """Text of hosts without control characters, on one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
