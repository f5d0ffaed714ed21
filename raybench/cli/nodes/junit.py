"""``raybench nodes junit``."""

import sys
from pathlib import Path

import click

from raybench.cli.nodes.options import OUTPUT, REPORT, print_text
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench nodes junit preflight.json -o preflight.xml
"""


@click.command("junit", cls=TopicCommand, epilog=EXAMPLES)
@REPORT
@OUTPUT
def command(report: Path, output: Path | None) -> None:
    """The checks of a preflight as JUnit XML: a node to be drained is a failure, one that is unknown an error.

    Exit code 0 whatever the states are: the CI service reads them in the file.
    """
    from raybench.services.nodes.files import junit_text, write_file  # not needed for --help
    from raybench.services.nodes.judged import read_report

    text = junit_text(read_report(report))
    if output is not None:
        write_file(output, text)
    else:
        print_text(text)
    sys.exit(0)
