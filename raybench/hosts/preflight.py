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
from raybench.preflight.node_tests.answer import NodeTests, read_answer
from raybench.preflight.node_tests.plan import host_limit_seconds, plan_for
from raybench.preflight.probe_answer import attempts_of, boot_id_of, unpack
from raybench.preflight.report import BEYOND, Gathered, build_report, reason_of
from raybench.preflight.writing import write_report

GATHER_TASK = "Gather everything in one round trip"
TEST_TASK = "Test the nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTestOptions:
    """Which active tests hosts do. None leaves their time to the inventory (60 s at level 2, 600 at level 3).

    ``sizes`` are those of ``raybench.preflight.node_tests.plan``, for machines that are small.
    """

    level: int = 1
    seconds: float | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, Any]:
        """Variables of the role preflight."""
        given = {} if self.seconds is None else {"preflight_test_seconds": self.seconds}
        return {"preflight_level": self.level, **given, **({"preflight_test_sizes": self.sizes} if self.sizes else {})}

    def host_limit_seconds(self, only: Sequence[str], skip: Sequence[str]) -> float:
        """What a host's tests may take. Raises UsageError for a level, time or size that cannot be."""
        try:
            plan = plan_for(
                self.level,
                only=only,
                skip=skip,
                seconds=self.seconds or 0.0,
                sizes=self.sizes,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
        return host_limit_seconds(plan) if plan["tests"] else 0.0


LOOK_ONLY = NodeTestOptions()


@dataclass(slots=True)
class _Progress:
    """What came back so far, for the live table and for a report when the playbook's own is not written."""

    on_host: Callable[[Gathered], None] | None
    on_tested: Callable[[str, NodeTests], None] | None = None
    gathered: dict[str, Gathered] = field(default_factory=dict)
    reached: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    tested: dict[str, NodeTests] = field(default_factory=dict)
    not_tried_again: set[str] = field(default_factory=set)  # hosts that reached not all ports at once

    def take(self, event: PlaybookEvent) -> None:
        if event.kind not in {"ok", "failed", "unreachable"} or not event.host:
            return
        if attempts := attempts_of(event.result.get("reached")):  # while it was probed, or when that was tried again
            self.reached[event.host] = attempts
            self.not_tried_again.discard(event.host)
        if event.task.endswith(GATHER_TASK):
            self.gathered[event.host] = one = gathered_from(event)
            if event.result.get("reached_all") is False:
                self.not_tried_again.add(event.host)
            if self.on_host is not None:
                self.on_host(one)
        elif event.task.endswith(TEST_TASK):
            facts = self.gathered[event.host].facts if event.host in self.gathered else None
            self.tested[event.host] = tested = tested_by(event, boot_id_of(facts or {}))
            if self.on_tested is not None:
                self.on_tested(event.host, tested)


def tested_by(event: PlaybookEvent, machine: str) -> NodeTests:
    """What a host's tests gave, from the event of their task."""
    packed = event.result.get("tested")
    if packed:
        return read_answer(str(packed), machine)
    return NodeTests(problem=reason_of(message_of(event.result)), machine=machine)


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
    tests: NodeTestOptions = LOOK_ONLY,
    forks: int | None = None,
    timeout_seconds: float = 600.0,
    host_timeout_seconds: float | None = None,
    on_host: Callable[[Gathered], None] | None = None,
    on_tested: Callable[[str, NodeTests], None] | None = None,
    stop: threading.Event | None = None,
) -> PreflightReport:
    """Probe, test and judge all hosts of an inventory. ``expectations`` are variables of the role.

    ``begin`` is called with the inventory before a host is contacted, and returns the folder of the report.
    ``host_timeout_seconds`` is what one host may take for its probe, its login included; None leaves it to the
    inventory (60). ``timeout_seconds`` is for all, without what the ``tests`` may take.
    A run that was stopped or took too long gives a report of what it has, its hosts without an answer included. Raises
    UsageError on an unknown check or a bad inventory, and IncompleteRunError where the playbook broke before any host
    was probed.
    """
    check_names(only, skip)
    extra_seconds = tests.host_limit_seconds(only, skip)
    progress = _Progress(on_host=on_host, on_tested=on_tested)
    variables = {**(expectations or {}), "preflight_only": list(only), "preflight_skip": list(skip), **tests.variables}
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
        timeout_seconds=timeout_seconds + extra_seconds,
        on_event=progress.take,
        stop=stop,
    )
    if not begun:
        raise IncompleteRunError("stopped before the inventory was read; no host was contacted")
    ((inventory, output_dir),) = begun
    return _judged(inventory, progress, outcome, only, skip, level=tests.level, output_dir=output_dir)


def check_names(only: Sequence[str], skip: Sequence[str]) -> None:
    """Refuse what is no check and no concern, before anything is started. Raises UsageError."""
    try:
        selected([name for name in only if name not in BEYOND], [name for name in skip if name not in BEYOND])
    except ValueError as error:
        raise UsageError(str(error)) from error


def _judged(
    inventory: Inventory,
    progress: _Progress,
    outcome: PlaybookOutcome,
    only: Sequence[str],
    skip: Sequence[str],
    *,
    level: int,
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
            not_tested = NodeTests(problem=reason)
            tested = progress.tested.get(name, not_tested) if level > 1 else None
            one = replace(
                one,
                reached=progress.reached.get(name, ()),
                tested=tested,
                not_tried_again=name in progress.not_tried_again,
            )
        hosts.append(one)
    report = build_report(hosts, only=only, skip=skip, level=level, finished_at=time.time())
    try:
        write_report(report, output_dir)
    except OSError as error:
        raise IncompleteRunError(f"the report cannot be written to {output_dir}: {error.strerror or error}") from error
    return report
