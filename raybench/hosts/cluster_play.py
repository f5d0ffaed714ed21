"""Bringing up, taking down and looking at raybench's own Ray cluster: one playbook each, and a row for each host."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raybench.documents.cluster_status import ClusterAction, ClusterNode, ClusterStatus
from raybench.errors import IncompleteRunError, UsageError
from raybench.hosts.inventory import Inventory, read_inventory
from raybench.hosts.own_cluster import controlled_cluster
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome, contact_variables, run_playbook

_NEXT = "'raybench cluster status' says what runs, 'raybench cluster down' ends it"


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What events told: of each host its last answer, and the head's table."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    table: Sequence[Mapping[str, Any]] = ()

    def take(self, event: PlaybookEvent) -> None:
        node = event.result.get("node")
        if event.kind != "ok" or not isinstance(node, Mapping):
            return
        known = self.answers.setdefault(event.host, {"changed": False})
        changed = known["changed"] or (bool(event.result.get("changed")) and "prepared" not in event.result)
        known |= {"node": node, "changed": changed}
        if isinstance(event.result.get("python"), Mapping):
            known["python"] = event.result["python"]
        if isinstance(event.result.get("gcs"), list):
            self.table = event.result["gcs"]


def inventory_of(sources: Sequence[str], limit: str | None) -> Inventory:
    """The inventory that was named, or the one with which the running cluster was brought up.

    Raises UsageError where there is neither, and for one without a single head.
    """
    named = tuple(sources)
    if not named:
        own = controlled_cluster()
        if own is None or not own.inventory:
            raise UsageError("name the inventory with -i: no cluster was brought up from this machine")
        named = own.inventory
    inventory = read_inventory(named, limit=limit)
    heads = inventory.groups.get("ray_head", ())
    if len(heads) != 1:
        raise UsageError(
            f"the inventory has {len(heads)} hosts in the group ray_head{' within --limit' if limit else ''}; a "
            "cluster has one head, and its other hosts in ray_workers ('raybench init HOST ...' writes one)"
        )
    return inventory


def play_cluster(
    action: ClusterAction,
    inventory: Inventory,
    *,
    limit: str | None = None,
    variables: Mapping[str, Any] | None = None,
    forks: int | None = None,
    timeout_seconds: float = 3600.0,
    host_timeout_seconds: float | None = None,
    check: bool = False,
    on_task: Callable[[str], None] = lambda _: None,
) -> ClusterStatus:
    """Run ``cluster_up.yml`` and the like on an inventory. What went wrong on a host is in its row.

    Raises IncompleteRunError where a signal ended Ansible itself before any host had answered.
    """
    seen = _Seen()

    def take(event: PlaybookEvent) -> None:
        seen.take(event)
        if event.kind == "task_start":
            on_task(event.task)

    outcome = run_playbook(
        f"cluster_{action}",
        inventory=inventory,
        variables={**contact_variables(host_timeout_seconds), **(variables or {})},
        limit=limit,
        forks=forks,
        check=check,
        timeout_seconds=timeout_seconds,
        on_event=take,
    )
    if outcome.was_killed and not seen.answers:
        raise IncompleteRunError(f"{outcome.killed} before any host was done; {_NEXT}")
    return report_of(action, inventory, outcome, seen.answers, seen.table)


def report_of(
    action: ClusterAction,
    inventory: Inventory,
    outcome: PlaybookOutcome,
    answers: Mapping[str, Mapping[str, Any]],
    table: Sequence[Mapping[str, Any]],
) -> ClusterStatus:
    """The report of a playbook that has ended: a row for each host of the cluster's groups, reached or not."""
    heads, workers = (inventory.groups.get(name, ()) for name in ("ray_head", "ray_workers"))
    names = tuple(dict.fromkeys((*heads, *workers)))
    in_table = {str(entry["name"]): entry for entry in table if entry.get("alive")}
    rows = tuple(
        _row(name, "head" if name in heads else "worker", answers.get(name, {}), in_table, outcome) for name in names
    )
    head = answers.get(heads[0], {}).get("node", {}) if heads else {}
    return ClusterStatus(
        action=action,
        status=outcome.status,
        nodes=rows if action != "down" else tuple(_without_table(row) for row in rows),
        address=head.get("address") if head.get("running") else None,
        strangers=tuple(sorted(set(in_table) - set(names))),
        error=_error(outcome, answers, names),
    )


def _error(outcome: PlaybookOutcome, answers: Mapping[str, Any], names: Sequence[str]) -> str:
    """Ansible's own error; how far it came where a signal ended it."""
    if not outcome.was_killed:
        return "" if outcome.hosts else outcome.error
    open_ = [name for name in names if name not in answers]
    heard = ", ".join(name for name in names if name in answers) or "no host"
    silent = f"; not known: {', '.join(open_)}" if open_ else ""
    return f"{outcome.killed}; {heard} had answered, and may not be through{silent}; {_NEXT}"


def _row(
    name: str,
    role: str,
    answer: Mapping[str, Any],
    in_table: Mapping[str, Mapping[str, Any]],
    outcome: PlaybookOutcome,
) -> ClusterNode:
    node, versions, entry = answer.get("node", {}), answer.get("python", {}), in_table.get(name)
    host = next((one for one in outcome.hosts if one.name == name), None)
    failures = host.failures if host is not None and not host.clean else ()
    return ClusterNode(
        name=name,
        role=role,
        running=node.get("running"),
        alive=entry is not None if in_table else None,
        changed=bool(answer.get("changed")),
        address=str(entry["address"]) if entry else None,
        gpus=int(entry["gpus"]) if entry else None,
        cpus=int(entry["cpus"]) if entry else None,
        ray=versions.get("ray"),
        python=versions.get("python"),
        torch=versions.get("torch"),
        supervisor=node.get("supervisor"),
        uptime_seconds=node.get("uptime_seconds"),
        rebooted=node.get("rebooted"),
        unreachable=any(failure.unreachable for failure in failures),
        problem=" ".join(failures[0].message.split())[:1000] if failures else "",
    )


def _without_table(row: ClusterNode) -> ClusterNode:
    """After taking the cluster down there is no head to ask."""
    return ClusterNode(
        name=row.name,
        role=row.role,
        running=row.running,
        changed=row.changed,
        unreachable=row.unreachable,
        problem=row.problem,
    )
