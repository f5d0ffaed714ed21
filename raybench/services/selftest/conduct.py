"""The checks one after another: the machine is read first, and a run done when the first check needs it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from raybench.documents.selftest import DriverReading, SelftestCheck, TorchReading
from raybench.errors import RaybenchError
from raybench.services.selftest.check import Check, Outcome, Readings, RunReading, failed, not_run, unknown, unmet_need
from raybench.services.selftest.reading import read_machine
from raybench.services.selftest.runs import run_config

if TYPE_CHECKING:
    from raybench.processes.interrupt import Interrupt

_STOPPED = "stopped by the user"
_NOT_READ = Readings(driver=DriverReading(problem=_STOPPED), torch=TorchReading(problem=_STOPPED))


class SelftestProgress(Protocol):
    """Where a person sees how far the selftest is."""

    def begin(self, check: Check) -> None:
        """Say which check begins."""

    def step(self, text: str) -> None:
        """Say what its run does now."""

    def end(self, check: SelftestCheck) -> None:
        """Say what it gave."""


@dataclass(slots=True, kw_only=True)
class Conduct:
    """One selftest. ``stopped``: the user ended it; ``backend``: of its runs, None where there was none."""

    folder: Path
    gpu_asked: bool
    quick: bool
    interrupt: "Interrupt"
    progress: SelftestProgress
    readings: Readings = _NOT_READ
    backend: str | None = None
    stopped: bool = False
    _is_read: bool = field(default=False, init=False)

    def run(self, checks: Sequence[Check]) -> tuple[SelftestCheck, ...]:
        """Every check, in order. What is left when the user stops it is not run."""
        return tuple(self._one(check) for check in checks)

    def _one(self, check: Check) -> SelftestCheck:
        try:
            self.progress.begin(check)
            outcome = not_run(_STOPPED) if self.stopped else self._outcome(check)
        except KeyboardInterrupt:
            self.stopped, outcome = True, not_run(_STOPPED)
        run = self.readings.runs.get(check.run)
        row = SelftestCheck(
            id=check.id,
            title=check.title,
            proves=check.proves,
            needs=check.needs,
            limit_seconds=check.limit_seconds,
            result=outcome.result,
            seen=outcome.seen,
            next_step=outcome.next_step,
            figures=outcome.figures,
            seconds=run.seconds if run and outcome.result != "not-run" else None,
            run=str(run.folder.relative_to(self.folder)) if run and run.folder else None,
        )
        self.progress.end(row)
        return row

    def _outcome(self, check: Check) -> Outcome:
        if not self._is_read:
            self.readings, self._is_read = read_machine(), True
        missing = next(filter(None, (unmet_need(need, self.readings) for need in check.needs)), None)
        if missing is not None:
            return not_run(missing)
        if self.quick and not check.quick:
            return not_run("left out by --quick")
        if not check.run:
            return _judged(check, self.readings)
        if self.gpu_asked and not self.readings.usable_gpus:
            return not_run("--gpu: there is no GPU to prove it on")
        return self._of_run(check)

    def _of_run(self, check: Check) -> Outcome:
        if check.run not in self.readings.runs:
            self.readings = replace(self.readings, runs={**self.readings.runs, check.run: self._do(check.run)})
        self.stopped = self.stopped or self.interrupt.received > 0
        run = self.readings.runs[check.run]
        if run.result is None:
            return failed(run.problem, "raybench run --nodes 1 --address local --full shows more")
        outcome = _judged(check, self.readings)
        cut = self.stopped and run.result.conclusion.verdict == "incomplete"
        return not_run(_STOPPED) if cut and outcome.result != "passed" else outcome

    def _do(self, name: str) -> RunReading:
        """Do a run; nothing of it is shown but what it does now."""
        from raybench.services.run import run

        gpus = self.readings.usable_gpus
        config = run_config(name, gpus=gpus, output_dir=self.folder / name, quick=self.quick)
        self.backend = config.backend
        began = time.monotonic()
        try:
            done = run(config, interrupt=self.interrupt, display=lambda: _RunDisplay(shown=self.progress))
        except RaybenchError as error:
            return RunReading(problem=str(error), seconds=time.monotonic() - began)
        seconds = time.monotonic() - began
        return RunReading(result=done.result, diagnosis=done.diagnosis, folder=done.folder, seconds=seconds)


def _judged(check: Check, readings: Readings) -> Outcome:
    try:
        return check.judge(readings)
    except Exception as error:  # noqa: BLE001 - one check that breaks must not cost the others
        return unknown(f"the check broke ({type(error).__name__}: {error})", "report this with selftest.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunDisplay:
    """A run's steps as those of a check."""

    shown: SelftestProgress

    def start(self, total_steps: int, title: str) -> None:
        """Say nothing."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Pass it on."""
        self.shown.step(f"{benchmark} {detail}, {rank_count} ranks")

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Pass it on."""
        self.shown.step(text)

    def close(self) -> None:
        """Nothing to end."""
