"""The selftest: a row a check, then what to do about what failed; whole, and on one screen. Pure."""

from collections.abc import Iterator
from typing import Any

from raybench.documents.selftest import CheckResult, SelftestCheck, SelftestReport
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Cell, Details, Facts, Grid, Heading, Note, Notes, Report, Table
from raybench.reports.text import count_of
from raybench.units import format_seconds

_WORDS: dict[CheckResult, str] = {"passed": "passed", "failed": "FAILED", "not-run": "not run", "unknown": "unknown"}
_TONES: dict[CheckResult, str] = {"passed": "good", "failed": "bad", "not-run": "soft", "unknown": "warn"}


def selftest_report(report: SelftestReport, asked: Asked) -> Report:
    """Every check with its figures; the brief one, of a terminal, is without what each proves."""
    return _report(
        report,
        Table(grid=_grid(report), text_columns=5),
        *_next_steps(report),
        *(() if asked.brief else _details(report)),
    )


def selftest_screen(report: SelftestReport, _: Asked) -> Report:
    """A row a check; those that were not run for the same reason share one."""
    rows = tuple(tuple(Cell(text=text) for text in row) for row in _screen_rows(report))
    return _report(report, Table(grid=Grid(headings=("", "", ""), rows=rows), text_columns=3), *_next_steps(report))


def _report(report: SelftestReport, *blocks: Block) -> Report:
    name = f"raybench selftest {report.selftest_id}: {_where(report)}"
    conclusion = report.conclusion
    return Report(
        name=name,
        title=name,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        lead="",
        when=f"{report.started_at} to {report.finished_at}",
        blocks=blocks,
    )


def _where(report: SelftestReport) -> str:
    gpus = count_of(report.gpus, "GPU") if report.gpus else "no GPU"
    return ", ".join([report.hostname, gpus, *([report.backend] if report.backend else [])])


def _grid(report: SelftestReport) -> Grid:
    rows = tuple(
        (
            Cell(text=check.id, hint=check.proves),
            Cell(text=_WORDS[check.result], tone=_TONES[check.result]),
            Cell(text=check.seen),
            Cell(text=", ".join(check.needs) or "-"),
            Cell(text="-" if check.seconds is None else format_seconds(check.seconds)),
        )
        for check in report.checks
    )
    return Grid(headings=("check", "result", "seen", "needs", "its run took"), rows=rows, keep=(0, 0, 0, 2, 1))


def _screen_rows(report: SelftestReport) -> Iterator[tuple[str, str, str]]:
    shared: dict[str, list[SelftestCheck]] = {}
    for check in report.checks:
        if check.result == "not-run":
            shared.setdefault(check.seen, []).append(check)
        else:
            yield check.id, _WORDS[check.result], check.seen
    for reason, checks in shared.items():
        what = checks[0].id if len(checks) == 1 else f"{len(checks)} checks"
        names = "" if len(checks) == 1 else f": {', '.join(check.id for check in checks)}"
        yield what, _WORDS[checks[0].result], f"{reason}{names}"


def _next_steps(report: SelftestReport) -> Iterator[Block]:
    steps = [check for check in report.checks if check.next_step]
    if steps:
        yield Notes(
            items=tuple(
                Note(text=check.next_step, subject=f"{check.id}: ", tone=_TONES[check.result]) for check in steps
            ),
            apart=True,
        )


def _details(report: SelftestReport) -> Iterator[Block]:
    yield Heading(text="What each check proves")
    for check in report.checks:
        pairs = [("proves", check.proves), ("seen", check.seen)]
        pairs += [(name, _shown(value)) for name, value in check.figures.items()]
        pairs += [("run", check.run)] if check.run else []
        facts = Facts(pairs=tuple(pairs), wide=True)
        yield Details(summary=f"{check.id}: {_WORDS[check.result]}", blocks=(facts,), is_open=check.result == "failed")
    versions = Facts(pairs=tuple(report.versions.items()))
    yield Details(summary="versions", blocks=(versions,))


def _shown(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
