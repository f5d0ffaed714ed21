"""Why a trial left nothing: its folder was taken away, or its command said nothing; and what is done with the rest."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from raybench.documents.study.plan import Study, Trial, Variant
from raybench.documents.study.trial import TrialResult
from raybench.studies import runner
from raybench.studies.folder import StudyFolder

TRIAL = """
import os, shutil, sys, time
from pathlib import Path
how, folder = sys.argv[1], Path(sys.argv[2])
match how:
    case "removes-study":
        shutil.rmtree(folder.parents[1])
        time.sleep(60)
    case "removes-trial":
        shutil.rmtree(folder)
        time.sleep(60)
    case "names-study":
        print("raybench: of", os.environ["RAYBENCH_STUDY"], file=sys.stderr)
    case "fails":
        print("raybench: no GPU", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[TrialResult]:
    """What came of a study of these variants, each trial a process that does what its variant is named for."""
    names: Sequence[str] = request.param
    (tmp_path / "trial_of_a_test.py").write_text(TRIAL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(
        runner, "command_of", lambda _study, variant, folder: ["trial_of_a_test", variant.name, str(folder)]
    )
    variants = tuple(Variant(name=name) for name in names)
    study = Study(kind="strategy", workload=("train",), variants=variants, repeats=1, seed=_seed(names))
    folder = StudyFolder.create(str(tmp_path / "studies"), study)
    trials = runner.Runner(
        folder=folder, study=study, stopping=threading.Event(), timeout_seconds=30, on_trial=lambda *_: None
    )
    return trials.run()


def _seed(names: Sequence[str]) -> int:
    """One with which the trials are done in this order."""
    variants = tuple(Variant(name=name) for name in names)
    studies = (
        Study(kind="strategy", workload=("train",), variants=variants, repeats=1, seed=seed) for seed in range(99)
    )
    return next(study.seed for study in studies if [trial.variant for trial in study.trials()] == list(names))


@pytest.mark.parametrize("outcomes", [("removes-study", "silent")], indirect=True)
def test_a_study_whose_folder_is_removed_ends_and_is_not_made_again(
    outcomes: list[TrialResult], tmp_path: Path
) -> None:
    first, second = outcomes
    assert first.reason is not None
    assert first.reason.startswith("its folder ")
    assert first.reason.endswith("000-removes-study has been removed")
    assert (second.status, second.reason) == ("missing", None)  # it was not begun
    assert not any((tmp_path / "studies").iterdir())


@pytest.mark.parametrize("outcomes", [("removes-trial", "fails", "silent")], indirect=True)
def test_a_trial_that_left_nothing_says_why_and_the_others_are_done(outcomes: list[TrialResult]) -> None:
    removed, failed, silent = (one.reason or "" for one in outcomes)
    assert removed.endswith("000-removes-trial has been removed")
    assert failed == "no GPU"
    assert silent.startswith("its command ended with exit code 3, said nothing, and left no result in ")


@pytest.mark.parametrize("outcomes", [("names-study",)], indirect=True)
def test_a_trial_knows_the_study_that_it_is_of(outcomes: list[TrialResult], tmp_path: Path) -> None:
    (study,) = (tmp_path / "studies").iterdir()
    assert outcomes[0].reason == f"of {study.name}"


def test_a_trial_whose_files_cannot_be_made_says_so(tmp_path: Path) -> None:
    study = Study(kind="strategy", workload=("train",), variants=(Variant(name="ddp"),), repeats=1, seed=1)
    folder = StudyFolder.create(str(tmp_path), study)
    (folder.path / "trials" / "000-ddp").write_text("in the way")
    begun = time.monotonic()
    told: list[tuple[Trial, TrialResult | None]] = []
    (outcome,) = runner.Runner(
        folder=folder,
        study=study,
        stopping=threading.Event(),
        timeout_seconds=30,
        on_trial=lambda trial, outcome, _: told.append((trial, outcome)),
    ).run()
    assert "it could not be run: " in (outcome.reason or "")
    assert (told[-1][1], time.monotonic() - begun < 25) == (outcome, True)
