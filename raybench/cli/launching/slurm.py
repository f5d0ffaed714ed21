"""``raybench launch slurm``."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.launching.words import LaunchCommand, launched_words
from raybench.cli.output import say

if TYPE_CHECKING:
    from raybench.services.launching.slurm import Launched

EXAMPLES = """\b
Examples:
  raybench launch slurm --nodes 4 --gpus-per-node 8 --partition gpu --time 30 -- run --suite all_reduce
  raybench launch slurm --nodes 8 --gpus-per-node 8 --account lab -- train --model llama-8b --strategy fsdp
  raybench launch slurm --nodes 4 --dry-run -- run         the script, and what it does
  raybench launch slurm --nodes 4 --no-wait -- run         print the job's id and go

The folder of --shared-folder (or --output-dir) and the Python of raybench must be at the same path on this machine and
on the nodes. Ctrl-C has the job end in order: what was measured is kept. Exit codes are those of the command.
"""


@click.command("slurm", cls=LaunchCommand, epilog=EXAMPLES, options_metavar="[OPTIONS] -- COMMAND")
@click.option("--nodes", type=int, default=1, show_default=True, metavar="N", help="Nodes of the job.")
@click.option("--gpus-per-node", type=int, metavar="G", help="GPUs of each node.  [default: as the partition gives]")
@click.option("--partition", metavar="NAME", help="[default: that of the cluster]")
@click.option("--account", metavar="NAME", help="[default: yours]")
@click.option(
    "--time",
    metavar="T",
    help="Time limit: minutes, H:MM:SS or D-HH:MM:SS. The job is told to end before "
    "it, and keeps what it has measured.  [default: that of the partition]",
)
@click.option("--job-name", "name", default="raybench", show_default=True, metavar="NAME", help="As squeue shows it.")
@click.option(
    "--exclusive/--no-exclusive",
    default=True,
    show_default=True,
    help="Nodes without other jobs: what others do there is measured too.",
)
@click.option(
    "--sbatch-option",
    "options",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Any other option of sbatch, such as qos=high or gres=gpu:8. May be repeated.",
)
@click.option(
    "--srun-option",
    "srun_options",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Option of the srun that starts Ray on a node. May be repeated.",
)
@click.option(
    "--setup",
    multiple=True,
    metavar="LINE",
    help="Line of shell at the begin of the script, such as 'module load cuda'. May be repeated.",
)
@click.option(
    "--python",
    default=sys.executable,
    metavar="PATH",
    help="Python that has raybench, on the nodes.  [default: the one that runs this]",
)
@click.option("--output-dir", default="runs", show_default=True, metavar="DIR", help="Results go to DIR/slurm-JOB.")
@click.option(
    "--shared-folder",
    metavar="DIR",
    help="A folder that the nodes see, where --output-dir is not: the job writes there, and results are copied.",
)
@click.option(
    "--start-timeout",
    "start_seconds",
    type=click.FloatRange(1, 86400),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Time limit for Ray to be up on the nodes, seconds.",
)
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Follow the job until it has ended; else print its id."
)
@click.option("--dry-run", is_flag=True, help="Print the script and what it does, and submit nothing.")
@click.pass_context  # fmt: skip
def command(
    context: click.Context, /, output_dir: str, shared_folder: str | None, wait: bool, dry_run: bool, **given: Any
) -> None:
    """Run a command of raybench as a job of Slurm: Ray is raised on its nodes and taken down with it."""
    from raybench.services.launching.slurm import SlurmRequest, planned, submit

    words = launched_words(context)
    shared = Path(shared_folder or output_dir).absolute()
    request = SlurmRequest(folder=shared, path=os.environ.get("PYTHONPATH", ""), **given)
    if dry_run:
        click.echo(planned(request, words), nl=False)
        return
    job_id = submit(request, words)
    if not wait:
        click.echo(job_id)
        say(f"raybench: results will be in {shared}/slurm-{job_id}")
        return
    say(f"raybench: job {job_id} is submitted")
    sys.exit(_finish(request, job_id, Path(output_dir)))


def _finish(request: Any, job_id: str, output_dir: Path) -> int:
    from raybench.processes.interrupt import Interrupt
    from raybench.services.launching.slurm import follow

    with Interrupt().installed() as interrupt, interrupt.counting():
        launched = follow(
            request, job_id, interrupt=interrupt, say=lambda text: say(f"raybench: {text}"), output_dir=output_dir
        )
    show(launched)
    return launched.exit_code


def show(launched: "Launched") -> None:
    """Print what the job measured, or why there is nothing."""
    from raybench.cli.show import show_text

    for folder in launched.results:
        show_text(folder)
    if launched.reason:
        say(f"raybench: {launched.reason}")
