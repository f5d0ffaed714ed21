"""``raybench cluster up``, ``status`` and ``down``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.output import announce, printing, say
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.cluster_status import ClusterStatus

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
    click.option("--timeout", type=click.FloatRange(1, 86400), default=3600.0, show_default=True, metavar="S",
                 help="Time limit of the whole, seconds."),
    click.option("--host-timeout", type=click.FloatRange(1, 86400), metavar="S", help="Give a host up that has not let "
                 "raybench log in after so many seconds, and say where its login hangs.  [default: 60]"),
    click.option("--json", "as_json", is_flag=True, help="Print JSON (raybench.cluster_status/1) instead of a table."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
)  # fmt: skip


def _common(function: Any) -> Any:
    for option in reversed(_COMMON):
        function = option(function)
    return function


@click.group(epilog=EXAMPLES)
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
@click.option("--check", is_flag=True, help="Say what would be done and do nothing.")
def up(allow_missing: bool, python: str | None, wheelhouse: Path | None, check: bool, **common: Any) -> None:
    """Bring up the cluster. Called again, it changes nothing but brings back what fell out."""
    variables: dict[str, Any] = {"ray_node_allow_missing": True} if allow_missing else {}
    if python is not None:
        variables["ray_node_python"] = python
    if wheelhouse is not None:
        variables["ray_node_wheelhouse"] = str(wheelhouse.absolute())
    report = _play("up", variables, common, check=check)
    wanted = [node for node in report.nodes if not allow_missing or node.role == "head"]
    tolerated = {node.name for node in report.nodes} - {node.name for node in wanted}
    failed = [node for node in report.nodes if node.problem and not (node.name in tolerated and node.unreachable)]
    complete = all(node.alive for node in wanted) and not failed
    if check:
        complete = not failed and not report.error
    _end(report, common, 0 if complete else 3)


@command.command(epilog=EXAMPLES, short_help="Look at the cluster.")
@_common
def status(**common: Any) -> None:
    """Hosts, roles, whether Ray's head has them, GPUs, CPUs, versions, uptime. Exits with 1 where a node is missing."""
    report = _play("status", {}, common)
    code = 0 if all(node.alive for node in report.nodes) else 1
    _end(report, common, 3 if any(node.problem for node in report.nodes) or report.error else code)


@command.command(epilog=EXAMPLES, short_help="Take down the cluster, and nobody else's.")
@_common
def down(**common: Any) -> None:
    """End what raybench started on the hosts, children included, and nothing else."""
    report = _play("down", {}, common)
    _end(report, common, 0 if all(node.running is False and not node.problem for node in report.nodes) else 3)


def _play(
    action: Any, variables: Mapping[str, Any], common: Mapping[str, Any], *, check: bool = False
) -> "ClusterStatus":
    announce("reading the inventory", quiet=common["quiet"])
    from raybench.hosts.cluster_play import inventory_of, play_cluster

    inventory = inventory_of(common["inventory"], common["limit"])
    shown: list[str] = []

    def show(task: str) -> None:
        if not common["quiet"] and task.partition(" ")[0] in _TOLD and task not in shown:
            shown.append(task)
            say(f"raybench: {task}")

    report = play_cluster(
        action,
        inventory,
        limit=common["limit"],
        variables=variables,
        forks=common["forks"],
        timeout_seconds=common["timeout"],
        host_timeout_seconds=common["host_timeout"],
        on_task=show,
        check=check,
    )
    if report.error and not any(node.problem or node.running is not None for node in report.nodes):
        raise UsageError(f"the playbook did not run: {report.error}")
    return report


_TOLD = {"Log", "Build", "Make", "Copy", "Install", "Start", "Wait", "End", "Look"}


def _end(report: "ClusterStatus", common: Mapping[str, Any], code: int) -> None:
    from raybench.reports.hosts.cluster import print_cluster

    with printing("stdout"):
        if common["as_json"]:
            _print_json(report.to_json())
        else:
            print_cluster(report, sys.stdout)
    if report.status in {"canceled", "timeout"}:
        how = "stopped" if report.status == "canceled" else "ended by its time limit (--timeout)"
        say(f"raybench: {how} half-way; 'raybench cluster status' says what runs, 'raybench cluster down' ends it")
        code = 3
    sys.exit(code)


def _print_json(content: Mapping[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())
