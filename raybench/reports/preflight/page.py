"""The report of a preflight as one HTML page: findings with advice, hosts by checks, differences. No script."""

from collections.abc import Sequence
from pathlib import Path

from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.reports.html import page_template
from raybench.reports.spans import names_in_short
from raybench.reports.text import counted
from raybench.whole_file import write_whole

_CONCERN_ORDER = ("host", "pci", "gpu", "rdma", "roce", "software", "drift")


def write_preflight_page(report: PreflightReport, path: Path) -> None:
    """Write the page. Raises MissingLibraryError without jinja2, and OSError where it cannot be written."""
    write_whole(path, render_preflight_page(report))


def render_preflight_page(report: PreflightReport) -> str:
    """The page; the same report gives the same bytes."""
    names = sorted({check.check for host in report.hosts for check in host.checks}, key=_place)
    rows = [(host, {check.check: check for check in host.checks}) for host in report.hosts]
    template = page_template("preflight.html.j2")
    return str(
        template.render(report=report, names=names, rows=rows, findings=_findings(report), summary=_summary(report))
    )


def _place(name: str) -> tuple[int, str]:
    concern = name.partition("-")[0]
    return _CONCERN_ORDER.index(concern) if concern in _CONCERN_ORDER else len(_CONCERN_ORDER), name


def _summary(report: PreflightReport) -> str:
    """``4 hosts: 1 failed (node-3), 2 with warnings, without an answer: node-4``."""
    said = report.summary
    failed, warned, silent = said.failed_hosts, said.warned_hosts, said.unreachable
    parts = [f"{len(failed)} failed ({names_in_short(failed)})"] if failed else []
    parts += [f"{len(warned)} with warnings"] if warned else []
    parts += [f"{len(silent)} without an answer ({names_in_short(silent)})"] if silent else []
    return f"{counted(said.hosts, 'host')}: {', '.join(parts) or 'nothing was found'}"


def _findings(report: PreflightReport) -> Sequence[tuple[CheckResult, list[str]]]:
    """Each finding once, with the hosts that have it, the worst first."""
    grouped: dict[tuple[str, ...], tuple[CheckResult, list[str]]] = {}
    for host in report.hosts:
        for one in host.checks:
            if one.verdict in {"fail", "error", "warn"}:
                key = (one.check, one.verdict, one.seen, one.expected)
                grouped.setdefault(key, (one, []))[1].append(host.host)
    return sorted(grouped.values(), key=lambda item: ("fail", "error", "warn").index(item[0].verdict))
