"""``raybench top``."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import printing, say

if TYPE_CHECKING:
    from raybench.documents.live_run import LiveRun

EXAMPLES = """\b
Examples:
  raybench top                              the latest run below ./runs, until it ends
  raybench top runs/20261123-021500-3f9a
  raybench top --once --json                as data, once
"""
_PERIOD_SECONDS = 1.0


@click.command(epilog=EXAMPLES)
@click.argument("run", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--once", is_flag=True, help="Print one screen and end.")
@click.option("--json", "as_json", is_flag=True, help="Print live.json; without --once a line each second.")
def command(run: Path, once: bool, as_json: bool) -> None:
    """Watch a run that goes on in another terminal: its ranks, progress, machines and warnings.

    RUN is its folder, or the folder of all runs: then the latest is shown. Nothing of the run is touched.
    Exit code 3: --once found nothing new of it, so it was killed, is stopped, or its disk is full.
    """
    from raybench.errors import UsageError
    from raybench.reports.terminal.top import is_stale
    from raybench.services.top import live_folder, live_run

    folder, age, live = live_folder(run), _Age(), None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                live = live_run(folder)
            except UsageError:
                if live is None:
                    raise
                say(f"raybench: the run has ended: raybench show {folder}")
                break
            silent = age.of(live)
            if once and age.is_first and is_stale(live, silent):  # by the clock of another machine, maybe
                time.sleep(_PERIOD_SECONDS + live.period_seconds)
                continue
            if not _shown(live, silent, as_json=as_json, again=not once) or once:
                break
            time.sleep(_PERIOD_SECONDS)
    sys.exit(3 if once and live is not None and is_stale(live, silent) else 0)


class _Age:
    """How old is what is shown: by the wall clock at first, and from then on by when it changed."""

    def __init__(self) -> None:
        self._written: list[float] = []
        self._since = 0.0
        self._looks = 0

    @property
    def is_first(self) -> bool:
        """Whether there was one look alone."""
        return self._looks == 1

    def of(self, live: "LiveRun") -> float:
        """Seconds since the run was written, the wall clocks of two machines apart."""
        now = time.monotonic()
        self._looks += 1
        if self._looks == 1:
            self._since = now - max(time.time() - live.written_at, 0.0)
        elif self._written != [live.written_at]:
            self._since = now
        self._written = [live.written_at]
        return now - self._since


def _shown(live: "LiveRun", age: float, *, as_json: bool, again: bool) -> bool:
    """Show it. Returns whether anybody reads it."""
    read = False
    with printing("stdout"):
        _show(live, age, as_json=as_json, again=again)
        sys.stdout.flush()
        read = True
    return read  # noqa: RET504 - `printing` keeps back what a stream raises


def _show(live: "LiveRun", age: float, *, as_json: bool, again: bool) -> None:
    import msgspec

    from raybench.reports.terminal.top import top_lines

    if as_json:
        click.echo(msgspec.json.encode(live))
        return
    if again and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(top_lines(live, live.written_at + age)))
