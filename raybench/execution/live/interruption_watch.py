"""Tells of ranks that are stopped again and again, while the run goes on, and when that is over."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diagnostics.findings import Finding
from raybench.benchmarks.events import RankMark
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.live.interruptions import Interrupted, Interruptions
from raybench.execution.live.stood_still import stood_still
from raybench.execution.live.warning import LiveWarning
from raybench.execution.placement import PlacementPlan
from raybench.execution.watcher import Watcher

_OF_TRAINING, _OF_OTHERS = "straggler", "slow-rank"  # as a slow rank is called by its own work
_BY_WHOM = "a signal or a debugger stops its process"


@dataclass(kw_only=True)
class InterruptionWatch:
    """Of one launch. ``started``: the run's start on the clock of what it is given."""

    plan: PlacementPlan
    specs: Sequence[BenchmarkSpec]
    watcher: Watcher
    started: float
    _interruptions: Interruptions = field(default_factory=Interruptions)
    _rules: dict[int, str] = field(default_factory=dict)  # by rank, as it was told

    def take(self, marks: Sequence[RankMark], now: float) -> None:
        """The marks of a node's ranks have come."""
        benchmarks = {one.rank: one.position.benchmark for one in marks}
        for one in self._interruptions.take(marks, now):
            if one.over:
                self.watcher.found(self._finding(one, now - self.started))
            else:
                self._rules[one.rank] = self._rule(benchmarks[one.rank])
            self.watcher.warned(self._warning(one, now))

    def end(self) -> None:
        """Keep what is not over."""
        for one in self._interruptions.left():
            self.watcher.found(self._finding(one, None))

    def _rule(self, benchmark: int) -> str:
        kind = self.specs[benchmark].kind if benchmark < len(self.specs) else ""
        return _OF_TRAINING if kind == "training" else _OF_OTHERS

    def _warning(self, one: Interrupted, now: float) -> LiveWarning:
        node, since = self.plan.node_of(one.rank).name, one.since - self.started
        text = f"{self._text(one)}, and all ranks wait for it, since {since:.0f} s after the run's start"
        return LiveWarning(
            at_seconds=now - self.started,
            since_seconds=since,
            rule=self._rules[one.rank],
            severity="warning",
            text=f"rank {one.rank} ({node}) is no longer stopped again and again" if one.over else text,
            ranks=(one.rank,),
            hosts=(node,),
            over=one.over,
        )

    def _text(self, one: Interrupted) -> str:
        who = f"rank {one.rank} ({self.plan.node_of(one.rank).name})"
        return f"{who} stands still again and again: {_BY_WHOM} (in {one.stopped} of {one.looks} looks)"

    def _finding(self, one: Interrupted, until: float | None) -> Finding:
        summary = self._text(one).replace("stands still", "stood still", 1)
        return stood_still(one.rank, self.plan.node_of(one.rank).name, summary, one.since - self.started, until)
