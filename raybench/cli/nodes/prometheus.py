"""``raybench nodes prometheus``."""

import sys
from pathlib import Path

import click

from raybench.cli.nodes.options import OUTPUT, REPORT, print_text
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench nodes prometheus preflight.json -o /var/lib/prometheus/node-exporter/raybench.prom
"""


@click.command("prometheus", cls=TopicCommand, epilog=EXAMPLES)
@REPORT
@OUTPUT
def command(report: Path, output: Path | None) -> None:
    """Node states, reasons and counts of checks for the textfile collector of Prometheus' node exporter.

    The file is put into place whole. Exit code 0 whatever the states are.
    """
    from raybench.services.nodes.files import prometheus_text, write_prometheus  # not needed for --help
    from raybench.services.nodes.judged import read_report

    found = read_report(report)
    if output is not None:
        write_prometheus(found, output)
    else:
        print_text(prometheus_text(found))
    sys.exit(0)
