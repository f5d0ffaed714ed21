"""Running preflight on an inventory: the playbook, its report, and what is known when it could not be finished."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raybench.documents.preflight import PreflightReport
from raybench.errors import IncompleteRunError, UsageError
from raybench.hosts.inventory import Inventory, inventory_sources, read_inventory
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome, message_of, run_playbook
from raybench.preflight.checks import selected
from raybench.preflight.probe_answer import attempts_of, unpack
from raybench.preflight.report import OVER_ALL, Gathered, build_report, reason_of
from raybench.preflight.writing import write_report

GATHER_TASK = "Gather everything in one round trip"


@dataclass(slots=True)
class _Progress:
    """What came back so far, for the live table and for a report when the playbook's own is not written."""

    on_host: Callable[[Gathered], None] | None
    gathered: dict[str, Gathered] = field(default_factory=dict)
    reached: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def take(self, event: PlaybookEvent) -> None:
        if event.kind not in {"ok", "failed", "unreachable"} or not event.host:
            return
        if event.result.get("reached"):  # while it was probed, or when that was tried again
            self.reached[event.host] = attempts_of(event.result["reached"])
        if event.task.endswith(GATHER_TASK):
            self.gathered[event.host] = one = gathered_from(event)
            if self.on_host is not None:
                self.on_host(one)


def gathered_from(event: PlaybookEvent) -> Gathered:
    """What a host's probe gave, from the event of its task."""
    packed = event.result.get("packed")
    if not packed:
        reason = reason_of(message_of(event.result))
        return Gathered(host=event.host, reason=reason, unreachable=event.kind == "unreachable")
    try:
        return Gathered(
            host=event.host,
            facts=unpack(packed),
            sent_at=event.result.get("sent_at"),
            received_at=event.result.get("received_at"),
            noise=str(event.result.get("noise") or ""),
        )
    except ValueError as error:
        return Gathered(host=event.host, reason=str(error))


def run_preflight(
    sources: Sequence[str | Path],
    *,
    begin: Callable[[Inventory], Path],
    limit: str | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    expectations: Mapping[str, Any] | None = None,
    forks: int | None = None,
    timeout_seconds: float = 600.0,
    host_timeout_seconds: float | None = None,
    on_host: Callable[[Gathered], None] | None = None,
    stop: threading.Event | None = None,
) -> PreflightReport:
    """Probe and judge all hosts of an inventory. ``expectations`` are variables of the role.

    ``begin`` is called with the inventory before a host is contacted, and returns the folder of the report.
    ``host_timeout_seconds`` is what one host may take, its login included; None leaves it to the inventory (60).
    A run that was stopped or took too long gives a report of what it has, its hosts without an answer included. Raises
    UsageError on an unknown check or a bad inventory, and IncompleteRunError where the playbook broke before any host
    was probed.
    """
    check_names(only, skip)
    progress = _Progress(on_host=on_host)
    variables = {**(expectations or {}), "preflight_only": list(only), "preflight_skip": list(skip)}
    if host_timeout_seconds is not None:
        variables["preflight_host_timeout_seconds"] = host_timeout_seconds
    begun: list[tuple[Inventory, Path]] = []

    def check_inventory(environment: Mapping[str, str]) -> None:
        inventory = read_inventory(sources, limit=limit, environment=environment)
        begun.append((inventory, begin(inventory)))

    outcome = run_playbook(
        "preflight_probe",
        inventory=inventory_sources(sources),
        variables=variables,
        check_inventory=check_inventory,
        limit=limit,
        forks=forks,
        timeout_seconds=timeout_seconds,
        on_event=progress.take,
        stop=stop,
    )
    if not begun:
        raise IncompleteRunError("stopped before the inventory was read; no host was contacted")
    ((inventory, output_dir),) = begun
    return _judged(inventory, progress, outcome, only, skip, output_dir)


def check_names(only: Sequence[str], skip: Sequence[str]) -> None:
    """Refuse what is no check and no concern, before anything is started. Raises UsageError."""
    beyond = {*OVER_ALL, "drift"}
    try:
        selected([name for name in only if name not in beyond], [name for name in skip if name not in beyond])
    except ValueError as error:
        raise UsageError(str(error)) from error


def _judged(
    inventory: Inventory,
    progress: _Progress,
    outcome: PlaybookOutcome,
    only: Sequence[str],
    skip: Sequence[str],
    output_dir: Path,
) -> PreflightReport:
    """The report of what came back, however the playbook ended."""
    why = {"canceled": "stopped before it answered", "timeout": "no answer within the time limit"}
    if not progress.gathered and outcome.status == "failed":
        said = outcome.killed and f"{outcome.killed}; nothing was changed on a host: run it again"
        raise IncompleteRunError(f"the preflight playbook failed before any host was probed: {said or outcome.error}")
    failed = f"{outcome.killed} before it answered" if outcome.was_killed else "the playbook failed before it answered"
    reason = why.get(outcome.status, failed)
    hosts = []
    for name in inventory.names:
        one = progress.gathered.get(name)
        if one is None:
            one = Gathered(host=name, reason=reason)
        elif one.facts is not None:
            one = replace(one, reached=progress.reached.get(name, ()))
        hosts.append(one)
    report = build_report(hosts, only=only, skip=skip, finished_at=time.time())
    try:
        write_report(report, output_dir)
    except OSError as error:
        raise IncompleteRunError(f"the report cannot be written to {output_dir}: {error.strerror or error}") from error
    return report
