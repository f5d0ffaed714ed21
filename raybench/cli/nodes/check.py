"""``raybench nodes check``: this node, before a job or every few minutes."""

import json
import sys
from typing import Any

import click

from raybench.cli.nodes.options import names_of
from raybench.cli.output import printing, say
from raybench.cli.usage.command import TopicCommand
from raybench.reports.text import printable

EXAMPLES = """\b
Examples:
  raybench nodes check                          OK, WARNING, ERROR or UNKNOWN, in a line
  raybench nodes check --prolog --skip software,host-clock           in Slurm's Prolog
  raybench nodes check --slurm --apply --expect gpu_count=8          as Slurm's HealthCheckProgram

\b
Slurm calls its programs without arguments: put the line into a script, with full paths.
"""


@click.command("check", cls=TopicCommand, epilog=EXAMPLES)
@click.option("--only", multiple=True, metavar="CHECK,...", help="Only these checks or concerns. May be repeated.")
@click.option("--skip", multiple=True, metavar="CHECK,...", help="Leave these out. May be repeated.")
@click.option("--expect", multiple=True, metavar="NAME=VALUE", help="As of preflight, such as gpu_count=8.")
@click.option(
    "--timeout",
    "--time-limit",
    "limit_seconds",
    type=click.FloatRange(1, 60),
    default=8.0,
    show_default=True,
    metavar="S",
    help="End the probe after so many seconds; what was not read by then is unknown.",
)
@click.option(
    "--prolog", is_flag=True, help="Exit code 0 also where the node is unknown: Slurm drains it for any other."
)
@click.option("--slurm", is_flag=True, help="Have Slurm drain this node, or resume it where raybench drained it.")
@click.option("--apply", is_flag=True, help="With --slurm: do it, and do not only say so.")
@click.option(
    "--most-drained", default="10%", show_default=True, metavar="N|P%", help="With --slurm: of all nodes, at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def command(prolog: bool, slurm: bool, apply: bool, most_drained: str, as_json: bool, **options: Any) -> None:
    """Check this node, within seconds and without Ansible, Ray or torch: one line, and an exit code.

    Exit code 0: healthy or degraded, jobs may run; 1: to be drained; 2: invalid usage; 3: unknown, and 0 with
    --prolog. Nothing is compared with other nodes. Call it as root: others cannot read the kernel's log.
    """
    from raybench.services.nodes.judged import ActOptions  # not needed for --help
    from raybench.services.nodes.local import LocalOptions, check_here, drain_here

    if apply and not slurm:
        raise click.UsageError("--apply needs --slurm: else there is nobody to tell")
    options |= {name: names_of(options[name]) for name in ("only", "skip")}
    found = check_here(LocalOptions(caller="prolog" if prolog else "admin", **options))
    with printing("stdout"):
        click.echo(json.dumps(found.report.to_json(), indent=1) if as_json else printable(found.line))
    code = found.exit_code
    if slurm:
        actions = drain_here(found, ActOptions(apply=apply, most_drained=most_drained))
        (one,) = actions.actions
        say(f"raybench: {one.node or one.host}: {one.step}{' failed: ' + one.error if one.error else ''}: {one.why}")
        if actions.refused:
            say(f"raybench: nothing is changed: {actions.refused}")
        code = code or (3 if actions.failed and not prolog else 0)
    sys.exit(code)
