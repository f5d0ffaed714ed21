"""Carrying out a plan and taking it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import ConfigureError, HostError
from .host import Host
from .journal import Journal, JournalEntry
from .plan import ItemPlan
from .resources.file import folders_missing
from .resources.kinds import named_resource
from .resources.resource import Resource, State
from .resources.service import PackageResource, installed


@dataclass
class ItemOutcome:
    """What was done, or would be: one change a resource that differs, and what is left to a person."""

    changes: list[dict[str, str]] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    problem: str | None = None

    def add(self, resource: Resource, before: State, after: State) -> None:
        """Note a change, with its text for ``--diff``."""
        name = f"{resource.kind} {resource.target}"
        self.changes.append({"kind": resource.kind, "target": resource.target, "how": _how(resource, before, after)})
        self.diff.append(
            {
                "before_header": name,
                "after_header": name,
                "before": resource.text(before),
                "after": resource.text(after),
            }
        )


def carry_out(host: Host, journal: Journal, item: str, plan: ItemPlan, *, check: bool) -> ItemOutcome:
    """Make every setting of a plan that is not right yet. A setting that fails ends the plan: later ones rest on it."""
    outcome = ItemOutcome()
    try:
        for setting in plan.settings:
            resource = setting.resource
            before = resource.read(host)
            after = setting.wanted(before)
            if resource.same(before, after):
                continue
            if setting.whole and _edited_since(journal, resource, before):
                outcome.conflicts.append(f"{resource.target} was edited after raybench wrote it: left as it is")
                continue
            if not check:
                _change(host, journal, item, resource, (before, after))
            outcome.add(resource, before, after)
        if outcome.changes and not check:
            for command in plan.reload:
                _reload(host, command)
    except ConfigureError as error:
        outcome.problem = str(error)
    return outcome


def roll_back(host: Host, journal: Journal, items: list[str], *, packages: bool, check: bool) -> ItemOutcome:
    """Bring back the first state of every entry, last one first. What was edited since is kept and reported."""
    outcome = ItemOutcome()
    problems = []
    chosen = [entry for entry in journal.entries if not items or _belongs(entry.item, items)]
    for entry in sorted(chosen, key=lambda each: each.sequence, reverse=True):
        if entry.kind == "package" and not packages:
            outcome.kept.append(f"packages stay installed: {' '.join(sorted(entry.after or {}))}")
            continue
        try:
            _undo(host, journal, entry, outcome, check=check)
        except ConfigureError as error:
            problems.append(f"{entry.item}: {error}")
    if outcome.changes and not check and host.systemd():
        host.run("systemctl", "daemon-reload", seconds=60)
    outcome.problem = "; ".join(problems) or None
    return outcome


def _change(host: Host, journal: Journal, item: str, resource: Resource, states: tuple[State, State]) -> None:
    before, after = states
    folders = folders_missing(host, resource.target) if resource.kind == "file" else []
    entry = journal.record(item, resource, before, after, folders)
    present = installed(host, resource.tool) if isinstance(resource, PackageResource) else set()
    resource.write(host, after)
    if isinstance(resource, PackageResource):
        new = installed(host, resource.tool) - present
        entry.before, entry.after = dict.fromkeys(new, False), dict.fromkeys(new, True)
        journal.save(entry)
        return
    now = resource.read(host)
    if not resource.same(now, after):
        entry.after = now
        journal.save(entry)
        raise HostError(f"{resource.kind} {resource.target} was told {_brief(after)} and says {_brief(now)}")


def _undo(host: Host, journal: Journal, entry: JournalEntry, outcome: ItemOutcome, *, check: bool) -> None:
    resource = named_resource(entry.kind, entry.target, entry.after)
    current = resource.read(host)
    wanted, left = resource.take_back(entry.before, entry.after, current)
    if resource.same(current, entry.before):
        wanted, left = current, []
    if left:
        outcome.conflicts.append(
            f"{entry.kind} {entry.target} was changed after raybench wrote it"
            f"{'' if left == [entry.target] else f' ({_some(left)})'}: left as it is; the journal has its first state"
        )
    if not resource.same(current, wanted):
        if not check:
            resource.write(host, wanted)
        outcome.add(resource, current, wanted)
        if not left and resource.kind == "file" and wanted != entry.before:
            outcome.kept.append(f"{entry.target}: lines that were added after raybench wrote it are still there")
    if not left and not check:
        journal.drop(entry)


def _edited_since(journal: Journal, resource: Resource, current: State) -> bool:
    entry = journal.find(resource)
    return entry is not None and current is not None and current not in (entry.after, entry.before)


def _reload(host: Host, command: list[str]) -> None:
    answer = host.run(*command, seconds=60)
    if answer.status:
        raise HostError(f"{' '.join(command)}: {answer.reason}")


def _belongs(item: str, chosen: list[str]) -> bool:
    return any(item == name or item.startswith(f"{name}.") for name in chosen)


def _how(resource: Resource, before: State, after: State) -> str:
    if resource.kind == "file":
        return "created" if before is None else "removed" if after is None else "edited"
    old, new = before or {}, after or {}
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    said = {name: f"{old.get(name)} -> {new.get(name)}" for name in names}
    return _some([how if name == resource.target else f"{name}: {how}" for name, how in said.items()])


def _some(parts: list[str]) -> str:
    return ", ".join(parts[:4]) + (f" and {len(parts) - 4} more" if len(parts) > 4 else "")


def _brief(state: Any) -> str:
    return str({name: value for name, value in (state or {}).items() if name != "content"})[:200]
