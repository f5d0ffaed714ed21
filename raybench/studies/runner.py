"""Do a study's trials: each is one raybench command of its own, in a process of its own, with a folder of its own."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from raybench.documents.study.plan import Study, Trial, Variant
from raybench.documents.study.trial import TrialResult
from raybench.errors import GLOO_INSTEAD, GPUS_ONLY, UsageError
from raybench.studies.communication import ON_NCCL
from raybench.studies.folder import STUDY_VARIABLE, StudyFolder, is_removed

_END_SECONDS = 60.0  # a run that was told to stop gathers its logs first
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_WRONG_USE = 2
_MOST_FAILURES = 2
_LIBC = ctypes.CDLL(None)

OnTrial = Callable[[Trial, TrialResult | None, float | None], None]


@dataclass(slots=True, kw_only=True)
class _Experience:
    """What was learnt of each variant while running: how long it takes, and whether it is any use to try it again."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    refused: dict[str, str] = field(default_factory=dict)
    unfit: set[str] = field(default_factory=set)

    def is_hopeless(self, variant: str) -> bool:
        return variant in self.refused or variant in self.unfit or self.failures[variant] >= _MOST_FAILURES

    def learn(self, outcome: TrialResult, code: int, seconds: float) -> None:
        variant = outcome.trial.variant
        if outcome.measured:
            self.seconds[variant].append(seconds)
        elif outcome.does_not_fit:
            self.unfit.add(variant)
        elif code == _WRONG_USE:
            self.refused[variant] = outcome.reason or "raybench was used wrongly"
        else:
            self.failures[variant] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs what is left of a study, until ``stopping`` is set.

    ``on_trial(trial, outcome, left_seconds)`` hears of each trial before it (outcome None) and after it.
    """

    folder: StudyFolder
    study: Study
    stopping: threading.Event
    timeout_seconds: float
    on_trial: OnTrial

    def run(self) -> list[TrialResult]:
        """Every trial that is not complete, in order. A trial that fails does not stop the others.

        Where the study's folder is removed meanwhile, the trials that are left are not begun: nothing would be kept.
        A trial that was asked for wrongly (exit code 2) or does not fit into memory would fail the same way each time,
        and so may one that twice measured nothing: such a variant is not tried again. Raises UsageError when invalid
        usage leaves no variant, with what raybench said.
        """
        known = {outcome.trial: outcome for outcome in self.folder.outcomes(self.study)}
        todo = [trial for trial, outcome in known.items() if not outcome.answered]
        experience = _Experience()
        for outcome in known.values():
            experience.unfit |= {outcome.trial.variant} if outcome.does_not_fit else set()
        for index, trial in enumerate(todo):
            if self.stopping.is_set() or self.folder.removed:
                break
            if not experience.is_hopeless(trial.variant):
                ahead = [one.variant for one in todo[index:] if not experience.is_hopeless(one.variant)]
                self.on_trial(trial, None, left_seconds(ahead, experience.seconds))
                known[trial] = self._try(trial, experience)
                self.on_trial(trial, known[trial], None)
        if set(experience.refused) == {variant.name for variant in self.study.variants}:
            raise UsageError(next(iter(experience.refused.values())))
        return list(known.values())

    def _try(self, trial: Trial, experience: _Experience) -> TrialResult:
        begun = time.monotonic()
        try:
            code = self._do(trial)
        except OSError as error:  # a disk that is full, a system that has no process left
            return replace(self.folder.outcome(trial), reason=f"it could not be run: {error}")
        outcome = self.folder.outcome(trial)
        if outcome.status == "missing" and outcome.reason is None:
            outcome = replace(outcome, reason=self._why_nothing(trial, code))
        if not self.stopping.is_set():
            experience.learn(outcome, code, time.monotonic() - begun)
        return outcome

    def _why_nothing(self, trial: Trial, code: int) -> str:
        folder = self.folder.trial_path(trial)
        if is_removed(folder):
            return f"its folder {folder} has been removed"
        return f"its command ended with exit code {code}, said nothing, and left no result in {folder}"

    def _do(self, trial: Trial) -> int:
        folder = self.folder.trial_path(trial)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder.note_limit(trial, None)
        command = [sys.executable, "-P", "-m", *command_of(self.study, self.study.variant(trial.variant), folder)]
        place = self.study.folder if Path(self.study.folder).is_dir() else None
        with _private(folder / "output") as output, _private(folder / "errors") as errors:
            process = subprocess.Popen(
                command,
                cwd=place,
                env={**os.environ, STUDY_VARIABLE: self.folder.path.name},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call that takes no lock
            )
            try:
                return self._wait(process, trial)
            finally:
                _end(process)

    def _wait(self, process: "subprocess.Popen[bytes]", trial: Trial) -> int:
        """Its exit code. When it is to stop it is told as in a terminal: it keeps what it has measured."""
        deadline = time.monotonic() + self.timeout_seconds
        while process.poll() is None:
            late = time.monotonic() > deadline
            if late:
                self.folder.note_limit(trial, self.timeout_seconds)
            if self.stopping.wait(_POLL_SECONDS) or late or is_removed(self.folder.trial_path(trial)):
                process.send_signal(signal.SIGINT)
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_END_SECONDS)
        return 3


def _private(path: Path) -> IO[bytes]:
    """An empty file that only its owner can read, to write to."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600))


def _end_with_parent() -> None:
    """A study that is killed leaves no trial behind: the kernel then tells the trial to stop."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
        process.wait(_END_SECONDS)


def check_variants(study: Study, output_dir: Path) -> None:
    """Have each variant's command check what it needs, before any is measured: five trials would not mend it.

    ``output_dir``: where the study's folder is going to be.
    Raises UsageError where one cannot run, with what raybench said of each.
    """
    refused = [(variant.name, said) for variant in study.variants if (said := _refusal(study, variant, output_dir))]
    if refused:
        reasons = dict.fromkeys(said for _, said in refused)
        same = len(refused) == len(study.variants) and len(reasons) == 1
        told = reasons if same else [f"{name}: {said}" for name, said in refused]
        raise UsageError(f"{len(refused)} of {len(study.variants)} variants cannot run: {'; '.join(told)}")


def _refusal(study: Study, variant: Variant, output_dir: Path) -> str:
    """Why a variant cannot run; nothing where it can, or where that takes trying."""
    command = command_of(study, variant, output_dir)
    backend = [*ON_NCCL] if is_of_nccl(variant) and "--backend" not in command else []
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command, *backend, "--dry-run"],
        cwd=study.folder if Path(study.folder).is_dir() else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_END_SECONDS,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode != _WRONG_USE or not lines:
        return ""
    said = lines[-1].removeprefix("raybench: ").removeprefix("Error: ")
    return said.replace(GLOO_INSTEAD, GPUS_ONLY) if is_of_nccl(variant) else said


def is_of_nccl(variant: Variant) -> bool:
    """Whether it is nothing over gloo: it sets what NCCL alone reads, or is to be proved to be RDMA."""
    expects_rdma = variant.facts.expects is not None and variant.facts.expects.kind == "rdma"
    return expects_rdma or variant.arguments[: len(ON_NCCL)] == ON_NCCL


def command_of(study: Study, variant: Variant, folder: Path) -> list[str]:
    """The command of a trial, as a person could type it: the variant's options are last and so win."""
    return ["raybench", *study.workload, *variant.arguments, "--output-dir", str(folder), "--quiet"]


def left_seconds(todo: Sequence[str], durations: Mapping[str, Sequence[float]]) -> float | None:
    """Seconds that trials of these variants will take: each as others of its kind, else as all. None at first."""
    every = [seconds for known in durations.values() for seconds in known]
    if not every:
        return None
    mean = sum(every) / len(every)
    means = {name: sum(known) / len(known) for name, known in durations.items() if known}
    return sum(means.get(name, mean) for name in todo)
