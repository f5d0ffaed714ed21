"""``raybench slurm``: what has to do with jobs of Slurm that raybench did not start itself."""

import json
import sys
from typing import TYPE_CHECKING

import click

from raybench.cli.output import printing
from raybench.cli.usage.command import TopicGroup

if TYPE_CHECKING:
    from raybench.services.launching.slurm_import import ImportedJob

EXAMPLES = """\b
Examples:
  raybench slurm import 'slurm-*.out'
  raybench slurm import slurm-1417.out train.1418.err --json
  raybench slurm import /scratch/logs                  all slurm-*.out of a folder

Files of the same job (1417.out, 1417.err) are read together. Exit codes: 0 all jobs worked; 1 a problem was found;
2 invalid usage; 3 a job was cut, or its output does not tell.
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Read what jobs of Slurm left; 'raybench launch slurm' starts one."""


@command.command("import", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with each job's whole diagnosis.")
def import_command(paths: tuple[str, ...], as_json: bool) -> None:
    """Say of each job what its output proves: by NCCL's lines, nccl-tests' tables, and raybench's own verdict.

    Of trainings of any program: how long they took, on how many ranks, what they learned, and what more ranks brought.
    """
    from raybench.services.launching.slurm_import import exit_code_of, import_outputs, speedups_of

    jobs = import_outputs(paths)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps({"jobs": [job.to_json() for job in jobs]}, indent=2))
        else:
            for job in jobs:
                _print(job)
            for one in speedups_of(jobs):
                gain = f"{one.ratio:.2f}x the speed of the fewest ranks, {one.efficiency:.1%} efficient"
                click.echo(f"job {_plain(one.job)}: {gain}")
    sys.exit(exit_code_of(jobs))


def _print(job: "ImportedJob") -> None:
    click.echo(f"job {_plain(str(job.job))}: {job.verdict.upper()}: {_plain(job.reason)}")
    if job.output.run:
        click.echo(f"  raybench run {_plain(job.output.run)}: {_plain(job.output.what)}")
    for test in job.output.tests:
        average = test.average_bus_gb_per_second
        known = f"{average:g} GB/s average busbw" if average is not None else "cut before its end"
        largest = f"{test.largest_bus_gb_per_second:g} GB/s at {test.largest_bytes} bytes"
        click.echo(f"  {_plain(test.name or 'nccl-tests')}: {known}, {largest}")
    if job.output.training is not None and job.output.training.text != job.reason:
        click.echo(f"  {_plain(job.output.training.text)}")
    for folder in job.results:
        click.echo(f"  results: {folder} (raybench show {folder})")
    click.echo(f"  more: raybench diagnose {' '.join(str(path) for path in job.files)}")


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]
