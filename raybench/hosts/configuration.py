"""Configuring the hosts of an inventory and rolling them back, through the playbooks of those names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.documents.configuration import Configuration, HostConfiguration, ItemOutcome, ItemVerdict
from raybench.errors import unknown_name
from raybench.hosts.ansible_setup import data_folder
from raybench.hosts.inventory import Inventory
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome, contact_variables, message_of, run_playbook

_LAST_TASK = "Fail where an item failed"  # repeats what the items said already
_LAST_TASKS = (
    _LAST_TASK,
    "Bring back the first state",
)  # of configure, and the only one of a rollback that does anything
_CUT_SHORT = ("timeout", "canceled")
_TEXTS = ("notes", "advice", "pending", "reboot", "conflicts")


@dataclass(slots=True)
class _Collected:
    """Items by host, as the events of a run bring them."""

    items: dict[str, list[ItemOutcome]] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    through: set[str] = field(default_factory=set)  # hosts on which nothing is left to do

    def take(self, event: PlaybookEvent) -> None:
        if event.kind in {"ok", "failed", "skipped"} and event.task in _LAST_TASKS:
            self.through.add(event.host)
        if event.kind == "unreachable":
            self.unreachable[event.host] = message_of(event.result)
        if event.kind in {"ok", "failed"} and event.task != _LAST_TASK:
            self.items.setdefault(event.host, []).extend(items_from(event))


def configure_hosts(
    inventory: Inventory,
    *,
    rollback: bool = False,
    tags: Sequence[str] = (),
    limit: str | None = None,
    check: bool = False,
    forks: int | None = None,
    remove_packages: bool = False,
    timeout_seconds: float = 7200.0,
    host_timeout_seconds: float | None = None,
    on_event: Callable[[PlaybookEvent], None] | None = None,
) -> Configuration:
    """Run ``configure.yml``, or ``rollback.yml`` for the items that ``tags`` name. Raises UsageError on a bad tag.

    ``host_timeout_seconds`` is what logging in to a host may take; None leaves it to the inventory (60).
    """
    check_tags(tags)
    collected = _Collected()

    def take(event: PlaybookEvent) -> None:
        collected.take(event)
        if on_event is not None:
            on_event(event)

    outcome = run_playbook(
        "rollback" if rollback else "configure",
        inventory=inventory,
        variables=contact_variables(host_timeout_seconds)
        | ({"rollback_items": list(tags), "rollback_packages": remove_packages} if rollback else {}),
        tags=() if rollback else tags,
        limit=limit,
        check=check,
        diff=True,
        forks=forks,
        timeout_seconds=timeout_seconds,
        on_event=take,
    )
    return _configuration(inventory, collected, outcome, rollback=rollback, check=check)


def check_tags(tags: Sequence[str]) -> None:
    """Refuse a tag that nothing has: Ansible would do nothing, and call it a success. Raises UsageError."""
    known = known_tags()
    for tag in tags:
        if tag.rpartition(".")[2] not in known:  # a rollback takes system_limits.memlock as well
            raise unknown_name("tag in configure.yml named", tag, sorted(known))


def known_tags() -> frozenset[str]:
    """Roles that configure hosts, and their items, as their tasks are tagged."""
    return frozenset(name for role, items in tags_by_role().items() for name in (role.name, *items))


def tags_by_role() -> dict[Path, tuple[str, ...]]:
    """The folder of each role that configures hosts, whose README lists its variables, and the role's items."""
    import yaml  # comes with Ansible

    found: dict[Path, tuple[str, ...]] = {}
    for path in sorted((data_folder("playbooks") / "roles").glob("*/tasks/main.yml")):
        tags = [
            tag
            for task in yaml.safe_load(path.read_text(encoding="utf-8"))
            if "raybench_configure" in task
            for tag in task["tags"]
        ]
        if tags:
            found[path.parents[1]] = tuple(dict.fromkeys(tag for tag in tags if tag != path.parents[1].name))
    return found


def _configuration(
    inventory: Inventory, collected: _Collected, outcome: PlaybookOutcome, *, rollback: bool, check: bool
) -> Configuration:
    cut = outcome.killed or (f"the run was ended: {outcome.status}" if outcome.status in _CUT_SHORT else "")
    hosts = tuple(
        HostConfiguration(
            name=name,
            items=tuple(collected.items.get(name, ())),
            unreachable=collected.unreachable.get(name, _not_known(name, collected, cut)),
        )
        for name in inventory.names
    )
    seen = any(host.items or host.unreachable for host in hosts)
    return Configuration(
        action="rollback" if rollback else "configure",
        check=check,
        complete=seen and not cut,
        hosts=hosts,
        error=_how_far(cut, hosts, rollback=rollback) if cut else ("" if seen else outcome.error),
    )


def _not_known(name: str, collected: _Collected, cut: str) -> str | None:
    """Of a host that was not through when the run was cut short: that nobody knows how far it came."""
    if not cut or name in collected.through:
        return None
    known = len(collected.items.get(name, ()))
    return f"{cut} before this host was through: " + (
        f"{known} item{'s' * (known != 1)} of it known, of the rest it is not known"
        if known
        else "nothing of it is known"
    )


def _how_far(cut: str, hosts: Sequence[HostConfiguration], *, rollback: bool) -> str:
    """How a run that was cut short left the hosts, and what to do next."""
    done = [host.name for host in hosts if host.unreachable is None]
    open_ = [host.name for host in hosts if host.unreachable is not None]
    words = [f"done: {', '.join(done)}" if done else "no host is known to be done"]
    words += [f"not known: {', '.join(open_)}"] if open_ else []
    again = "roll back" if rollback else "configure"
    return f"{cut}; {'; '.join(words)}; {again} again: what is right already is left as it is"


def items_from(event: PlaybookEvent) -> Iterator[ItemOutcome]:
    """What a task says of items. A module that broke before it could say anything counts as its task."""
    result, failed = event.result, event.kind == "failed"
    yield from (_item(outcome) for outcome in result.get("outcomes") or ())
    if "changes" in result:
        yield _rolled_back(result, failed=failed)
    elif failed and not result.get("outcomes"):
        yield ItemOutcome(item=event.task, verdict="failed", message=message_of(result))


def _item(outcome: Mapping[str, Any]) -> ItemOutcome:
    texts: dict[str, Any] = {name: tuple(map(str, outcome.get(name) or ())) for name in _TEXTS}
    return ItemOutcome(
        item=str(outcome["item"]),
        verdict=outcome["verdict"],
        message=str(outcome["message"]),
        changes=tuple(outcome["changes"]),
        diff=tuple(outcome["diff"]),
        **texts,
    )


def _rolled_back(result: Mapping[str, Any], *, failed: bool) -> ItemOutcome:
    done: ItemVerdict = "changed" if result["changes"] else "right"
    broken: ItemVerdict = "conflict" if result.get("conflicts") else "failed"
    return ItemOutcome(
        item="rollback",
        verdict=broken if failed else done,
        message=message_of(result) if failed else "",
        changes=tuple(result["changes"]),
        diff=tuple(result.get("diff") or ()),
        notes=tuple(result.get("notes") or ()),
        conflicts=tuple(result.get("conflicts") or ()),
    )
