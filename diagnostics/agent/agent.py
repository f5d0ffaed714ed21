"""The agent itself: gathers what its sources read, judges it, and hands every message on."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue

from diagnostics.agent.judging import Judge, Told
from diagnostics.agent.messages import Clock, Event, Message, Reading, Source, Warned, Watch
from diagnostics.agent.options import AgentOptions
from diagnostics.agent.sampler import SILENT_SECONDS, Answer, Sampler
from diagnostics.agent.sources import SourceKind, Surroundings, sources_of
from diagnostics.agent.sources.cpu_limits import CpuLimits
from diagnostics.agent.sources.processes import Processes
from diagnostics.agent.window import MAX_SERIES, Window
from diagnostics.findings import Finding
from diagnostics.signal_event import SignalEvent

CLOCK_SECONDS = 60.0
MAX_LOGS = 256
MAX_QUOTED_CHARACTERS = 1000
_SETTLE_SECONDS = 0.25  # after a tick, in which most sources have answered


class Agent:
    """Samples one machine until ``stop_asked`` is set. ``emit`` must not block; ``dropped`` counts what it lost."""

    def __init__(
        self,
        options: AgentOptions,
        emit: Callable[[Message], None],
        stop_asked: threading.Event | None = None,
        dropped: Callable[[], int] = lambda: 0,
    ) -> None:
        self.options, self._emit = options, emit
        self.window = Window(host=options.host, interval_seconds=options.interval_seconds)
        self._processes = Processes(options.proc, options.pids, CpuLimits(options.proc, options.sys))
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._dropped = dropped
        self._logs = list(options.logs)
        given = Surroundings(options=options, processes=self._processes, logs=self._logs)
        self._samplers = {name: self._sampler(name, kind, given) for name, kind in sources_of(given).items()}
        self._judge, self._told = Judge(interval_seconds=options.interval_seconds), Told()
        self._available: dict[str, str | None] = {}  # by source: why not, None where it is
        self._stop_asked = stop_asked or SignalEvent()

    def watch(self, watch: Watch) -> None:
        """Take up processes of ranks, and logs."""
        self._processes.watch(watch.pids)
        self._logs += [path for path in watch.logs if path not in self._logs][: MAX_LOGS - len(self._logs)]

    def stop(self) -> None:
        """Have ``run`` end; may be called from anywhere, signal handlers too."""
        self._stop_asked.set()

    def run(self, rounds: int | None = None) -> None:
        """Sample until stopped, or for a number of rounds."""
        for sampler in self._samplers.values():
            sampler.start()
        interval, clock_due, done = self.options.interval_seconds, 0.0, 0
        while not self._stop_asked.is_set() and (rounds is None or done < rounds):
            now = time.monotonic()
            if now >= clock_due:
                self._emit(self._clock())
                clock_due = now + CLOCK_SECONDS
                self.window.forget_vanished()
            self._stop_asked.wait(_until_tick(now, interval))
            self._take_answers()
            self._look_for_silence(time.monotonic())
            self._warn()
            done += 1
        for sampler in self._samplers.values():
            sampler.stop()

    def _sampler(self, name: str, kind: SourceKind, given: Surroundings) -> Sampler:
        interval = max(self.options.interval_seconds * kind.intervals, kind.least_seconds)
        return Sampler(name, partial(kind.open, given), self._answers, interval)

    def _clock(self) -> Clock:
        return Clock(
            wall_seconds=time.time(),
            monotonic_seconds=time.monotonic(),
            host=self.options.host,
            interval_seconds=self.options.interval_seconds,
        )

    def _take_answers(self) -> None:
        while True:
            try:
                answer = self._answers.get_nowait()
            except Empty:
                return
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        self._say(answer.source, answer.monotonic_seconds, answer.reason or None)
        if answer.sample is None:
            return
        sample, seconds = answer.sample, answer.monotonic_seconds
        self.window.pids = frozenset(self._processes.pids)
        self.window.pids_ever |= self.window.pids
        values = sample.values
        if answer.source == "host":
            values = {**values, "agent/self/dropped_messages": self._dropped()}
        self.window.add(answer.source, seconds, values)
        if self.window.series_left_out:
            self._say("series", seconds, f"there are more than {MAX_SERIES}; the rest are not judged")
        if self.window.unknown_series:
            self._say(
                "names", seconds, f"{self.window.unknown_series!r} is not the name of a series, and is not judged"
            )
        if values:
            self._emit(Reading(monotonic_seconds=seconds, source=answer.source, values=values))
        for one in sample.events:
            event = Event(monotonic_seconds=seconds, source=answer.source, device=one.device, text=one.text)
            self.window.events.append(event)
            self._emit(event)
        for finding in sample.findings:
            self._emit(_warned_of_log(finding, seconds))

    def _look_for_silence(self, now: float) -> None:
        for name, sampler in self._samplers.items():
            if sampler.silent_seconds(now) >= SILENT_SECONDS:
                self._say(
                    name, now, f"it has not answered for {SILENT_SECONDS:.0f} s; what it reads is missing meanwhile"
                )

    def _say(self, source: str, seconds: float, reason: str | None) -> None:
        if source in self._available and self._available[source] == reason:
            return
        self._available[source] = reason
        self._emit(Source(monotonic_seconds=seconds, name=source, available=reason is None, reason=reason or ""))

    def _warn(self) -> None:
        for one in self._told.fresh(self._judge.observed(self.window), self.window.now):
            self._emit(
                Warned(
                    monotonic_seconds=self.window.now,
                    since_seconds=one.since_seconds,
                    finding=one.finding,
                    series=one.series,
                    line=one.line,
                )
            )
        for rule, reason in (self._judge.broken | self._judge.blind).items():
            self._say(f"rule {rule}", self.window.now, reason)


def _until_tick(now: float, interval: float) -> float:
    """Seconds until the sources have answered the next tick."""
    return interval - now % interval + min(_SETTLE_SECONDS, interval / 4)


def _warned_of_log(finding: Finding, seconds: float) -> Warned:
    """Of a finding what fits into a message; the whole of it is in the diagnosis of the log."""
    evidence = tuple(replace(one, text=one.text[:MAX_QUOTED_CHARACTERS]) for one in finding.evidence)
    short = replace(finding, evidence=evidence, victims=())
    line = evidence[0].text if evidence else ""
    return Warned(monotonic_seconds=seconds, since_seconds=seconds, finding=short, line=line)
