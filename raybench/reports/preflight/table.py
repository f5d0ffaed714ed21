"""Hosts by concerns on a terminal: filled while hosts answer, and once more when all were judged."""

import io
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import IO, Self

from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.reports.text import count_of, printable
from raybench.verdicts import SEVERITY, CheckVerdict, worst

_CELLS = {
    "pass": ("ok", "green"),
    "warn": ("warn", "yellow"),
    "fail": ("FAIL", "bold red"),
    "error": ("error", "bold magenta"),
    "unknown": ("?", "cyan"),
    "skipped": ("-", "dim"),
}
_MOST_COLUMNS = 14  # checks beside each other; more are shown by concern
_NOWHERE = Console(file=io.StringIO(), width=10_000)


class PreflightTable:
    """A table that fills on a terminal; elsewhere one plain line a host. A context manager."""

    def __init__(self, stream: IO[str], hosts: Sequence[str]) -> None:
        self._live_wanted = stream.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown", ""}
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._hosts: dict[str, Sequence[CheckResult] | None] = dict.fromkeys(hosts)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._live_wanted:
            self._live = Live(self._table(), console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, host: str, checks: Sequence[CheckResult]) -> None:
        """A host has answered, or will not."""
        self._hosts[host] = checks
        if self._live is not None:
            self._live.update(self._table())
        else:
            self._console.print(Text(f"{printable(host)}: {_summary(checks)}"), soft_wrap=True)

    def _table(self) -> Group:
        """The worst of those that answered, as many as the terminal has lines for, and how many are awaited."""
        answered = [(host, checks) for host, checks in self._hosts.items() if checks is not None]
        room = max(5, self._console.height - 6)
        waiting = len(self._hosts) - len(answered)
        shown = sorted(answered, key=lambda item: -SEVERITY.index(worst_of(item[1])))[:room]
        said = f"{len(answered)} of {count_of(len(self._hosts), 'host')} answered" if waiting else ""
        said += f"; {len(answered) - room} more are below the screen" if len(answered) > room else ""
        below = [Text(said.removeprefix("; "), style="italic")] if said else []
        return Group(*([preflight_table(shown, self._console.width)] if shown else []), *below)


def preflight_table(hosts: Iterable[tuple[str, Sequence[CheckResult]]], width: int) -> Table:
    """Hosts by checks where these are few and fit, else by concern, else the worst alone; never a column cut short.

    A cell has the worst verdict of its checks, with how many are of that kind.
    """
    rows = list(hosts)
    names = list(dict.fromkeys(check.check for _, checks in rows for check in checks))
    concerns = list(dict.fromkeys(name.partition("-")[0] for name in names))
    by_check = _filled(rows, names, by_check=True)
    if len(names) <= _MOST_COLUMNS and _least_width(by_check) <= width:
        return by_check
    by_concern = _filled(rows, concerns, by_check=False)
    return by_concern if _least_width(by_concern) <= width else _filled(rows, ["worst"], by_check=False)


def _filled(rows: Sequence[tuple[str, Sequence[CheckResult]]], columns: Sequence[str], *, by_check: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("host", no_wrap=True)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for host, checks in rows:
        cells = [
            [one for one in checks if column in {"worst", one.check if by_check else one.concern}] for column in columns
        ]
        table.add_row(Text(printable(host)), *map(_cell, cells))
    return table


def _least_width(table: Table) -> int:
    """Columns of text without cutting anything."""
    return Measurement.get(_NOWHERE, _NOWHERE.options, table).maximum


def print_preflight(report: PreflightReport, lines: Sequence[str], stream: IO[str]) -> None:
    """The table of the hosts that answered, then the findings, which were made text already."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 200
    if hosts := [(host.host, host.checks) for host in report.hosts if host.reached]:
        console.print(preflight_table(hosts, console.width))
        console.print()
    for line in lines:
        console.print(Text(printable(line), style=_style(line)), soft_wrap=True)


def worst_of(checks: Sequence[CheckResult]) -> CheckVerdict:
    """The worst verdict."""
    return worst(check.verdict for check in checks)


def _cell(checks: Sequence[CheckResult]) -> Text:
    found = worst_of(checks)
    word, style = _CELLS[found]
    count = sum(check.verdict == found for check in checks)
    return Text(f"{word} {count}" if found in {"fail", "error", "warn"} and count > 1 else word, style=style)


def _summary(checks: Sequence[CheckResult]) -> str:
    bad = [f"{check.check} {check.verdict}" for check in checks if check.verdict in {"fail", "error"}]
    found = worst_of(checks)
    return f"{found}: {', '.join(map(printable, bad))}" if bad else found


def _style(line: str) -> str:
    word = line.partition(" ")[0]
    return {"FAIL": "bold red", "ERROR": "bold magenta", "WARN": "yellow"}.get(word, "")
