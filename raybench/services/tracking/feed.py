"""The stream of a run's events to its trackers. One thread reads the events, so that the run waits for nothing."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from diagnostics.agent.messages import Reading
from raybench.benchmarks.events import decode
from raybench.config import RunConfig
from raybench.documents.run.result import RunResult
from raybench.documents.run.tracking import TrackedRun
from raybench.execution.live.figures import LiveFigures, numbers_of, slug
from raybench.execution.live.node_figures import NodeFigures
from raybench.execution.record import RunRecord
from raybench.run_folder import RunFolder
from raybench.studies.folder import STUDY_VARIABLE
from raybench.trackers.base import Begun, Concluded, Figures, Remark, flat
from raybench.trackers.handle import TrackerProcess
from raybench.trackers.registry import names_of

MOST_SECONDS = 60.0  # at the end of a run, for what trackers have not handed over by then
INTERRUPTED_SECONDS = 15.0
_FILES = ("result.json", "summary.json", "diagnosis.json", "result.csv", "report.html")
_MOST_HEADLINES = 300
_MOST_WARNINGS = 500
_DRAIN_SECONDS = 10.0


class RunFeed:
    """The trackers of one run, as its supervisor tells them."""

    def __init__(self, config: RunConfig, folder: RunFolder, run_id: str) -> None:
        self._config, self._folder, self._run_id = config, folder, run_id
        self._processes = [TrackerProcess(name) for name in names_of(config.track)]
        self._events: queue.SimpleQueue[tuple[int, bytes] | tuple[str, Reading] | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._figures: LiveFigures | None = None
        self._nodes: NodeFigures | None = None
        self._begun, self._warnings = False, 0
        self._problem = ""

    def planned(self, record: RunRecord) -> None:
        """Begin: by now it is known what is measured, and where."""
        planned = record.need()
        plan = planned.plan
        self._figures = LiveFigures(specs=planned.specs, world_size=plan.world_size)
        self._nodes = NodeFigures(started=record.clock)
        self._begin(
            {
                "cluster.nodes": str(len(plan.nodes)),
                "cluster.world_size": str(plan.world_size),
                "cluster.backend": plan.backend,
                "cluster.emulated": str(planned.emulated),
            }
        )
        self._reader = threading.Thread(target=self._read, daemon=True, name="tracking")
        self._reader.start()

    def heard(self, launch: int, data: bytes) -> None:
        """An event, to be read by our own thread."""
        self._events.put((launch, data))

    def sampled(self, machine: str, reading: Reading) -> None:
        """What the agent of a machine read, likewise."""
        self._events.put((machine, reading))

    def warned(self, line: str) -> None:
        """A warning, as it stands on the terminal."""
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            remark = Remark(number=self._warnings, text=line, at=time.time())
            for one in self._processes:
                one.send(remark)

    def complaints(self) -> Iterator[str]:
        """What went wrong with a tracker, once each."""
        for one in self._processes:
            text = one.complaint()
            if text is not None:
                yield text

    def outcomes(self) -> tuple[TrackedRun, ...]:
        """What became of the run in each tracker, by now."""
        return tuple(one.outcome() for one in self._processes)

    def conclude(
        self, result: RunResult, stopping: Callable[[], bool], *, interrupted: bool = False
    ) -> tuple[TrackedRun, ...]:
        """Tell the verdict, hand over the documents, and wait for the trackers within the limit.

        Of a run that was ``interrupted`` the limit is short; none waits longer than until ``stopping`` is true.
        """
        if not self._begun:
            self._begin({})
        self._events.put(None)
        if self._reader is not None:
            self._reader.join(_DRAIN_SECONDS)
        files = (self._folder.path.absolute() / name for name in _FILES)
        concluded = Concluded(
            verdict=result.conclusion.verdict,
            reason=result.conclusion.reason,
            exit_code=result.exit_code,
            figures=_headlines(result),
            files=tuple(str(path) for path in files if path.exists()),
        )
        for one in self._processes:
            one.send(concluded)
        self._end(time.monotonic() + (INTERRUPTED_SECONDS if interrupted else MOST_SECONDS), stopping)
        return self.outcomes()

    def close(self) -> None:
        """End what still runs: a run that was refused, or broke off, has no verdict."""
        self._end(time.monotonic(), lambda: True)

    def _end(self, deadline: float, stopping: Callable[[], bool]) -> None:
        for one in self._processes:
            one.finish(deadline, stopping)

    def _begin(self, cluster: dict[str, str]) -> None:
        self._begun = True
        begun = Begun(
            run_id=self._run_id,
            command=_command_of(self._config),
            folder=str(self._folder.path.absolute()),
            group=os.environ.get(STUDY_VARIABLE, ""),
            settings=flat(self._config.to_json()) | cluster,
        )
        for one in self._processes:
            one.begin(begun)

    def _read(self) -> None:
        try:
            while (item := self._events.get()) is not None:
                for figures in self._figures_of(*item):
                    for one in self._processes:
                        one.send(figures)
        except Exception as error:  # noqa: BLE001 - the run is not to hear of it, but whoever reads the report is
            for one in self._processes:
                one.fail(f"figures could not be made of the run's events ({type(error).__name__}: {error})")

    def _figures_of(self, source: int | str, said: bytes | Reading) -> Iterator[Figures]:
        """Of an event of a launch, or of what the agent of a machine read."""
        assert self._figures is not None
        assert self._nodes is not None
        if isinstance(source, int) and isinstance(said, bytes):
            yield from self._figures.take(source, decode(said, self._figures.specs), time.time())
        elif isinstance(source, str) and isinstance(said, Reading):
            figures = self._nodes.take(source, said, time.monotonic(), time.time())
            if figures is not None:
                yield figures


def _command_of(config: RunConfig) -> str:
    kinds: Iterable[str] = config.options
    names = {"training": "train", "memory": "memory", "checkpoint": "checkpoint"}
    return next((names[kind] for kind in kinds if kind in names), "run")


def _headlines(result: RunResult) -> dict[str, float]:
    """Of each benchmark its points, of messages the largest alone: what a table of runs is sorted by."""
    found: dict[str, float] = {}
    for benchmark in result.benchmarks:
        name = slug(f"{benchmark.name}.{benchmark.variation}") if benchmark.variation else slug(benchmark.name)
        points = [one for one in benchmark.points if one.source_rank is None]
        rows = [(name, one.row()) for one in sorted(points, key=lambda one: one.message_bytes)[-1:]]
        several = len(benchmark.workload) > 1
        rows += [(f"{name}/{slug(one.label)}" if several else name, one.row()) for one in benchmark.workload]
        found |= {f"{place}/{key}": value for place, row in rows for key, value in numbers_of(row).items()}
    return dict(list(found.items())[:_MOST_HEADLINES])
