"""``raybench launch``: the same run under the scheduler that a cluster has."""

import click

from raybench.cli.launching import kubernetes, ranks, slurm
from raybench.cli.usage.command import TopicGroup

EXAMPLES = """\b
Examples:
  raybench launch slurm --nodes 4 --gpus-per-node 8 --partition gpu -- run --suite all_reduce
  raybench launch torchrun --gpus-per-node 8 -- run --suite all_reduce
  raybench launch slurm --nodes 4 --dry-run -- train --model gpt2-xl --strategy fsdp
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Run, train, study under the scheduler that a cluster has: the command after -- is raybench's own.

    The results are those of the command itself: result.json, report.html and the exit code.
    """


command.add_command(slurm.command)
command.add_command(kubernetes.command)
command.add_command(ranks.torchrun)
command.add_command(ranks.mpirun)
command.add_command(ranks.rank)
