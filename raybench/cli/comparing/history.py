"""``raybench history``: each figure over all runs of a folder."""

import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.comparing.showing import FORMAT, FULL, JSON, OUTPUT, RESULT, show_document
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench history runs                        the trend of each figure, and since which run it is another
  raybench history runs --full                 every change with what is different since
  raybench history runs --format html -o history.html
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("folder", metavar="DIR", type=RESULT)
@JSON
@FORMAT
@FULL
@OUTPUT
def command(folder: Path, **shown: Any) -> None:
    """Follow each figure over all runs, studies and fabric tests below DIR, each machine by itself.

    Where a figure has another level from some run on, that run is named with its date, and with what differs from the
    run before: machine, configuration, environment. A change takes three runs on each side; the intervals of
    all figures hold together with 95 %. How the newest three runs ended comes first. The exit code is 1 where one
    of them failed; 3 where one is incomplete, the last run or two look slower, the newest runs lack a figure, a run
    cannot be read, or there are too few to tell; else 0.
    """
    from raybench.services.comparing.history import history_of

    found = history_of(folder)
    show_document(found, **shown)
    sys.exit(found.exit_code)
