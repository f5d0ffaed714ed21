"""Hosts by concerns on a terminal, filled while hosts answer."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from raybench.documents.preflight import CheckResult
from raybench.reports.builders.preflight_tables import host_table
from raybench.reports.terminal.block import block_lines
from raybench.reports.text import count_of, printable
from raybench.verdicts import SEVERITY, CheckVerdict, worst


class PreflightTable:
    """A table that fills on a terminal; elsewhere one plain line a host. A context manager."""

    def __init__(self, stream: IO[str], hosts: Sequence[str]) -> None:
        self._live_wanted = stream.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown", ""}
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._hosts: dict[str, Sequence[CheckResult] | None] = dict.fromkeys(hosts)
        self._tested: set[str] = set()
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

    def show_tested(self, host: str) -> None:
        """The active tests of a host are over."""
        self._tested.add(host)
        if self._live is not None:
            self._live.update(self._table())
        else:
            self._console.print(Text(f"{printable(host)}: tested"), soft_wrap=True)

    def _table(self) -> Group:
        """The worst of those that answered, as many as the terminal has lines for, and how many are awaited."""
        answered = [(host, checks) for host, checks in self._hosts.items() if checks is not None]
        room = max(5, self._console.height - 6)
        waiting = len(self._hosts) - len(answered)
        shown = sorted(answered, key=lambda item: -SEVERITY.index(_worst_of(item[1])))[:room]
        said = f"{len(answered)} of {count_of(len(self._hosts), 'host')} answered" if waiting else ""
        said += f"; {len(answered) - room} more are below the screen" if len(answered) > room else ""
        said += f"; {len(self._tested)} of {count_of(len(self._hosts), 'host')} tested" if self._tested else ""
        below = [Text(said.removeprefix("; "), style="italic")] if said else []
        lines = block_lines((host_table(shown),), self._console.width) if shown else ()
        return Group(*(Text.assemble(*line, no_wrap=True) for line in lines), *below)


def _worst_of(checks: Sequence[CheckResult]) -> CheckVerdict:
    """The worst verdict."""
    return worst(check.verdict for check in checks)


def _summary(checks: Sequence[CheckResult]) -> str:
    bad = [f"{check.check} {check.verdict}" for check in checks if check.verdict in {"fail", "error"}]
    found = _worst_of(checks)
    return f"{found}: {', '.join(map(printable, bad))}" if bad else found
