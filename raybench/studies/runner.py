"""Do a study's trials: each is one raybench command of its own, in a process of its own, with a folder of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from raybench.errors import IncompleteRunError, UsageError
from raybench.studies.design import Study, Trial, Variant
from raybench.studies.outcome import Outcome, outcome_of

_END_SECONDS = 30.0
_POLL_SECONDS = 0.2
_TAIL = 2000
FILE = "study.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFolder:
    """``DIR/STUDY_ID``: ``study.json`` says what is to be done, ``trials/`` holds a folder a trial."""

    path: Path

    @classmethod
    def create(cls, path: Path, study: Study) -> "StudyFolder":
        """Make the folder and write the plan. Raises UsageError when it cannot be written."""
        folder = cls(path=path)
        try:
            (path / "trials").mkdir(parents=True)
            folder.write(FILE, study.to_json())
        except OSError as error:
            raise UsageError(
                f"the study's folder {path} cannot be written: {error.strerror}; choose another with --output-dir"
            ) from error
        return folder

    def study(self) -> Study:
        """The plan. Raises UsageError when the folder holds none that can be read."""
        try:
            content = msgspec.json.decode((self.path / FILE).read_bytes())
            content.pop("schema", None)
            return msgspec.convert(content, Study)
        except (OSError, msgspec.MsgspecError, AttributeError) as error:
            raise UsageError(
                f"{self.path} is not the folder of a study: {FILE} cannot be read ({error}); give the folder that an "
                "earlier 'raybench study' named"
            ) from error

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file whole or not at all."""
        partial = self.path / f".{name}.partial"
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2))
        partial.replace(self.path / name)

    def trial_path(self, trial: Trial) -> Path:
        """Where a trial's run puts its own folder."""
        return self.path / "trials" / trial.folder

    def outcome(self, trial: Trial) -> Outcome:
        """What a trial found; ``missing`` where it was not done, or its result cannot be read."""
        for result in sorted(self.trial_path(trial).glob("*/result.json"), reverse=True):
            with contextlib.suppress(OSError, msgspec.MsgspecError, KeyError):
                diagnosis = result.with_name("diagnosis.json")
                found = msgspec.json.decode(diagnosis.read_bytes()) if diagnosis.exists() else None
                return outcome_of(trial, msgspec.json.decode(result.read_bytes()), found)
        return Outcome(trial=trial, status="missing", reason=self._last_words(trial))

    def outcomes(self, study: Study) -> list[Outcome]:
        """What is known of every trial."""
        return [self.outcome(trial) for trial in study.trials()]

    def _last_words(self, trial: Trial) -> str | None:
        with contextlib.suppress(OSError):
            lines = (self.trial_path(trial) / "errors").read_text(errors="replace").strip().splitlines()
            return lines[-1][:_TAIL] if lines else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs what is left of a study. ``told`` hears of each trial before and after it."""

    folder: StudyFolder
    study: Study
    stopping: threading.Event
    timeout_seconds: float
    told: Callable[[Trial, Outcome | None], None]

    def run(self) -> list[Outcome]:
        """Every trial that is not complete, in order. A trial that fails does not stop the others.

        A trial that was asked for wrongly (exit code 2) would fail the same way each time: its variant is not tried
        again. Raises UsageError when that leaves nothing, with what raybench said.
        """
        outcomes: dict[int, Outcome] = {}
        hopeless: dict[str, str] = {}
        for trial in self.study.trials():
            outcome = self.folder.outcome(trial)
            if outcome.status != "complete" and trial.variant not in hopeless and not self.stopping.is_set():
                self.told(trial, None)
                code = self._do(trial)
                outcome = self.folder.outcome(trial)
                if code == 2:
                    hopeless[trial.variant] = outcome.reason or "wrong use"
                self.told(trial, outcome)
            outcomes[trial.number] = outcome
        if len(hopeless) == len(self.study.variants):
            raise UsageError(f"no variant of the study can be run: {next(iter(hopeless.values()))}")
        return list(outcomes.values())

    def _do(self, trial: Trial) -> int:
        folder = self.folder.trial_path(trial)
        folder.mkdir(parents=True, exist_ok=True)
        command = command_of(self.study, self.study.variant(trial.variant), folder)
        with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            )
            try:
                return self._wait(process)
            finally:
                _end(process)

    def _wait(self, process: "subprocess.Popen[bytes]") -> int:
        """Its exit code. Ctrl-C ends it as in a terminal: it keeps what it has measured."""
        deadline = time.monotonic() + self.timeout_seconds
        while process.poll() is None:
            if self.stopping.wait(_POLL_SECONDS):
                process.send_signal(signal.SIGINT)
                break
            if time.monotonic() > deadline:
                process.send_signal(signal.SIGTERM)
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_END_SECONDS)
        return 3


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait(_END_SECONDS)


def command_of(study: Study, variant: Variant, folder: Path) -> list[str]:
    """The command of a trial, as a person could type it."""
    fixed = ["--output-dir", str(folder), "--quiet"]
    return [sys.executable, "-m", "raybench", *study.workload, *variant.arguments, *fixed]


def require_complete(outcomes: Sequence[Outcome], stopping: threading.Event) -> None:
    """Raise IncompleteRunError where trials are missing or broken, naming the first."""
    broken = [outcome for outcome in outcomes if outcome.status != "complete"]
    if stopping.is_set():
        raise IncompleteRunError("the study was stopped; go on with --resume and its folder")
    if broken:
        first = broken[0]
        raise IncompleteRunError(
            f"{len(broken)} of {len(outcomes)} trials are not complete; the first is {first.trial.folder} "
            f"({first.status}: {first.reason or 'no reason given'}); try them again with --resume and the study's folder"
        )


def free_path(output_dir: str, name: str) -> Path:
    """``DIR/NAME``, absolute, so that trials find it wherever they are started."""
    return Path(os.path.abspath(output_dir)) / name  # noqa: PTH100 - resolve() would follow the user's links
