"""``raybench nodes``: what schedulers and monitoring are told of nodes."""

import click

from raybench.cli import LazyGroup

# name -> (module, the line shown by `raybench nodes --help`)
_COMMANDS = {
    "list": ("raybench.cli.nodes.listing", "Names of nodes by state, as host list, lines or JSON."),
    "check": ("raybench.cli.nodes.check", "This node, in seconds: for Slurm's prolog and HealthCheckProgram."),
    "watch": ("raybench.cli.nodes.watch", "Preflight again and again, and act once it has said the same in a row."),
    "history": ("raybench.cli.nodes.history", "Since when nodes are so, and what changed since they were right."),
    "prometheus": ("raybench.cli.nodes.prometheus", "Node states as a file for the textfile collector."),
    "junit": ("raybench.cli.nodes.junit", "Checks and node states as JUnit XML, for CI."),
    "slurm": ("raybench.cli.nodes.slurm", "Drain and resume Slurm's nodes by their verdicts."),
    "kubernetes": ("raybench.cli.nodes.kubernetes", "Taint and label nodes of Kubernetes by their verdicts."),
}
EXAMPLES = """\b
Examples:
  raybench preflight -i hosts.yml --output-dir checks
  raybench nodes list checks/preflight-*/ --state drain
  raybench nodes slurm checks/preflight-*/                 what would be drained and resumed
  raybench nodes slurm checks/preflight-*/ --apply
"""


class _NodesGroup(LazyGroup):
    table = _COMMANDS


@click.command(cls=_NodesGroup, epilog=EXAMPLES)
def command() -> None:
    """Act on the verdicts of preflight: which nodes get jobs, and who is told.

    PREFLIGHT is a preflight.json or its folder. Nothing is changed without --apply. A node that is unknown is neither
    drained nor resumed. Exit code 0: no node is to be drained; 1: one is; 2: invalid usage; 3: something could not be
    done, or a node is unknown.
    """
