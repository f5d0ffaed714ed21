"""Do a study's trials: each is one raybench command of its own, in a process of its own, with a folder of its own."""

import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.errors import UsageError
from raybench.studies.design import Study, Trial, Variant
from raybench.studies.folder import StudyFolder
from raybench.studies.outcome import Outcome

_END_SECONDS = 60.0  # a run that was told to stop gathers its logs first
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_WRONG_USE = 2
_LIBC = ctypes.CDLL(None)

Told = Callable[[Trial, Outcome | None, float | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs what is left of a study, until ``stopping`` is set.

    ``told(trial, outcome, left_seconds)`` hears of each trial before it (outcome None) and after it.
    """

    folder: StudyFolder
    study: Study
    stopping: threading.Event
    timeout_seconds: float
    told: Told

    def run(self) -> list[Outcome]:
        """Every trial that is not complete, in order. A trial that fails does not stop the others.

        A trial that was asked for wrongly (exit code 2) would fail the same way each time: its variant is not tried
        again. Raises UsageError when that leaves no variant, with what raybench said.
        """
        trials = self.study.trials()
        known = {trial.number: self.folder.outcome(trial) for trial in trials}
        hopeless: dict[str, str] = {}
        durations: dict[str, list[float]] = {}
        for trial in trials:
            if self.stopping.is_set():
                break
            if known[trial.number].status == "complete" or trial.variant in hopeless:
                continue
            todo = [one.variant for one in trials[trial.number :] if known[one.number].status != "complete"]
            self.told(trial, None, left_seconds([name for name in todo if name not in hopeless], durations))
            begun = time.monotonic()
            code = self._do(trial)
            known[trial.number] = outcome = self.folder.outcome(trial)
            if code == _WRONG_USE and outcome.status == "missing":
                hopeless[trial.variant] = outcome.reason or "wrong use"
            else:
                durations.setdefault(trial.variant, []).append(time.monotonic() - begun)
            self.told(trial, outcome, None)
        if len(hopeless) == len(self.study.variants):
            raise UsageError(next(iter(hopeless.values())))
        return list(known.values())

    def _do(self, trial: Trial) -> int:
        folder = self.folder.trial_path(trial)
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", *command_of(self.study, self.study.variant(trial.variant), folder)]
        place = self.study.folder if Path(self.study.folder).is_dir() else None
        with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, and no other thread holds a lock it takes
            )
            try:
                return self._wait(process)
            finally:
                _end(process)

    def _wait(self, process: "subprocess.Popen[bytes]") -> int:
        """Its exit code. When it is to stop it is told as in a terminal: it keeps what it has measured."""
        deadline = time.monotonic() + self.timeout_seconds
        while process.poll() is None:
            if self.stopping.wait(_POLL_SECONDS) or time.monotonic() > deadline:
                process.send_signal(signal.SIGINT)
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_END_SECONDS)
        return 3


def _end_with_parent() -> None:
    """A study that is killed leaves no trial behind: the kernel then tells the trial to stop."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait(_END_SECONDS)


def command_of(study: Study, variant: Variant, folder: Path) -> list[str]:
    """The command of a trial, as a person could type it: the variant's options are last and so win."""
    return ["raybench", *study.workload, *variant.arguments, "--output-dir", str(folder), "--quiet"]


def left_seconds(todo: Sequence[str], durations: Mapping[str, Sequence[float]]) -> float | None:
    """Seconds that trials of these variants will take: each as those of its kind, else as all. None before any ended."""
    every = [seconds for known in durations.values() for seconds in known]
    if not every:
        return None
    mean = sum(every) / len(every)
    means = {name: sum(known) / len(known) for name, known in durations.items() if known}
    return sum(means.get(name, mean) for name in todo)
