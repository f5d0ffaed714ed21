"""Preflight again and again, and nodes drained and resumed once it has said the same several times in a row."""

import contextlib
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from raybench.documents.node_actions import NodeActions
from raybench.documents.preflight import PreflightReport
from raybench.documents.preflight_nodes import nodes_in_short
from raybench.errors import IncompleteRunError, MissingLibraryError, UsageError
from raybench.nodes.history import History, HostHistory, with_since
from raybench.nodes.hysteresis import Hysteresis, damped
from raybench.nodes.intent import Policy, limit_of
from raybench.processes.interrupt import Interrupt
from raybench.services.nodes.files import check_prometheus_name, write_prometheus
from raybench.services.nodes.judged import ActOptions
from raybench.services.nodes.past import check_history
from raybench.services.nodes.program import require
from raybench.services.preflight import FinishedPreflight, PreflightOptions, preflight

__all__ = ["Hysteresis", "Scheduler", "Watch", "WatchOptions", "watch"]

Scheduler = Literal["slurm", "kubernetes", ""]
_LEAST_SECONDS = 1.0  # the history tells reports apart by the second


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What is looked at, how often in seconds from begin to begin, and who is told.

    ``rounds`` ends the watch; None goes on. The folders of the last ``keep`` rounds are kept. ``history`` None is a
    file beside them.
    """

    preflight: PreflightOptions
    every_seconds: float = 300.0
    rounds: int | None = None
    keep: int = 10
    hysteresis: Hysteresis = field(default_factory=Hysteresis)
    act: ActOptions = field(default_factory=ActOptions)
    scheduler: Scheduler = ""
    prometheus: Path | None = None
    history: Path | None = None

    @property
    def history_path(self) -> Path:
        """Where the history is kept."""
        return self.history or Path(self.preflight.output_dir, "nodes.sqlite")


class Watch:
    """A watch and what came of it; ``say`` is given lines of what happened, ``look`` is how hosts are looked at."""

    def __init__(
        self,
        options: WatchOptions,
        *,
        say: Callable[[str], None],
        look: Callable[[PreflightOptions], FinishedPreflight] = preflight,
    ) -> None:
        self._options, self._say, self._look = options, say, look
        self._folders: deque[Path] = deque()
        self._states: dict[str, str] = {}
        self.exit_code = 3  # until something was seen
        self.rounds = 0

    def run(self, interrupt: Interrupt) -> int:
        """Go on until Ctrl-C or the last round, and return the exit code of the last one.

        A round that cannot be done is said, and the next one comes. Raises UsageError where the first cannot be.
        """
        with contextlib.suppress(KeyboardInterrupt):
            while self._options.rounds is None or self.rounds < self._options.rounds:
                begun = time.monotonic()
                self._round(interrupt)
                self.rounds += 1
                if self.rounds == self._options.rounds or interrupt.event.is_set():
                    break
                interrupt.event.wait(max(_LEAST_SECONDS, begun + self._options.every_seconds - time.monotonic()))
        return self.exit_code

    def _round(self, interrupt: Interrupt) -> None:
        try:
            finished = self._look(self._options.preflight)
            if interrupt.event.is_set():
                return  # hosts that were not asked any more are unknown for no fault of theirs
            with interrupt.deferred():  # what is begun with nodes and files is brought to its end
                self._act(finished)
        except UsageError as error:
            if not self.rounds:
                raise
            self._failed(error)
        except (IncompleteRunError, MissingLibraryError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Nothing is known of any node; nothing is done."""
        self.exit_code = 3
        self._say(f"round {self.rounds + 1}: {error}; no node is changed")

    def _act(self, finished: FinishedPreflight) -> None:
        report, options = finished.report, self._options
        self._tidy(finished)
        with History(options.history_path) as history:
            known = history.record(report)
        self._tell(report, known)
        self.exit_code = report.exit_code
        for receiver in (self._tell_scheduler, self._tell_prometheus):
            try:
                receiver(report, known)
            except (IncompleteRunError, UsageError) as error:  # one that is away is no reason not to tell the other
                self.exit_code = 3
                self._say(f"  {error}")

    def _tell_scheduler(self, report: PreflightReport, known: Mapping[str, HostHistory]) -> None:
        if self._options.scheduler:
            self._tell_actions(self._scheduled(report, known))

    def _tell_prometheus(self, report: PreflightReport, known: Mapping[str, HostHistory]) -> None:
        if self._options.prometheus is not None:
            write_prometheus(with_since(report, known), self._options.prometheus)

    def _scheduled(self, report: PreflightReport, known: Mapping[str, HostHistory]) -> NodeActions:
        options = self._options
        policy = Policy(degraded="resume" if options.act.resume_degraded else "none")
        streaks = {name: one.streak for name, one in known.items()}
        intents = damped(report, streaks, options.hysteresis, policy)
        if options.scheduler == "slurm":
            from raybench.services.nodes.slurm import act
        else:
            from raybench.services.nodes.kubernetes import act
        return act(report, options.act, intents)

    def _tell(self, report: PreflightReport, known: Mapping[str, HostHistory]) -> None:
        self._say(f"{report.finished_at} round {self.rounds + 1}: {nodes_in_short(report)}")
        for host in report.hosts:
            if host.host in known and known[host.host].rebooted:
                self._say(f"  {host.host}: it rebooted: its boot id is another one than when it last answered"[:300])
            if host.node is not None:
                before, now = self._states.get(host.host), host.node.state
                if before not in {None, now} or (before is None and now != "healthy"):
                    why = f": {host.node.reasons[0].check}: {host.node.reasons[0].seen}" if host.node.reasons else ""
                    since = known[host.host].since if host.host in known else report.finished_at
                    self._say(f"  {host.host}: {f'{before} -> ' if before else ''}{now} since {since}{why}"[:300])
                self._states[host.host] = now

    def _tell_actions(self, actions: NodeActions) -> None:
        verb = "" if actions.applied else "would be "
        for one in actions.actions:
            if one.step != "none":
                told = f"failed: {one.error}" if one.done is False else f"{verb}{one.step}ed".replace("eed", "ed")
                self._say(f"  {one.node}: {told}: {one.why}"[:300])
        if actions.refused:
            self._say(f"  nothing is changed: {actions.refused}")
        if actions.failed:
            self.exit_code = 3

    def _tidy(self, finished: FinishedPreflight) -> None:
        """Remove the folders of older rounds, of this watch alone."""
        self._folders += {path.parent for _, path in finished.files}
        while len(self._folders) > self._options.keep:
            shutil.rmtree(self._folders.popleft(), ignore_errors=True)


def watch(options: WatchOptions, *, say: Callable[[str], None]) -> int:
    """Watch until Ctrl-C. Returns the exit code of the last round. Raises UsageError, before a host is contacted."""
    check_history(options.history_path)
    limit_of(options.act.most_drained, 1)
    if options.prometheus is not None:
        check_prometheus_name(options.prometheus)
    if options.act.apply and options.scheduler:
        require({"slurm": "scontrol", "kubernetes": "kubectl"}[options.scheduler], "it tells the scheduler")
    with Interrupt().installed() as interrupt:
        return Watch(options, say=say).run(interrupt)
