"""The report of a fabric test: one HTML file that needs no network, no script and no other file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raybench.documents.fabric import FabricReport, FabricRounds, FabricTest
from raybench.reports.fabric.heatmap import fabric_heatmap
from raybench.reports.html import INSTALL, has_matplotlib, page_template
from raybench.reports.model import Cell, Grid
from raybench.reports.plots.svg import Plot
from raybench.reports.spans import names_in_short
from raybench.reports.text import counted
from raybench.whole_file import write_whole

_SHOWN_TESTS = 100
_TONE = {"pass": "", "warn": "warn", "fail": "bad", "error": "warn"}


def write_fabric_html(report: FabricReport, path: Path) -> None:
    """Write the page. Raises MissingLibraryError without jinja2, OSError where it cannot be written."""
    write_whole(path, fabric_page(report, drawn=has_matplotlib()))


def fabric_page(report: FabricReport, *, drawn: bool) -> str:
    """The page, with a heatmap a rail where it is ``drawn``. Raises MissingLibraryError without jinja2."""
    return str(page_template("fabric.html.j2").render(_context(report, drawn=drawn)))


def _context(report: FabricReport, *, drawn: bool) -> dict[str, Any]:
    return {
        "report": report,
        "plots": tuple(_plots(report)) if drawn else (),
        "install": None if drawn else INSTALL,
        "tests": _tests(report),
        "tests_caption": _tests_caption(len(report.pairs)),
        "reason": _reason(report),
        "rounds": _rounds(report.rounds),
        "hosts": _hosts(report),
        "settings": tuple((name, str(value)) for name, value in report.settings.items()),
    }


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
    left_out = f"the other {count - _SHOWN_TESTS:,} are in fabric.json"
    return f"{_SHOWN_TESTS} of {count:,}: those that did not pass first, then the lowest; {left_out}"


def _plots(report: FabricReport) -> Iterator[Plot]:
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
