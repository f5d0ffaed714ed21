"""``raybench cluster up``, ``status`` and ``down``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.cluster_options import LOGIN_LIMIT, host_time_limit, time_limit
from raybench.cli.output import announce, echo_json, printing, say
from raybench.cli.usage.command import TopicGroup

if TYPE_CHECKING:
    from raybench.services.cluster import ClusterOptions, FinishedCluster

EXAMPLES = """\b
Examples:
  raybench cluster up -i hosts.yml                       Ray on every host of ray_head and ray_workers
  raybench cluster up -i hosts.yml --python /opt/raybench/bin/python
  raybench cluster up -i hosts.yml --wheelhouse wheels   for hosts without internet
  raybench run                                           finds the cluster, on this machine or on any node
  raybench cluster status --json
  raybench cluster down
"""

_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option("-i", "--inventory", multiple=True, metavar="FILE", help="Inventory of the hosts; may be repeated.  "
                 "[default: that of the cluster which was brought up last]"),
    click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts, as Ansible's --limit; the head must be "
                 "among them."),
    click.option("-f", "--forks", type=click.IntRange(1, 1000), metavar="N", help="Hosts at a time."),
    time_limit(3600.0, "Time limit of the whole, seconds."),
    host_time_limit(LOGIN_LIMIT),
    click.option("--json", "as_json", is_flag=True, help="Print JSON (raybench.cluster_status/1) instead of a table."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
)  # fmt: skip


def _common(function: Any) -> Any:
    for option in reversed(_COMMON):
        function = option(function)
    return function


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Bring up a Ray cluster over the hosts of an inventory, look at it, take it down.

    The same Python environment on every host, one head, any number of workers, a token that only they know. Only what
    raybench itself started is ever ended: other people's Ray on the same hosts is left alone.
    """


@command.command(epilog=EXAMPLES)
@_common
@click.option("--allow-missing", is_flag=True, help="Go on without workers that cannot be reached or prepared.")
@click.option("--python", metavar="PATH", help="A Python that has Ray, torch and raybench on every host.  [default: "
              "raybench builds an environment with the versions of this machine]")  # fmt: skip
@click.option("--wheelhouse", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="Folder of wheels on this machine, for hosts that reach no package index.")  # fmt: skip
@click.option("--check", "--dry-run", is_flag=True, help="Say what would be done and do nothing.")
def up(as_json: bool, quiet: bool, **options: Any) -> None:
    """Bring up the cluster. Called again, it changes nothing but brings back what fell out."""
    announce("reading the inventory", quiet=quiet)
    from raybench.services.cluster import up as bring_up

    own = {name: options.pop(name) for name in ("allow_missing", "python", "wheelhouse", "check")}
    _end(bring_up(_chosen(options), **own, on_task=_task_printer(quiet=quiet)), as_json=as_json)


@command.command(epilog=EXAMPLES, short_help="Look at the cluster.")
@_common
def status(as_json: bool, quiet: bool, **options: Any) -> None:
    """Hosts, roles, whether Ray's head has them, GPUs, CPUs, versions, uptime. Exits with 1 where a node is missing."""
    announce("reading the inventory", quiet=quiet)
    from raybench.services.cluster import status as look

    _end(look(_chosen(options), on_task=_task_printer(quiet=quiet)), as_json=as_json)


@command.command(epilog=EXAMPLES, short_help="Take down the cluster, and nobody else's.")
@_common
def down(as_json: bool, quiet: bool, **options: Any) -> None:
    """End what raybench started on the hosts, children included, and nothing else."""
    announce("reading the inventory", quiet=quiet)
    from raybench.services.cluster import down as take_down

    _end(take_down(_chosen(options), on_task=_task_printer(quiet=quiet)), as_json=as_json)


def _chosen(options: Mapping[str, Any]) -> "ClusterOptions":
    from raybench.services.cluster import ClusterOptions

    return ClusterOptions(**options)


def _task_printer(*, quiet: bool) -> Callable[[str], None]:
    """Say each task that is worth it, once."""
    said: set[str] = set()

    def show(task: str) -> None:
        if not quiet and task.partition(" ")[0] in _SAID_TASKS and task not in said:
            said.add(task)
            say(f"raybench: {task}")

    return show


_SAID_TASKS = {"Log", "Build", "Make", "Copy", "Install", "Start", "Wait", "End", "Look"}


def _end(finished: "FinishedCluster", *, as_json: bool) -> None:
    from raybench.reports.terminal.report import print_document

    with printing("stdout"):
        if as_json:
            echo_json(finished.report.to_json())
        else:
            print_document(finished.report, sys.stdout)
    if finished.remark:
        say(f"raybench: {finished.remark}")
    sys.exit(finished.exit_code)
