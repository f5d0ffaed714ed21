"""A preflight for a terminal: hosts by checks, then each problem once with the hosts that have it. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.documents.preflight_nodes import node_lines, nodes_in_short
from raybench.documents.preflight_problems import PreflightProblem, problems_of
from raybench.host_ranges import folded
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.preflight import NODE_TONES, summary_text
from raybench.reports.model import Block, Cell, Choice, Grid, Note, Notes, Report, Table
from raybench.verdicts import worst

Rows = Sequence[tuple[str, Sequence[CheckResult]]]  # (host, its checks)
_WORDS = {"pass": "ok", "warn": "warn", "fail": "FAIL", "error": "error", "unknown": "?", "skipped": "-"}
_MARKS = {"fail": "FAIL", "error": "ERROR", "warn": "WARN"}
_MOST_COLUMNS = 14  # checks beside each other; more are shown by concern
_MOST_HOSTS = 8


def preflight_tables(report: PreflightReport, _: Asked) -> Report:
    """The report."""
    hosts = [(host.host, host.checks) for host in report.hosts if host.reached]
    notes = tuple(note for problem in problems_of(report) for note in _notes(problem))
    return Report(
        name="raybench preflight",
        title="raybench preflight",
        verdict=report.verdict,
        reason=summary_text(report, _folded),
        lead="",
        when="",
        blocks=(
            *_nodes(report),
            *((host_table(hosts),) if hosts else ()),
            *((Notes(items=notes, apart=True),) if notes else ()),
        ),
    )


def _nodes(report: PreflightReport) -> Iterator[Block]:
    short = nodes_in_short(report)
    if short:
        lines = (Note(text=f"  {line}", tone=NODE_TONES[state]) for state, line in node_lines(report))
        yield Notes(items=(Note(text=short), *lines), apart=True)


def host_table(hosts: Rows) -> Choice:
    """Hosts by checks where these are few, else by concern, else the worst alone.

    A cell has the worst verdict of its checks, with how many are of that kind.
    """
    names = list(dict.fromkeys(check.check for _, checks in hosts for check in checks))
    concerns = list(dict.fromkeys(name.partition("-")[0] for name in names))
    by_check = (_table(hosts, names, by_check=True),) if len(names) <= _MOST_COLUMNS else ()
    tables = (*by_check, _table(hosts, concerns, by_check=False), _table(hosts, ["worst"], by_check=False))
    return Choice(forms=tuple((table,) for table in tables))


def _table(hosts: Rows, columns: Sequence[str], *, by_check: bool) -> Table:
    def of(column: str, checks: Sequence[CheckResult]) -> list[CheckResult]:
        return [one for one in checks if column in {"worst", one.check if by_check else one.concern}]

    rows = tuple((Cell(text=host), *(_cell(of(column, checks)) for column in columns)) for host, checks in hosts)
    return Table(grid=Grid(headings=("host", *columns), rows=rows), text_columns=len(columns) + 1)


def _cell(checks: Sequence[CheckResult]) -> Cell:
    found = worst(check.verdict for check in checks)
    count = sum(check.verdict == found for check in checks)
    several = found in {"fail", "error", "warn"} and count > 1
    return Cell(text=f"{_WORDS[found]} {count}" if several else _WORDS[found], tone=found)


def _folded(hosts: Sequence[str]) -> str:
    return folded(hosts, _MOST_HOSTS)


def _notes(problem: PreflightProblem) -> Iterator[Note]:
    hosts = _folded(problem.hosts) + (f" ({len(problem.hosts)} hosts)" if len(problem.hosts) > 2 else "")
    expected = f" (expected: {problem.expected})" if problem.expected else ""
    text = f"{_MARKS[problem.verdict]} {problem.check} on {hosts}: {problem.seen}{expected}"
    yield Note(text=text, tone=problem.verdict)
    if problem.advice:
        yield Note(text=f"  -> {problem.advice}")
