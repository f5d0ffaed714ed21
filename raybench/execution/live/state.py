"""How the run stands, as the command hears it, for whoever looks from another terminal (``raybench top``)."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from raybench.benchmarks.events import RankMark
from raybench.documents.live_run import WRITING, LiveMachine, LiveRank, LiveRemarkLine, LiveRun
from raybench.execution.incidents.incident import step_text
from raybench.execution.live.agents import HeardAgent
from raybench.execution.live.warning import LiveWarning
from raybench.execution.record import RunRecord

_MOST_WARNINGS = 20
_PERIOD_SECONDS = 1.0
_LEAST_SHARE = 20.0  # of the time between two, what one takes


@dataclass(kw_only=True)
class LiveState:
    """What is known now."""

    _marks: dict[int, tuple[RankMark, float]] = field(default_factory=dict)  # by rank, with since when
    _warnings: list[LiveRemarkLine] = field(default_factory=list)
    _title: str = ""
    _benchmark: str = ""
    _progress: str = ""
    _done: int = -1
    _total: int = 0
    _due: float = 0.0
    _period: float = _PERIOD_SECONDS

    def marked(self, marks: Iterable[RankMark]) -> None:
        """Ranks of a node were seen."""
        now = time.monotonic()
        for mark in marks:
            before = self._marks.get(mark.rank)
            self._marks[mark.rank] = mark, now if before is None or before[0].moves != mark.moves else before[1]

    def warned(self, warning: LiveWarning) -> None:
        """A warning was told."""
        self._warnings.append(LiveRemarkLine(at_seconds=warning.at_seconds, text=warning.line))
        del self._warnings[:-_MOST_WARNINGS]

    def shown(self, method: str, arguments: tuple[Any, ...]) -> None:
        """A call of the display was made."""
        match method, arguments:
            case "start", (total, title):
                self._total, self._title, self._done = total, title, -1
            case "step", (benchmark, detail, _):
                self._benchmark, self._progress = f"{benchmark} {detail}".rstrip(), ""
                self._done += 1
            case "progress", (done, total, text, _):
                self._progress = f"step {done} of {total}, {text}"

    def page(self, record: RunRecord, phase: str, agents: Iterable[HeardAgent]) -> bytes | None:
        """The document, where it is time for one."""
        began = time.monotonic()
        if began < self._due and phase != WRITING:
            return None
        content = msgspec.json.encode(self._run(record, phase, agents, began))
        self._period = max(_PERIOD_SECONDS, _LEAST_SHARE * (time.monotonic() - began))
        self._due = began + self._period
        return content

    def _run(self, record: RunRecord, phase: str, agents: Iterable[HeardAgent], now: float) -> LiveRun:
        return LiveRun(
            run_id=record.run_id,
            pid=os.getpid(),
            written_at=time.time(),
            elapsed_seconds=record.elapsed_seconds,
            period_seconds=self._period,
            phase=phase,
            title=self._title,
            benchmark=self._benchmark,
            progress=self._progress,
            done=max(self._done, 0),
            total=self._total,
            ranks=tuple(self._rank(record, mark, now - since) for _, (mark, since) in sorted(self._marks.items())),
            machines=tuple(
                LiveMachine(name=one.machine, figures=one.figures(now), silent_seconds=one.silent_seconds(now))
                for one in agents
            ),
            warnings=tuple(self._warnings),
        )

    def _rank(self, record: RunRecord, mark: RankMark, still: float) -> LiveRank:
        planned = record.need()
        return LiveRank(
            rank=mark.rank,
            node=planned.plan.node_of(mark.rank).name,
            state=mark.state,
            where=step_text(mark.position, planned.specs, planned.plan.world_size),
            still_seconds=round(still, 1),
        )
