"""``raybench nodes slurm``."""

from pathlib import Path
from typing import Any

import click

from raybench.cli.nodes.options import AS_JSON, MAX_AGE, REPORT, acting, end, show_actions
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench nodes slurm preflight.json                      a dry run: scontrol's commands, and why
  raybench nodes slurm preflight.json --apply
  raybench nodes slurm preflight.json --apply --most-drained 20

Only nodes that raybench drained are resumed: its reason begins with "raybench:" and ends in a checksum. Change the
reason (scontrol update NodeName=... Reason=...) and the node stays drained until you resume it.
"""


@click.command("slurm", cls=TopicCommand, epilog=EXAMPLES)
@REPORT
@acting
@MAX_AGE
@AS_JSON
def command(report: Path, max_age_minutes: float, as_json: bool, **options: Any) -> None:
    """Drain Slurm's nodes that preflight calls drain, and resume those that raybench drained and that are healthy."""
    from raybench.services.nodes.judged import ActOptions, read_report  # not needed for --help
    from raybench.services.nodes.slurm import act

    actions = act(read_report(report), ActOptions(max_age_seconds=60 * max_age_minutes, **options))
    show_actions(actions, as_json=as_json)
    end(actions)
