"""A study from what is asked to its answer: planned or taken up again, its trials done, the answer kept."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from raybench.documents.price import Price
from raybench.documents.study.plan import Kind, Settings, Study, Trial, Variant
from raybench.documents.study.result import StudyResult
from raybench.documents.study.trial import TrialResult
from raybench.errors import MissingLibraryError, UsageError
from raybench.secret_values import moved_to_environment
from raybench.services.study_options import WORKLOADS, Pricing, StudyOptions
from raybench.services.study_variants import variants_of
from raybench.studies.communication import check_workload
from raybench.studies.folder import REPORT, RESULT, StudyFolder

if TYPE_CHECKING:
    from raybench.processes.interrupt import Interrupt
    from raybench.studies.runner import OnTrial

REPEATS = 5
_SHORT_OPTIONS = {"-m": "--model", "-d": "--dtype"}  # of what studies set


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStudy:
    """A study that has ended, complete or not. ``kept`` is false where its result could not be written."""

    result: StudyResult
    folder: Path
    kept: bool
    remarks: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of the command: never 0 where the result could not be kept."""
        return self.result.exit_code if self.kept else self.result.exit_code or 3


class StudyProgress(Protocol):
    """Where a person sees how far a study is."""

    def on_trial(self, trial: Trial, outcome: TrialResult | None, left_seconds: float | None) -> None:
        """Say which trial begins, or, with its outcome, how it ended."""

    def close(self) -> None:
        """End the display."""


def conduct(
    options: StudyOptions,
    *,
    interrupt: "Interrupt",
    progress: Callable[[Study], StudyProgress],
    planned: Callable[[Study], None] = lambda _: None,
) -> FinishedStudy:
    """Plan a study or take up an earlier one, do its trials, and keep the answer.

    ``interrupt`` is installed by the caller. ``planned`` is called with a new study before its variants are checked,
    ``progress`` before the first trial. Raises UsageError for a study that cannot be begun; it leaves no folder.
    """
    price = options.pricing.price_of_node()
    folder = _folder(options, planned)
    with folder.held():
        study = with_epoch(take_up(folder, options.kind, options.repeats), options.pricing)
        with contextlib.closing(progress(study)) as shown:
            try:
                trials, stopped = do_trials(
                    study, folder, interrupt=interrupt, on_trial=shown.on_trial, timeout_seconds=options.timeout
                )
            except UsageError:
                if options.resume is None:
                    folder.discard()
                raise
        return answer(study, folder, trials, price=price, stopped=stopped)


def show_study(path: Path, pricing: Pricing) -> FinishedStudy:
    """The answer of an earlier study, complete or not, made again from its trials, with a price that is given now."""
    price = pricing.price_of_node()
    folder = StudyFolder.open(path)
    study = with_epoch(folder.study(), pricing)
    return answer(study, folder, folder.outcomes(study), price=price)


def _folder(options: StudyOptions, planned: Callable[[Study], None]) -> StudyFolder:
    """The folder of the study to go on with, or of a new one, whose variants have been checked."""
    if options.resume is not None:
        return StudyFolder.open(Path(options.resume))
    check_goal(options.kind, options.pricing)
    study = plan_study(
        options.kind,
        variants_of(options.kind, options.subject),
        options.workload,
        seed=options.chosen_seed,
        repeats=options.repeats,
        settings=Settings(
            price=options.pricing.price_of_node(),
            epoch_samples=options.pricing.epoch_samples,
            deadline_seconds=options.pricing.deadline_seconds,
            budget=options.pricing.budget,
        ),
    )
    planned(study)
    return begin_study(study, options.output_dir or "studies")


def plan_study(
    kind: Kind,
    variants: Sequence[Variant],
    workload: Sequence[str],
    *,
    seed: int,
    repeats: int | None = None,
    settings: Settings | None = None,
) -> Study:
    """What is to be done. ``workload`` is a command of raybench with its options, ``train`` where it names none.

    Raises UsageError for a workload, or an option of it, that a study of this kind cannot have.
    """
    words = moved_to_environment(tuple(workload), os.environ)
    if not words or words[0] not in WORKLOADS:
        words = ("train", *words)
    if words[0] not in WORKLOADS[: None if kind == "network" else 1]:
        raise UsageError(f"a study of {kind} compares training; '{words[0]}' can be the workload of study network")
    if "--dry-run" in words:
        raise UsageError("a study has no --dry-run: every variant is checked before the first trial; leave it out")
    if any(word.split("=")[0] == "--continue-without" for word in words):
        raise UsageError(
            "--continue-without makes a trial of fewer nodes, which is not comparable with the others; take --isolate"
        )
    if kind == "scaling" and any(word.split("=")[0] == "--keep-warm" for word in words):
        raise UsageError("--keep-warm holds nodes that trials on another number of nodes need; leave it out of scaling")
    _require_free(kind, variants, words)
    if kind == "communication":
        check_workload(variants, words)
    return Study(
        kind=kind,
        workload=words,
        variants=tuple(variants),
        repeats=REPEATS if repeats is None else repeats,
        seed=seed,
        folder=str(Path.cwd()),
        settings=settings or Settings(),
    )


def _require_free(kind: Kind, variants: Sequence[Variant], words: Sequence[str]) -> None:
    """Raise UsageError where the workload fixes what the variants set: theirs would win, and nobody be told."""
    set_by_study = {word for variant in variants for word in variant.arguments if word.startswith("--")} - {
        "--env",
        "--backend",
    }
    for word in words:
        name = word.split("=")[0]
        name = name if name.startswith("--") else _SHORT_OPTIONS.get(name[:2], name)
        if name in set_by_study:
            raise UsageError(
                f"{name} is what this study sets in each of its trials; give it to 'raybench study {kind}' itself, "
                f"before the workload (raybench study {kind} --help), and leave it out of the workload"
            )


def begin_study(study: Study, output_dir: str) -> StudyFolder:
    """Check what every variant needs, and make the study's folder. Raises UsageError where a variant cannot be run."""
    from raybench.studies.runner import check_variants

    check_variants(study, Path(output_dir))
    return StudyFolder.create(output_dir, study)


def take_up(folder: StudyFolder, kind: Kind, repeats: int | None) -> Study:
    """The plan of an earlier study, with more repeats where they are asked for. Raises UsageError for another study."""
    study = folder.study(to_run=True)
    if study.kind != kind:
        raise UsageError(f"{folder.path} is another study; continue it with: raybench study {study.kind} --resume DIR")
    if repeats is not None and repeats != study.repeats:
        if repeats < study.repeats:
            raise UsageError(f"the study has {study.repeats} repeats; --repeats {repeats} cannot take any away")
        study = replace(study, repeats=repeats)
        folder.write_plan(study)
    return study


def with_epoch(study: Study, pricing: Pricing) -> Study:
    """The study with another size of an epoch, and its deadline and budget, where they are given.

    Raises UsageError for a goal of a study that does not compare numbers of nodes.
    """
    if pricing.epoch_samples is None:
        return study
    check_goal(study.kind, pricing)
    settings = Settings(
        price=study.settings.price,
        epoch_samples=pricing.epoch_samples,
        deadline_seconds=pricing.deadline_seconds,
        budget=pricing.budget,
    )
    return replace(study, settings=settings)


def check_goal(kind: str, pricing: Pricing) -> None:
    """Raises UsageError for a goal of a study that does not compare numbers of nodes."""
    if kind != "scaling" and (pricing.deadline_seconds is not None or pricing.budget is not None):
        raise UsageError("--deadline and --budget are of 'study scaling', which compares numbers of nodes")


def do_trials(
    study: Study, folder: StudyFolder, *, interrupt: "Interrupt", on_trial: "OnTrial", timeout_seconds: float
) -> tuple[list[TrialResult], bool]:
    """What is known of every trial in the end, and whether somebody stopped the study.

    ``interrupt`` is installed by the caller. Raises UsageError where no variant can be run.
    """
    from raybench.studies.runner import Runner

    runner = Runner(
        folder=folder, study=study, stopping=interrupt.event, timeout_seconds=timeout_seconds, on_trial=on_trial
    )
    try:
        with interrupt.deferred():
            return runner.run(), interrupt.event.is_set()
    except KeyboardInterrupt:
        return folder.outcomes(study), True


def answer(
    study: Study,
    folder: StudyFolder,
    trials: Sequence[TrialResult],
    *,
    price: Price | None = None,
    stopped: bool = False,
) -> FinishedStudy:
    """The study's answer from its trials, kept with its report. ``price`` goes before that of the plan."""
    from raybench.studies.result import result_of

    result = result_of(folder.path.name, study, list(trials), price=price or study.settings.price, stopped=stopped)
    remarks, kept = [], True
    try:
        folder.write(RESULT, result.to_json())
        _write_report(result, folder.path / REPORT)
    except MissingLibraryError as error:
        remarks.append(str(error))
    except OSError as error:
        lost = "has been removed" if folder.removed else f"could not be written ({error.strerror})"
        remarks.append(f"{folder.path} {lost}: the result is printed here")
        kept = False
    if result.broken and not folder.removed:
        remarks.append(
            f"{len(result.broken)} of {len(result.trials)} trials are not complete; continue with: raybench "
            f"study {result.kind} --resume {folder.path}"
        )
    return FinishedStudy(result=result, folder=folder.path, kept=kept, remarks=tuple(remarks))


def _write_report(result: StudyResult, path: Path) -> None:
    from raybench.reports.html import write_html

    write_html(result, path)
