"""``raybench preflight``: are the hosts right, before anything is measured on them?"""

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.cluster_options import host_time_limit, time_limit
from raybench.cli.output import announce, printing, say
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.documents.preflight import CheckResult

EXAMPLES = """\b
Examples:
  raybench preflight                                     # this machine
  raybench preflight -i hosts.yml
  raybench preflight -i gpu-01,gpu-02 --only gpu,rdma
  raybench preflight -i hosts.yml --limit ray_workers --skip host-firewall
  raybench preflight -i hosts.yml --expect gpu_count=8 --expect port_rate_gbits=400
  raybench preflight -i hosts.yml --level 2              # and test each node for a minute
  raybench preflight -i hosts.yml --level 3              # for up to ten: NVLink, disks, DCGM, a burn
  raybench preflight -i hosts.yml --json > preflight.json

\b
Every expectation is a variable preflight_NAME of the inventory, for all hosts, a group or a host.
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option(
    "--inventory", "-i", "inventories", multiple=True, metavar="FILE", help="Inventory of Ansible; may be repeated."
)
@click.option("--limit", "-l", metavar="PATTERN", help="Only these hosts or groups of the inventory.")
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK,...",
    help="Only these checks or concerns, such as gpu,host-memlock. May be repeated.",
)
@click.option("--skip", multiple=True, metavar="CHECK,...", help="Leave these checks or concerns out. May be repeated.")
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="1 only looks; 2 tests each node for about a minute, 3 for up to ten.",
)
@click.option("--expect", multiple=True, metavar="NAME=VALUE", help="Expect this of every host; may be repeated.")
@click.option(
    "--output-dir", default="runs", show_default=True, type=click.Path(file_okay=False), help="Where the report goes."
)
@click.option("--forks", type=click.IntRange(1, 1000), help="Hosts at a time [default: 50].")
@time_limit(600.0, "End the run after so many seconds.")
@host_time_limit(
    "End what a host does after so many seconds, its login included, and say where it hangs.  [default: 60]"
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep since when each node is in its state, and what changed, in this file of SQLite.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option("--list-checks", is_flag=True, help="List the checks and stop.")
def command(only: tuple[str, ...], skip: tuple[str, ...], as_json: bool, list_checks: bool, **options: Any) -> None:
    """Check hosts before anything is measured on them: OS, limits, clocks, PCIe, GPUs, RDMA, software, differences.

    Nothing is changed. With --level 2 or 3 each node is also loaded for a while: let no job run there. Hosts are
    reached by ssh as the inventory says; without -i it is this machine. Exit code 0: no check failed; 1: one did; 2:
    invalid usage; 3: a host did not answer, or the run was not finished.
    """
    from raybench.services.preflight import PreflightOptions, list_of_checks, preflight  # not needed for --help

    if list_checks:
        with printing("stdout"):
            click.echo("\n".join(list_of_checks()))
        return
    announce("reading the inventory, then probing its hosts")
    from raybench.reports.preflight.table import PreflightTable
    from raybench.reports.terminal.report import print_document

    tables: list[PreflightTable] = []
    with contextlib.ExitStack() as shown:

        def begin(names: Sequence[str]) -> None:
            tables.append(shown.enter_context(PreflightTable(sys.stderr, names)))

        def show_tested(host: str) -> None:
            tables[0].show_tested(host)

        def show(host: str, checks: Sequence["CheckResult"]) -> None:
            tables[0].show(host, checks)

        chosen = PreflightOptions(only=_names(only), skip=_names(skip), **options)
        finished = preflight(chosen, begun=begin, on_host=show, on_tested=show_tested)
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(finished.report.to_json(), indent=1))
        else:
            print_document(finished.report, sys.stdout, files=finished.files)
    sys.exit(finished.exit_code)


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names of comma lists."""
    return tuple(filter(None, (name.strip() for name in ",".join(texts).split(","))))
