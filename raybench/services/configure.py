"""Hosts brought into the state that training needs, and back, by the roles that configure them."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.configuration import Configuration
    from raybench.hosts.playbook import PlaybookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureOptions:
    """Which hosts, and which roles or items of them (``tags``; none: all). Without an inventory it is this machine.

    ``check`` changes nothing. None leaves forks and the time limit of a login to the inventory (50, and 60 s).
    """

    inventories: Sequence[str | Path] = ()
    limit: str | None = None
    tags: Sequence[str] = ()
    check: bool = False
    rollback: bool = False
    remove_packages: bool = False
    forks: int | None = None
    timeout_seconds: float = 7200.0
    host_timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.remove_packages and not self.rollback:
            raise UsageError("--remove-packages goes with --rollback")

    @property
    def intent(self) -> str:
        """What it does to this machine; empty where it changes nothing, or hosts that were named."""
        if self.inventories or self.check:
            return ""
        what = "bring back the first state of" if self.rollback else "change settings of"
        return f"{what} this machine, {platform.node()}"


def configure(
    options: ConfigureOptions,
    *,
    agree: Callable[[str], None],
    on_task: Callable[[str], None] | None = None,
) -> "Configuration":
    """Configure the hosts, or roll them back. The document has the exit code.

    ``agree`` is called before this machine is changed, with what would be done to it, and raises where that is not
    meant. ``on_task`` is called with each task that begins. Raises UsageError for a tag that nothing has.
    """
    from raybench.hosts.ansible_setup import data_folder
    from raybench.hosts.configuration import check_tags, configure_hosts
    from raybench.hosts.inventory import read_inventory

    def take(event: "PlaybookEvent") -> None:
        if on_task is not None and event.kind == "task_start":
            on_task(event.task)

    check_tags(options.tags)
    if options.intent:
        agree(options.intent)
    sources = options.inventories or (data_folder("inventory") / "localhost.yml",)
    return configure_hosts(
        read_inventory(sources, limit=options.limit),
        rollback=options.rollback,
        tags=options.tags,
        limit=options.limit,
        check=options.check,
        forks=options.forks,
        remove_packages=options.remove_packages,
        timeout_seconds=options.timeout_seconds,
        host_timeout_seconds=options.host_timeout_seconds,
        on_event=take,
    )


def list_of_tags() -> list[str]:
    """Two lines for each role: its items, and where its variables stand."""
    from raybench.hosts.configuration import tags_by_role

    return [
        line
        for role, items in tags_by_role().items()
        for line in (f"{role.name}: {', '.join(items)}", f"  variables: {role / 'README.md'}")
    ]
