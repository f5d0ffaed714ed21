"""``raybench samples``: what other tools sampled of a run's nodes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.output import printing, say
from raybench.cli.usage.command import TopicGroup

if TYPE_CHECKING:
    from raybench.services.samples import ImportedSamples

EXAMPLES = """\b
Examples:
  raybench samples import runs/20261121-014502-3f9a range-query.json
  raybench samples import RUN dmon.txt --node gpu-01 --timezone Europe/Berlin      nvidia-smi dmon -o DT
  raybench samples import RUN dcgmi.txt --node gpu-01 --begin 2026-11-21T01:45:00+00:00 --interval 1
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Samples of a run's nodes: GPUs, ports and processors over time, beside what was measured."""


@command.command("import", epilog=EXAMPLES)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--node", help="Whose samples they are, where a file names no host or another name.")
@click.option("--timezone", metavar="ZONE", help="Zone of times that have none: UTC, Europe/Berlin, +02:00.")
@click.option("--begin", metavar="TIME", help="Time of the first reading of a file without times, ISO 8601.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Between two readings of a file without times.",
)
@click.option("--overwrite", is_flag=True, help="Put them in the place of samples that the run has.")
def import_command(run: Path, files: tuple[Path, ...], interval: float | None, **told: Any) -> None:
    """Give a run that had no agent samples that DCGM, node_exporter or nvidia-smi took meanwhile.

    FILE is Prometheus' text format or the JSON of a range query, with metrics of dcgm-exporter and node_exporter, the
    output of nvidia-smi dmon or dcgmi dmon, or what raybench agent -o kept. They are written as node_samples.json, and
    the run is judged by them: findings and verdict in result.json and the report are made anew. Exit code 1: they show
    a problem.
    """
    from raybench.services.samples import ImportOptions, import_samples

    imported = import_samples(run, files, ImportOptions(interval_seconds=interval, **told))
    _print(imported)
    sys.exit(imported.exit_code)


def _print(imported: "ImportedSamples") -> None:
    from raybench.reports.text import count_of, printable

    for remark in imported.remarks:
        say(f"raybench: {remark}")
    with printing("stdout"):
        for node in imported.samples.nodes:
            click.echo(f"{printable(node.name)}: {count_of(node.rows, 'reading')} of {len(node.series)} series")
        for one in imported.omitted:
            click.echo(f"left out of {printable(one)}")
        for found in imported.found:
            click.echo(f"{found.severity.upper()}: {printable(found.summary)}")
        for unsure in imported.samples.rules_cannot_tell:
            click.echo(f"{unsure.rule} cannot tell: {printable(unsure.why)}")
        click.echo(printable(imported.result.conclusion.line))
