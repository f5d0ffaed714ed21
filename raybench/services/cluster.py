"""raybench's own Ray cluster over the hosts of an inventory: brought up, looked at, taken down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.cluster_status import ClusterAction, ClusterStatus

_ENDED = {"canceled": "stopped", "timeout": "ended by its time limit (--timeout)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Which hosts. Without an inventory it is that of the cluster which was brought up last."""

    inventory: Sequence[str] = ()
    limit: str | None = None
    forks: int | None = None
    timeout_seconds: float = 3600.0
    host_timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCluster:
    """What was found or done (``raybench.cluster_status/1``)."""

    report: "ClusterStatus"

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.report.exit_code

    @property
    def remark(self) -> str:
        """What to do where it was ended half-way; else empty."""
        how = _ENDED.get(self.report.status)
        advice = "'raybench cluster status' says what runs, 'raybench cluster down' ends it"
        return f"{how} half-way; {advice}" if how else ""


def up(
    options: ClusterOptions,
    *,
    allow_missing: bool = False,
    python: str | None = None,
    wheelhouse: Path | None = None,
    check: bool = False,
    on_task: Callable[[str], None] = lambda _: None,
) -> FinishedCluster:
    """Bring the cluster up, or back what fell out of it. ``check`` does nothing but say what would be done.

    ``allow_missing`` goes on without workers that cannot be reached. ``on_task`` is called with each task that begins.
    """
    variables: dict[str, Any] = {"ray_node_allow_missing": True} if allow_missing else {}
    if python is not None:
        variables["ray_node_python"] = python
    if wheelhouse is not None:
        variables["ray_node_wheelhouse"] = str(wheelhouse.absolute())
    report = _play("up", options, variables, on_task, check=check)
    return FinishedCluster(report=replace(report, allow_missing=allow_missing, check=check))


def status(options: ClusterOptions, *, on_task: Callable[[str], None] = lambda _: None) -> FinishedCluster:
    """Look at the cluster: what runs on its hosts, and which of them its head has."""
    return FinishedCluster(report=_play("status", options, {}, on_task))


def down(options: ClusterOptions, *, on_task: Callable[[str], None] = lambda _: None) -> FinishedCluster:
    """End what raybench started on the hosts, children included, and nothing else."""
    return FinishedCluster(report=_play("down", options, {}, on_task))


def _play(
    action: "ClusterAction",
    options: ClusterOptions,
    variables: Mapping[str, Any],
    on_task: Callable[[str], None],
    *,
    check: bool = False,
) -> "ClusterStatus":
    """Run the playbook. Raises UsageError where it did not run on any host."""
    from raybench.hosts.cluster_play import inventory_of, play_cluster

    report = play_cluster(
        action,
        inventory_of(options.inventory, options.limit),
        limit=options.limit,
        variables=variables,
        forks=options.forks,
        timeout_seconds=options.timeout_seconds,
        host_timeout_seconds=options.host_timeout_seconds,
        on_task=on_task,
        check=check,
    )
    if report.error and not any(node.problem or node.running is not None for node in report.nodes):
        raise UsageError(f"the playbook did not run: {report.error}")
    return report
