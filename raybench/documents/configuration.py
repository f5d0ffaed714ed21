"""What configuring hosts, or rolling them back, did: ``raybench configure --json`` and ``configure.yml``.

Schema ``raybench.configure/1``: keys are added, never renamed or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from raybench.documents.plain import Json, PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of

ItemVerdict = Literal["changed", "right", "skipped", "conflict", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome(PlainPart):
    """What became of one item on one host; in check mode, what would.

    ``changes`` hold kind, target and how; ``diff`` is what Ansible's ``--diff`` prints. ``pending`` takes effect later
    (a new login, a restart of a service), ``reboot`` with the next boot, which raybench leaves to a person.
    """

    item: str
    verdict: ItemVerdict
    message: str = ""
    changes: tuple[Mapping[str, str], ...] = ()
    diff: tuple[Mapping[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    reboot: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What was changed, or why nothing was: on one line."""
        if self.verdict in {"failed", "skipped"}:
            return " ".join(self.message.split())
        return "; ".join(f"{change.get('target', '')} ({change.get('how', '')})" for change in self.changes)

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """(what, before, after) of each change."""
        return tuple((one.get("before_header", ""), one.get("before", ""), one.get("after", "")) for one in self.diff)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfiguration(PlainPart):
    """All items of one host. ``unreachable`` is why nothing, or not everything, could be done there."""

    name: str
    items: tuple[ItemOutcome, ...]
    unreachable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration(PlainDocument):
    """A run of configure or of its rollback over an inventory. ``error`` is Ansible's own, where it could not run."""

    SCHEMA: ClassVar[str] = "raybench.configure/1"
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "exit_code", "unreachable"})
    action: Literal["configure", "rollback"]
    check: bool
    complete: bool
    hosts: tuple[HostConfiguration, ...]
    error: str = ""

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The playbook alone has items by host, and the names of hosts that were not reached."""
        hosts, missing = content.get("hosts"), content.get("unreachable")
        if not isinstance(hosts, dict) or not isinstance(missing, list):
            return content
        done = [{"name": name, "items": items} for name, items in hosts.items()]
        gone = [{"name": name, "items": [], "unreachable": "it was not reached"} for name in missing]
        return {"action": "configure", "complete": True, **content, "hosts": done + gone}

    @property
    def verdict(self) -> Verdict:
        """``critical`` where an item failed or was left alone because somebody else changed it."""
        if not self.complete or any(host.unreachable is not None for host in self.hosts):
            return "incomplete"
        verdicts = {item.verdict for host in self.hosts for item in host.items}
        return "critical" if verdicts & {"failed", "conflict"} else "ok"

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)

    def to_json(self) -> Json:
        """Every host with every item, and with what the command ended."""
        return {**PlainDocument.to_json(self), "exit_code": self.exit_code}
