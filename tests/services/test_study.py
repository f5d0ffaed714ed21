"""A study as a call, from trials that were done. Trials that are run: tests/cli/test_study.py."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.study.plan import Kind, Study, Trial, Variant
from raybench.documents.study.trial import TrialResult
from raybench.errors import UsageError
from raybench.processes.interrupt import Interrupt
from raybench.services.study import conduct, show_study
from raybench.services.study_options import Pricing, StudyOptions
from raybench.services.study_variants import variants_of
from raybench.studies.folder import StudyFolder
from tests.studies.sample import run_result, training_point


class Progress:
    """Keeps the trials that it hears of."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.closed = False

    def on_trial(self, trial: Trial, *_: TrialResult | float | None) -> None:
        self.trials.append(trial)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def done(tmp_path: Path) -> StudyFolder:
    """A study all of whose trials are done."""
    variants = (Variant(name="ddp"), Variant(name="fsdp"))
    study = Study(kind="strategy", workload=("train",), variants=variants, repeats=2, seed=1)
    folder = StudyFolder.create(str(tmp_path), study)
    for trial in study.trials():
        result = folder.trial_path(trial) / "20261121-000000-aaaa" / "result.json"
        result.parent.mkdir(parents=True)
        result.write_text(json.dumps(run_result([training_point(0.1)])))
    return folder


def test_a_study_whose_trials_are_done_is_answered_again_and_none_is_run(done: StudyFolder) -> None:
    progress = Progress()
    options = StudyOptions(kind="strategy", resume=str(done.path))
    finished = conduct(options, interrupt=Interrupt(), progress=lambda _: progress)
    assert (finished.kept, finished.remarks, progress.trials, progress.closed) == (True, (), [], True)
    assert [trial.status for trial in finished.result.trials] == ["complete"] * 4
    written = {path.name for path in done.path.iterdir()}
    assert {"study.json", "study.html"} <= written
    shown = show_study(done.path, Pricing(price=10.0))
    assert shown.exit_code == finished.exit_code == finished.result.exit_code
    assert shown.result.answer.price is not None
    assert finished.result.answer.price is None


@pytest.mark.parametrize(
    ("kind", "subject", "names"),
    [
        ("network", {}, ["tcp", "rdma-no-gdr", "rdma"]),
        ("strategy", {"strategies": "ddp, fsdp"}, ["ddp", "fsdp"]),
        ("batch-size", {"batch_sizes": None}, ["batch-1", "batch-2", "batch-4", "batch-8", "batch-16"]),
        ("model-size", {"models": "tiny,gpt2"}, ["tiny", "gpt2"]),
        ("communication", {}, ["none", "fp16", "bf16", "powersgd"]),
        ("communication", {"bucket_sizes": "25,5", "algorithms": "tree"}, ["bucket-25", "bucket-5", "tree"]),
        ("communication", {"buffer_sizes": "4M,8M"}, ["buffer-4M", "buffer-8M"]),
        ("precision", {}, ["fp32", "bf16", "fp16"]),
    ],
)
def test_each_kind_of_study_compares_what_it_is_asked_for(
    kind: Kind, subject: Mapping[str, Any], names: list[str]
) -> None:
    assert [variant.name for variant in variants_of(kind, subject)] == names


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "model-size"}, "say which models to compare"),
        ({"kind": "scaling", "workload": ("run",)}, "compares training"),
        ({"kind": "communication", "subject": {"comm_hooks": "fp16"}}, "nothing to be compared with"),
        ({"kind": "communication", "subject": {"comm_hooks": "none,zip"}}, "communication hook"),
        (
            {"kind": "communication", "subject": {"algorithms": "ring,tree"}, "workload": ("train", "--backend=gloo")},
            "which NCCL alone reads",
        ),
        (
            {"kind": "communication", "subject": {"buffer_sizes": "4M,8M"}, "workload": ("train", "--backend=gloo")},
            "sets NCCL_BUFFSIZE, which NCCL alone reads",
        ),
        ({"kind": "communication", "subject": {"buffer_sizes": "4,8"}}, "not a size of NCCL's buffers"),
        ({"kind": "precision", "subject": {"dtypes": "fp32,int4"}}, "type to compute in"),
        ({"kind": "precision", "subject": {"dtypes": "fp32"}}, "nothing to be compared with"),
        ({"kind": "precision", "workload": ("train", "-d", "bf16")}, "is what this study sets"),
        (
            {"kind": "communication", "subject": {"bucket_sizes": "5,25"}, "workload": ("--strategy", "fsdp")},
            "of ddp's buckets",
        ),
        ({"kind": "strategy", "pricing": Pricing(node_type="toaster")}, "no list price of 'toaster'"),
    ],
)
def test_a_study_that_cannot_be_planned_leaves_no_folder(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    asked = StudyOptions(**options, output_dir=str(tmp_path / "studies"))
    with pytest.raises(UsageError, match=said):
        conduct(asked, interrupt=Interrupt(), progress=lambda _: pytest.fail("begun"))
    assert not (tmp_path / "studies").exists()


def test_what_the_plan_says_already_is_not_asked_for_again() -> None:
    with pytest.raises(UsageError, match="--networks is part of the plan"):
        StudyOptions(kind="network", resume="studies/x", subject={"networks": "tcp"})
    with pytest.raises(UsageError, match="train is part of the plan"):
        StudyOptions(kind="network", resume="studies/x", workload=("train",))
