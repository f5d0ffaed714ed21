"""The report of a fabric test (raybench.fabric/1): what is at fault, a heatmap a rail, hosts, tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from raybench.documents.fabric import FabricReport, FabricRounds, FabricTest
from raybench.reports.builders.asked import Asked, how_to_install
from raybench.reports.model import (
    Banner,
    Block,
    Cell,
    Details,
    Facts,
    Figure,
    Finding,
    Grid,
    Heading,
    Report,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.spans import names_in_short
from raybench.reports.text import counted

if TYPE_CHECKING:
    from raybench.reports.plots.svg import Plot

_EMULATED = "EMULATED: software devices. These figures can be compared with each other only."
_HOSTS = "A host fails where it, or one of its ports, is at fault; error: it could not be tested."
_FOOTER = (
    (
        "Each direction of a pair is a test of its own. Gb/s is 10^9 bits a second of payload. A host is "
        "named once it is slow with two hosts that are good with others; a way between two hosts once both "
        "are good with others and it is slow when repeated."
    ),
)
_SHOWN_TESTS = 100
_TONE = {"pass": "", "warn": "warn", "fail": "bad", "error": "warn"}


def fabric_report(report: FabricReport, asked: Asked) -> Report:
    """The whole report; the brief one is without tests and settings."""
    return Report(
        name=f"raybench fabric {report.run_id}",
        title=f"{'EMULATED: ' if report.emulated else ''}raybench fabric {report.run_id}, {report.verdict}",
        verdict=report.verdict,
        reason=_reason(report),
        lead=f"{report.status}; {report.tool}, scope {report.scope}, {_rounds(report.rounds)}",
        when=f"{report.started_at} to {report.finished_at}",
        blocks=(*_fault(report), *_matrix(report, asked), *(() if asked.brief else _tested(report))),
        footer=_FOOTER,
    )


def _fault(report: FabricReport) -> Iterator[Block]:
    if report.emulated:
        yield Banner(text=_EMULATED, tone="emulated")
    yield from (Banner(text=note, tone="warn") for note in report.notes)
    yield Heading(text="What is at fault", anchor="suspects")
    for one in report.suspects:
        rails = f"Rail {', '.join(one.rails)}"
        seen = Text(text=f"{rails}. Seen: {one.seen}. Expected: {one.expected}. {one.basis}")
        severity = "critical" if one.verdict == "fail" else "warning"
        headline = f"{one.rank}. {one.verdict}: {one.summary}"
        yield Finding(severity=severity, headline=headline, blocks=(seen, Text(text=one.advice)))
    if not report.suspects:
        yield Text(text="Nothing that was measured stands out.")


def _matrix(report: FabricReport, asked: Asked) -> Iterator[Block]:
    yield Heading(text="Matrix", anchor="matrix")
    if asked.drawn:
        yield from (Figure(plot=plot, shape="square") for plot in _plots(report))
    else:
        yield Text(text=f"No heatmap: matplotlib is not installed ({how_to_install()}).", tone="soft")


def _tested(report: FabricReport) -> Iterator[Block]:
    yield Heading(text="Hosts", anchor="hosts")
    yield Table(grid=_hosts(report), caption=_HOSTS, text_columns=5)
    yield Heading(text="Tests", anchor="tests")
    yield Table(grid=_tests(report), caption=_tests_caption(len(report.pairs)), text_columns=8)
    settings = tuple((name, str(value)) for name, value in report.settings.items())
    yield Details(summary="Settings", blocks=(Facts(pairs=settings),))


def _reason(report: FabricReport) -> str:
    """One line: what is at fault, or that nothing is."""
    suspects = report.suspects
    if suspects:
        more = f" (and {len(suspects) - 1} more)" if len(suspects) > 1 else ""
        return f"{suspects[0].summary}{more}"
    bad = [host.name for host in report.hosts if host.verdict != "pass"]
    if bad:
        return f"{counted(len(bad), 'host')} not at fault but not clean: {names_in_short(bad)}"
    return f"{counted(len(report.pairs), 'test')} of {counted(len(report.hosts), 'host')}, none stands out"


def _rounds(rounds: FabricRounds) -> str:
    confirm = f" and {counted(rounds.confirm, 'round')} to find the cause" if rounds.confirm else ""
    return f"{counted(rounds.scan, 'round')} of tests{confirm}"


def _tests_caption(count: int) -> str:
    if count <= _SHOWN_TESTS:
        return "Those that did not pass first, then the lowest"
    omitted = f"the other {count - _SHOWN_TESTS:,} are in fabric.json"
    return f"{_SHOWN_TESTS} of {count:,}: those that did not pass first, then the lowest; {omitted}"


def _plots(report: FabricReport) -> "Iterator[Plot]":
    from raybench.reports.fabric.heatmap import fabric_heatmap  # matplotlib's

    for number, rail in enumerate(report.rails):
        plot = fabric_heatmap(report, rail, name=f"rail-{number}")
        if plot is not None:
            yield plot


def _tests(report: FabricReport) -> Grid:
    """Tests that did not pass, then those furthest below what is typical."""
    order = {"fail": 0, "error": 1, "warn": 2, "pass": 3}
    ranked = sorted(report.pairs, key=lambda test: (order[test.verdict], test.value or 0.0))[:_SHOWN_TESTS]
    rows = tuple(
        (
            Cell(text=f"{test.source.host} {test.source.device}"),
            Cell(text=f"{test.destination.host} {test.destination.device}"),
            Cell(text=test.seen, tone=_TONE[test.verdict]),
            Cell(text="" if test.limit is None else f"{test.limit:.4g}"),
            Cell(text=test.verdict, tone=_TONE[test.verdict]),
            Cell(text=test.expected if test.verdict != "pass" else ""),
            Cell(text=test.basis),
            Cell(text=_counters(test)),
        )
        for test in ranked
    )
    headings = ("from", "to", "seen", f"limit ({report.unit})", "verdict", "expected", "basis", "counters that grew")
    return Grid(headings=headings, rows=rows)


def _counters(test: FabricTest) -> str:
    grown = (f"{name} +{by} ({side})" for side, found in test.counters.items() for name, by in found.items())
    return ", ".join(grown)


def _hosts(report: FabricReport) -> Grid:
    rows = tuple(
        (
            Cell(text=host.name),
            Cell(text=host.verdict, tone=_TONE[host.verdict]),
            Cell(text=host.leaf or ""),
            Cell(text=", ".join(f"{port.device} {port.rate}" for port in host.ports)),
            Cell(text="; ".join(f"{problem.seen}: {problem.advice}" for problem in host.problems)),
        )
        for host in report.hosts
    )
    return Grid(headings=("host", "verdict", "leaf", "ports", "problems"), rows=rows)
