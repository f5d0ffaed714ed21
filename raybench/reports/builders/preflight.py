"""The report of a preflight (raybench.preflight/1): findings with advice, hosts by checks, differences. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from raybench.documents.preflight import CheckResult, DriftEntry, PreflightReport
from raybench.documents.preflight_nodes import node_lines, nodes_in_short
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Cell, Details, Facts, Grid, Heading, Note, Notes, Report, Table, Text
from raybench.reports.spans import names_in_short
from raybench.reports.text import counted
from raybench.verdicts import NodeState

_CONCERN_ORDER = ("host", "pci", "gpu", "rdma", "roce", "software", "drift")
_MOST_NAMES = 6
NODE_TONES: Mapping[NodeState, str] = {"healthy": "pass", "degraded": "warn", "drain": "fail", "unknown": "unknown"}


def preflight_report(report: PreflightReport, asked: Asked) -> Report:
    """The whole report; the brief one is without the hosts by checks."""
    return Report(
        name="raybench preflight",
        title=f"raybench preflight: {report.verdict}",
        verdict=report.verdict,
        reason=summary_text(report),
        lead="",
        when=f"{report.started_at} to {report.finished_at}",
        blocks=(
            *_nodes(report, brief=asked.brief),
            *_findings(report),
            *(() if asked.brief else _hosts(report)),
            *_drift(report.drift),
        ),
    )


def summary_text(report: PreflightReport, named: Callable[[Sequence[str]], str] = names_in_short) -> str:
    """``4 hosts: 1 failed (node-3), 2 with warnings, without an answer: node-4``."""
    said = report.summary
    failed, warned, silent = said.failed_hosts, said.warned_hosts, said.unreachable
    parts = [f"{len(failed)} failed ({named(failed)})"] if failed else []
    parts += [f"{len(warned)} with warnings"] if warned else []
    parts += [f"{len(silent)} without an answer ({named(silent)})"] if silent else []
    return f"{counted(said.hosts, 'host')}: {', '.join(parts) or 'nothing was found'}"


def _nodes(report: PreflightReport, *, brief: bool) -> Iterator[Block]:
    """Nodes that are not healthy, each with its reasons and what to type; in brief those in one state together."""
    short = nodes_in_short(report)
    if not short:
        return
    yield Heading(text="Nodes")
    yield Text(text=short.removeprefix("nodes: "))
    if brief:
        lines = tuple(Note(text=line, tone=NODE_TONES[state]) for state, line in node_lines(report))
        yield from (Notes(items=lines),) if lines else ()
        return
    headings = ("node", "state", "since", "check", "seen", "action", "command")
    rows = tuple(
        (Cell(text=host.host), Cell(text=node.state, tone=NODE_TONES[node.state]), Cell(text=node.since or ""),
         *(Cell(text=text) for text in (one.check, one.seen, one.action, one.command)))
        for host in report.hosts if (node := host.node) is not None for one in node.reasons
    )  # fmt: skip
    if rows:
        yield Table(grid=Grid(headings=headings, rows=rows), text_columns=len(headings))


def _findings(report: PreflightReport) -> Iterator[Block]:
    yield Heading(text="Findings")
    found = _found(report)
    for check, hosts in found:
        more = f" and {len(hosts) - _MOST_NAMES} more" if len(hosts) > _MOST_NAMES else ""
        summary = f"{check.verdict}: {check.check} on {', '.join(hosts[:_MOST_NAMES])}{more}"
        pairs = [("seen", check.seen), ("expected", check.expected), ("basis", check.basis), ("advice", check.advice)]
        pairs += [("hosts", ", ".join(hosts))] if more else []
        facts = Facts(pairs=tuple(pairs), wide=True)
        yield Details(summary=summary, blocks=(facts,), is_open=check.verdict != "warn")
    if not found:
        yield Text(text="Nothing was found.")


def _found(report: PreflightReport) -> Sequence[tuple[CheckResult, list[str]]]:
    """Each finding once, with the hosts that have it, the worst first."""
    grouped: dict[tuple[str, ...], tuple[CheckResult, list[str]]] = {}
    for host in report.hosts:
        for one in host.checks:
            if one.verdict in {"fail", "error", "warn"}:
                key = (one.check, one.verdict, one.seen, one.expected)
                grouped.setdefault(key, (one, []))[1].append(host.host)
    return sorted(grouped.values(), key=lambda item: ("fail", "error", "warn").index(item[0].verdict))


def _hosts(report: PreflightReport) -> Iterator[Block]:
    names = sorted({check.check for host in report.hosts for check in host.checks}, key=_place)
    rows = tuple(
        (Cell(text=host.host), *(_cell({check.check: check for check in host.checks}, name) for name in names))
        for host in report.hosts
    )
    yield Heading(text="Hosts by checks")
    yield Table(grid=Grid(headings=("host", *names), rows=rows), turned=True)


def _place(name: str) -> tuple[int, str]:
    concern = name.partition("-")[0]
    return _CONCERN_ORDER.index(concern) if concern in _CONCERN_ORDER else len(_CONCERN_ORDER), name


def _cell(checks: Mapping[str, CheckResult], name: str) -> Cell:
    check = checks.get(name)
    return Cell(text=check.verdict, tone=check.verdict, hint=f"{name}: {check.seen}") if check else Cell(text="")


def _drift(entries: Sequence[DriftEntry]) -> Iterator[Block]:
    if not entries:
        return
    headings = ("attribute", "group", "majority", "others")
    rows = tuple(
        tuple(Cell(text=text) for text in (one.attribute, one.group, one.majority or "none", _others(one)))
        for one in entries
    )
    yield Heading(text="Differences between hosts")
    yield Table(grid=Grid(headings=headings, rows=rows), text_columns=len(headings))


def _others(entry: DriftEntry) -> str:
    others = (f"{value}: {', '.join(hosts)}" for value, hosts in entry.values.items() if value != entry.majority)
    return "; ".join(others)
