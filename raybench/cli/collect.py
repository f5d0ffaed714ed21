"""``raybench collect``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.cluster_options import UP_TO_A_DAY
from raybench.cli.output import announce, echo_json, printing, say
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.documents.collection import CollectedHost
    from raybench.services.collect import FinishedCollection

EXAMPLES = """\b
Examples:
  raybench collect -i hosts.yml                          NCCL logs and facts of all hosts, diagnosed
  raybench collect -i hosts.yml --run 20261121-014502-3f9a --path '/scratch/job7/nccl.*'
  raybench collect -i hosts.yml --limit gpu-03 --path /var/log/training --file-limit 64M
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option("-i", "--inventory", multiple=True, required=True, metavar="FILE", help="Inventory; may be repeated.")
@click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts, as Ansible's --limit.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="Files or folders on the hosts, absolute; *, ? "
    "and [...] in any part. May be repeated.  [default: where NCCL's and raybench's logs mostly are]",
)
@click.option(
    "--run",
    "run_id",
    metavar="RUN_ID",
    help="Put them into this run's folder, and continue where an earlier collection ended.  [default: a new folder]",
)
@click.option("--output-dir", default="runs", show_default=True, metavar="DIR", help="Where runs have their folders.")
@click.option(
    "--file-limit", default="16M", show_default=True, metavar="SIZE", help="Most of one file; its tail is kept."
)
@click.option(
    "--host-limit",
    default="512M",
    show_default=True,
    metavar="SIZE",
    help="Most of one host; its newest files are kept.",
)
@click.option(
    "--accept-new",
    is_flag=True,
    help="Note the keys of hosts that are not in known_hosts. Changed keys are refused all the same.",
)
@click.option(
    "--ssh-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead of ~/.ssh/config.",
)
@click.option("-f", "--forks", type=click.IntRange(1, 256), default=16, show_default=True, help="Hosts at a time.")
@click.option(
    "--host-timeout", "--timeout", "timeout_seconds", type=UP_TO_A_DAY, default=600.0, show_default=True, metavar="S",
    help="Give a host up after so many seconds.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print collection.json instead of a table.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(as_json: bool, quiet: bool, **options: Any) -> None:
    """Fetch NCCL logs and facts of hosts over SSH into one run's folder, and say what the logs prove.

    SFTP, hosts side by side; a transfer that is cut goes on where it was. Host keys are checked; ~/.ssh/config and the
    agent are used, as are ansible_host, ansible_port, ansible_user and the key of the inventory.
    """  # fmt: skip
    announce("reading the inventory, then connecting to its hosts", quiet=quiet)
    from raybench.processes.interrupt import Interrupt
    from raybench.services.collect import CollectOptions, collect

    with Interrupt().installed() as interrupt:
        finished = collect(
            CollectOptions(**options), interrupt=interrupt, on_host=(lambda _: None) if quiet else _say_host
        )
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    with printing("stdout"):
        if as_json:
            echo_json(finished.report.to_json())
        else:
            _print(finished)
    sys.exit(finished.exit_code)


def _say_host(report: "CollectedHost") -> None:
    with_trouble = f", {report.problems[0]}" if report.problems else ""
    say(f"raybench: {report.name}: {report.status}, {len(report.files)} files{with_trouble}")


def _print(finished: "FinishedCollection") -> None:
    from diagnostics.output import render
    from raybench.reports.terminal.report import print_document

    print_document(finished.report, sys.stdout)
    if finished.diagnosis is not None:
        click.echo(render(finished.diagnosis, "text"), nl=False)
    elif not finished.report.found_files:
        click.echo("no logs were found; say with --path where they are")
