"""``raybench top``."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import printing

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
    """
    from raybench.errors import UsageError
    from raybench.services.top import live_run

    shown = 0
    while True:
        try:
            live = live_run(run)
        except UsageError:
            if not shown:
                raise
            break  # it has ended
        shown += 1
        with printing("stdout"):
            _show(live, as_json=as_json, again=not once)
        if once:
            break
        time.sleep(_PERIOD_SECONDS)
    sys.exit(0)


def _show(live: "LiveRun", *, as_json: bool, again: bool) -> None:
    import msgspec

    from raybench.reports.terminal.top import top_lines

    if as_json:
        click.echo(msgspec.json.encode(live))
        return
    if again and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(top_lines(live, time.time())))
