"""The folder of a study: the plan, a folder a trial, and the answer."""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.part import read_as
from raybench.documents.reading import DocumentError, document_of
from raybench.documents.run.result import RunResult
from raybench.documents.study.plan import Study, Trial
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError
from raybench.processes.trusted_file import UntrustedFileError, read_own
from raybench.studies.trial import trial_result
from raybench.whole_file import write_whole

STUDY_VARIABLE = "RAYBENCH_STUDY"  # in a trial's environment: the study that it is of, by which trackers group
PLAN, RESULT, REPORT = "plan.json", "study.json", "study.html"
_LIMIT = "limit"
_LONGEST_WORDS = 500


def new_study_id(kind: str) -> str:
    """A name that sorts by time within its kind and is not used twice: ``network-20261121-014502-3f9a``."""
    return f"{kind}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFolder:
    """``DIR/STUDY_ID``: ``plan.json`` says what to do, ``trials/`` has a folder a trial, ``study.json`` answers."""

    path: Path

    @classmethod
    def create(cls, output_dir: str, study: Study) -> "StudyFolder":
        """Make the folder and write the plan. Raises UsageError when it cannot be written."""
        path = Path(os.path.abspath(output_dir)) / new_study_id(study.kind)
        folder = cls(path=path)
        try:
            (path / "trials").mkdir(parents=True)
            folder.write_plan(study)
        except OSError as error:
            raise UsageError(
                f"the study's folder {path} cannot be written: {error.strerror}; choose another with --output-dir"
            ) from error
        return folder

    @classmethod
    def open(cls, path: Path) -> "StudyFolder":
        """The folder of an earlier study; ``path`` may also name a file in it."""
        whole = Path(os.path.abspath(path))
        return cls(path=whole.parent if whole.name in (PLAN, RESULT, REPORT) else whole)

    def study(self, *, to_run: bool = False) -> Study:
        """The plan. Raises UsageError when the folder holds none that can be read.

        ``to_run``: its words are going to be commands of this user, so nobody else may have written them.
        """
        if not (self.path / PLAN).is_file():
            raise UsageError(
                f"{self.path} is not the folder of a study: there is no {PLAN}; give the folder that an earlier "
                "'raybench study' named"
            )
        path = self.path / PLAN
        if not to_run:
            return Study.read(path, "the study's plan")
        try:
            content = document_of(read_own(path), Study.SCHEMA, f"the study's plan {path}")
        except UntrustedFileError as error:
            raise UsageError(
                f"the study is not gone on with: {error}, and its plan says which commands are run. Look at it with "
                f"'raybench study show {self.path}', and begin one of your own"
            ) from error
        except OSError as error:
            raise DocumentError(f"the study's plan {path} cannot be read: {error.strerror}") from error
        return Study.of_json(content, f"the study's plan {path}")

    def write_plan(self, study: Study) -> None:
        """Keep what is to be done. Raises OSError."""
        self.write(PLAN, study.to_json())

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file whole or not at all. Raises OSError."""
        write_whole(self.path / name, msgspec.json.format(msgspec.json.encode(content), indent=2))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from running the same study. Raises UsageError where somebody does already."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"{self.path} is not the folder of a study: {error.strerror}") from error
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                self._lock(folder)
            yield
        finally:
            os.close(folder)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"the study {self.path} is being run by another raybench; wait for it") from error

    @property
    def removed(self) -> bool:
        """Whether somebody has removed the study while it is run."""
        return is_removed(self.path / PLAN)

    def trial_path(self, trial: Trial) -> Path:
        """Where a trial's run puts its own folder."""
        return self.path / "trials" / trial.folder

    def outcome(self, trial: Trial) -> TrialResult:
        """What a trial found: its last complete run, else its last; ``missing`` where none can be read."""
        results = sorted(self.trial_path(trial).glob("*/result.json"))
        found = [outcome for result in results if (outcome := _read(trial, result))]
        complete = [outcome for outcome in found if outcome.status == "complete"]
        if found:
            last = (complete or found)[-1]
            return last if last.answered else replace(last, reason=self._limit(trial) or last.reason)
        damaged = f"{results[-1]} cannot be read as a result" if results else None
        reason = self._limit(trial) or damaged or self._last_words(trial)
        return TrialResult(trial=trial, status="missing", reason=reason)

    def outcomes(self, study: Study) -> list[TrialResult]:
        """What is known of every trial, in the order of doing."""
        return [self.outcome(trial) for trial in study.trials()]

    def discard(self) -> None:
        """Remove a study that nothing came of: files of ours only, and none where any trial left a run."""
        if any(path.is_dir() for path in self.path.glob("trials/*/*")):
            return
        with contextlib.suppress(OSError):
            for file in [*self.path.glob("trials/*/output"), *self.path.glob("trials/*/errors"), self.path / PLAN]:
                file.unlink()
            for folder in [*self.path.glob("trials/*"), self.path / "trials", self.path]:
                folder.rmdir()

    def note_limit(self, trial: Trial, seconds: float | None) -> None:
        """Keep that a trial took too long, or, with None, that this is not so."""
        note = self.trial_path(trial) / _LIMIT
        if seconds is None:
            note.unlink(missing_ok=True)
        else:
            write_whole(note, f"it took longer than --timeout {seconds:g} s")

    def _limit(self, trial: Trial) -> str | None:
        with contextlib.suppress(OSError):
            return (self.trial_path(trial) / _LIMIT).read_text(errors="replace")[:_LONGEST_WORDS]
        return None

    def _last_words(self, trial: Trial) -> str | None:
        """The last line that the trial's command said, without its name before it."""
        with contextlib.suppress(OSError):
            lines = (self.trial_path(trial) / "errors").read_text(errors="replace").strip().splitlines()
            return lines[-1][:_LONGEST_WORDS].removeprefix("raybench: ").removeprefix("Error: ") if lines else None
        return None


def is_removed(path: Path) -> bool:
    """Whether there is no such path; one whose file system does not answer may come back."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _read(trial: Trial, result: Path) -> TrialResult | None:
    """The outcome of a run; None where its files cannot be read as such: then nothing is known of it."""
    try:
        run = RunResult.read(result, "the result")
        path = result.with_name("diagnosis.json")
        diagnosis = read_as(Diagnosis, path, "the diagnosis") if path.exists() else Diagnosis()
        return trial_result(trial, run, diagnosis, result.parent.name)
    except DocumentError:
        return None
