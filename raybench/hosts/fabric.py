"""A fabric test through the playbook ``fabric.yml``: progress as rounds end, the report, and a clean stop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.documents.fabric import FabricReport
from raybench.documents.part import read_as
from raybench.documents.reading import DocumentError
from raybench.errors import IncompleteRunError
from raybench.hosts.inventory import Inventory
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome, run_playbook
from raybench.processes.scratch_folder import SHORT_PREFIX, passing_scratch_folder

_STOP_SECONDS = 90.0
_PLAN_TASKS = ("Plan the rounds", "Plan a round that tells what is at fault")
_FETCH_TASK = "Fetch what was measured"
_SLACK_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a test is. ``done`` of ``total`` rounds of a ``phase`` (scan, confirm) are over on all hosts."""

    phase: str
    done: int
    total: int
    hosts: int


@dataclass(slots=True)
class _Follower:
    """Rounds and hosts, from the playbook's events."""

    on_progress: Callable[[Progress], None]
    total: int = 0
    first: int = 0
    phase: str = "scan"
    hosts: int = 0
    reached: dict[str, int] = field(default_factory=dict)

    def take(self, event: PlaybookEvent) -> None:
        name = event.task.rpartition(" : ")[2]
        if name in _PLAN_TASKS and event.kind == "ok" and event.result.get("rounds"):
            self.first, self.total = int(event.result["first"]), int(event.result["rounds"])
            self.hosts, self.reached = len(event.result.get("work") or {}), {}
            self.phase = "scan" if name == _PLAN_TASKS[0] else "confirm"
            self.on_progress(Progress(phase=self.phase, done=0, total=self.total, hosts=self.hosts))
        if name == _FETCH_TASK and event.kind == "item_ok" and "rounds_done" in event.result:
            done = str(event.result["rounds_done"])
            self.reached[event.host] = self.total if done == "all" else max(0, int(done) - self.first + 1)
            everyone = len(self.reached) >= self.hosts
            over = min(self.reached.values()) if everyone else 0
            self.on_progress(Progress(phase=self.phase, done=over, total=self.total, hosts=self.hosts))


def run_fabric(
    inventory: Inventory,
    settings: Mapping[str, Any],
    *,
    run_id: str,
    group: str = "all",
    limit: str | None = None,
    forks: int | None = None,
    timeout_seconds: float = 6 * 3600.0,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> FabricReport:
    """Measure, and return the report. ``settings`` have the role's names without ``fabric_``.

    When the run is stopped, or takes too long, the agents on the hosts are ended before this raises
    IncompleteRunError; where they cannot be reached they end by themselves within their lease.
    """
    variables = {f"fabric_{name}": value for name, value in settings.items() if value is not None}
    variables |= {"fabric_run_id": run_id, "raybench_hosts": group}
    follower = _Follower(on_progress)
    with passing_scratch_folder(prefix=SHORT_PREFIX) as folder:
        path = folder / "fabric.json"
        outcome = run_playbook(
            "fabric",
            inventory=inventory,
            variables=variables | {"fabric_output": str(path)},
            limit=None if limit is None else f"{limit},localhost",
            forks=forks,
            timeout_seconds=timeout_seconds + _SLACK_SECONDS,
            on_event=follower.take,
        )
        if outcome.status in {"canceled", "timeout"} or outcome.was_killed:
            _stop(inventory, variables, limit, forks)
            why = "was stopped" if outcome.status == "canceled" else f"was not done within {timeout_seconds:.0f} s"
            why = f"was cut short: {outcome.killed}" if outcome.was_killed else why
            raise IncompleteRunError(f"the fabric test {why}; its processes on the hosts were ended")
        return _read(path, outcome)


def _stop(inventory: Inventory, variables: Mapping[str, Any], limit: str | None, forks: int | None) -> None:
    run_playbook(
        "fabric",
        inventory=inventory,
        variables=dict(variables) | {"fabric_state": "stopped"},
        limit=None if limit is None else f"{limit},localhost",
        forks=forks,
        timeout_seconds=_STOP_SECONDS,
    )


def _read(path: Path, outcome: PlaybookOutcome) -> FabricReport:
    try:
        return read_as(FabricReport, path, "the report")
    except DocumentError as error:
        failures = [f"{host.name}: {failure.message}" for host in outcome.hosts for failure in host.failures]
        reason = "; ".join(failures[:5]) or outcome.error or outcome.output_tail[-500:]
        raise IncompleteRunError(f"the fabric test ended without a report: {reason}") from error
