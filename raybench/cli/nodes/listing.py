"""``raybench nodes list``."""

import json
import sys
from pathlib import Path

import click

from raybench.cli.nodes.options import REPORT
from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand
from raybench.reports.text import printable

_STATES = ("healthy", "degraded", "drain", "unknown")
EXAMPLES = """\b
Examples:
  raybench nodes list preflight.json                               all states, a line each
  raybench nodes list preflight.json --state drain                 gpu-[07,12-13], as Slurm takes it
  raybench nodes list preflight.json --state healthy --format plain > hostfile
  srun --exclude="$(raybench nodes list preflight.json --state drain --state unknown)" ...
"""


@click.command("list", cls=TopicCommand, epilog=EXAMPLES)
@REPORT
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="These alone. May be repeated.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["slurm", "plain", "json"]),
    default="slurm",
    show_default=True,
    help="A host list of Slurm, a name a line, or JSON with the reasons.",
)
def command(report: Path, states: tuple[str, ...], form: str) -> None:
    """Names of nodes by their state. Exit code 0 whatever it is, 2 for a report that cannot be read."""
    from raybench.services.nodes.listing import node_list  # not needed for --help

    found = node_list(report, states, form)
    with printing("stdout"):
        if form == "json":
            click.echo(json.dumps(found, indent=1))
        elif isinstance(found, str) and found:
            click.echo("\n".join(map(printable, found.split("\n"))))
    sys.exit(0)
