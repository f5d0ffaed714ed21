"""``raybench study`` as a user meets it: stopped, killed, resumed, shown again; and what it refuses."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from raybench.cli.study_options import workload_of
from raybench.documents.study.plan import Expectation, VariantFacts
from tests.command import Command, answer, raybench, started
from tests.studies.sample import run_result, training_point

NODES = ("--address", "local", "--nodes", "2")  # the workload's, as what the study does not know
WORKLOAD = ("--", "run", "--suite", "all_reduce", "--sizes", "1K", "--iters", "2")
FACTS = VariantFacts(expects=Expectation(kind="socket"))
PLAN = ("study", "network", "--networks", "tcp,other=lo", "--repeats", "2", "--seed", "5")


def study_folder(command: Command) -> Path:
    """The folder of the study that it made."""
    found: Path = command.wait_for(lambda: next(iter((command.folder / "runs").glob("network-*")), None))
    return found


def complete_trials(folder: Path) -> list[str]:
    results = sorted(folder.glob("trials/*/*/result.json"))
    return [path.parents[1].name for path in results if json.loads(path.read_text())["status"] == "complete"]


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.alone  # its verdict is that of ranks whose speed is compared
def test_a_study_that_is_killed_and_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    order = ["000-other", "001-tcp", "002-tcp", "003-other"]
    with started(*PLAN, "--output-dir", str(tmp_path), *NODES, *WORKLOAD, given=True) as killed:
        killed.wait_for(lambda: list(tmp_path.glob("*/trials/001-*/*/samples.jsonl")), 90)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(60)
        assert killed.left_over(30) == {}  # the kernel told the trial
    (folder,) = tmp_path.glob("network-*")
    assert complete_trials(folder)[0] == order[0]
    first = next(folder.glob("trials/000-*/*/result.json"))
    written = first.stat().st_mtime_ns

    with started("study", "network", "--resume", str(folder), given=True) as stopped:
        stopped.wait_for(lambda: list(folder.glob("trials/002-*/*/samples.jsonl")), 90)
        stopped.process.send_signal(signal.SIGINT)
        assert stopped.finish(60) == 3
        assert f"continue with: raybench study network --resume {folder}" in stopped.errors
        assert "VERDICT: INCOMPLETE: stopped by you; " in stopped.out
        assert not re.search("failed|is partial|critical|was not begun", stopped.out + stopped.errors)
        assert stopped.left_over() == {}
    content = json.loads((folder / "study.json").read_text())
    assert (content["status"], content["stopped"]) == ("partial", True)

    done = raybench("study", "network", "--resume", str(folder / "study.json"), seconds=120)
    assert done.returncode == 3, done.stderr  # all was measured, and no network was proved: unknown
    assert sorted(set(complete_trials(folder))) == order
    assert first.stat().st_mtime_ns == written  # what was complete is not done again
    check_shown(done.stdout, folder)


def check_shown(text: str, folder: Path) -> None:
    content: dict[str, Any] = json.loads((folder / "study.json").read_text())
    assert content["schema"] == "raybench.study-result/1"
    assert (content["status"], content["emulated"], content["seed"]) == ("complete", True, 5)
    assert content["order"] == [["other", "tcp"], ["tcp", "other"]]
    assert {trial["folder"] for trial in content["trials"]} == set(complete_trials(folder))
    assert content["answer"]["proofs"]["tcp"]["verdict"] == "unproven"
    assert "no verdict" in content["answer"]["speedups"][0]["verdict"]
    assert "EMULATED" in text
    page = (folder / "study.html").read_text()
    assert "EMULATED" in page
    assert "http-equiv" in page
    assert "<svg" in page
    (folder / "study.html").unlink()
    again = raybench("study", "show", str(folder))
    assert (again.returncode, again.stderr) == (3, "")
    assert "VERDICT: UNKNOWN: " in text
    assert again.stdout == text
    assert (folder / "study.html").read_text() == page
    assert json.loads(raybench("study", "show", str(folder), "--json").stdout) == content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["network", "--networks", ""], "has an empty part"),
        (["model-size"], "say which models to compare, such as --models gpt2,gpt2-xl"),
        (["network", "--networks", "tcp,ether"], "'ether' is not a network; there are: tcp, rdma-no-gdr, rdma"),
        (["network", "--networks", "tcp,,rdma"], "has an empty part"),
        (["network", "--networks", "tcp,tcp"], "tcp is there twice"),
        (["network", "--networks", "tcp,rdma", "--repeats", "0"], "--repeats is 0"),
        (["network", "--networks", "tcp,rdma", "--timeout", "nan"], "--timeout is nan"),
        (["network", "--networks", "tcp,rdma", "--seed", "-4"], "--seed is -4"),
        (["network", "--networks", "tcp,rdma", "--", "run", "--sizes", "8:1:2"], "swap the two"),
        (["network", "--networks", "tcp,rdma", "--nodse", "2", "--", "run"], "No such option"),
        (["network", "--networks", "a=lo,b=lo", "--output-dir", "/proc/nowhere"], "cannot be written"),
        (["network", "--networks", "tcp"], "has nothing to compare with"),
        (["model-size", "--models", "tiny,lama-8b"], "did you mean 'llama-8b'"),
        (["network", "--resume", "/nowhere"], "is not the folder of a study"),
        (["network", "--resume", "/nowhere", "--networks", "tcp"], "--networks is part of the plan"),
        (["scaling", "--nodes", "1,2"], ""),
        (["scaling", "--nodes", "2"], "at least two different numbers of nodes"),
        (["scaling", "--nodes", "1,x"], "is not a list of integers"),
        (["scaling", "--nodes", "1,2,4", "--batch-size", "6"], "give a multiple of 4, such as 8, or --mode weak"),
        (["scaling", "--nodes", "1,2", "--", "run"], "a study of scaling compares training"),
        (["network", "run", "--continue-without"], "makes a trial of fewer nodes, which is not comparable"),
        (["scaling", "--nodes", "1,2", "--", "train", "--batch-size", "32"], "--batch-size is what this study sets"),
        (["scaling", "--nodes", "1,2", "--", "train", "--nodes=2"], "--nodes is what this study sets"),
        (["model-size", "--models", "gpt2,tiny", "--", "train", "-m", "gpt2"], "--model is what this study sets"),
        (["strategy", "--", "train", "--strategy", "fsdp"], "--strategy is what this study sets"),
        (["scaling", "--nodes", "1,2", "--keep-warm=9"], "--keep-warm holds nodes that trials on another number"),
        (["scaling", "--nodes", "1,2", "--price", "-1"], "a node hour cannot cost -1"),
        (["scaling", "--nodes", "1,2", "--node-type", "toaster"], "there is no list price of 'toaster'"),
        (["strategy", "--strategies", "ddp", "--node-type", "toaster"], "there is no list price of 'toaster'"),
        (["network", "--networks", "tcp,rdma", "--prices", "p.csv"], "--prices needs --node-type"),
        (["batch-size", "--node-type", "x", "--prices", "/no/such.csv"], "--prices /no/such.csv cannot be read"),
        (["batch-size", "--epoch-samples", "0"], "--epoch-samples is 0; it must be at least 1"),
        (["strategy", "--strategies", "ddp,zero"], "no strategy to compare named 'zero'"),
        (["batch-size", "--batch-sizes", "1,0"], "'0' is not a batch size"),
        (["model-size", "--models", "../x"], "is not the name of a model"),
        (["show", "/nowhere"], "is not the folder of a study"),
    ],
)
def test_wrong_use_is_one_message_and_leaves_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    if arguments == ["scaling", "--nodes", "1,2"]:
        arguments = [*arguments, "--model", "no-such-model"]
    if "--output-dir" not in arguments and arguments[0] != "show":
        arguments = (
            [arguments[0], "--output-dir", str(tmp_path), *arguments[1:]] if "--resume" not in arguments else arguments
        )
    done = answer("study", *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_study_that_cannot_go_on_loses_nothing(tmp_path: Path) -> None:
    """The cluster that it ran on is gone: each variant is refused, and what was measured is still there."""
    from raybench.documents.study.plan import Study, Variant
    from raybench.studies.folder import StudyFolder

    workload = ("run", "--address", "127.0.0.1:1")
    plan = Study(kind="network", workload=workload, variants=(Variant(name="tcp", facts=FACTS),), repeats=2, seed=1)
    folder = StudyFolder.create(str(tmp_path), plan)
    result = folder.trial_path(plan.trials()[0]) / "20261121-000000-aaaa" / "result.json"
    result.parent.mkdir(parents=True)
    result.write_text(json.dumps(run_result([training_point(0.1)])))
    done = answer("study", "network", "--resume", str(folder.path))
    assert (done.returncode, "no Ray cluster answers at '127.0.0.1:1'" in done.stderr) == (2, True)
    assert folder.study() == plan
    assert complete_trials(folder.path) == ["000-tcp"]
    folder.discard()
    assert folder.study() == plan
    assert json.loads(answer("study", "show", str(folder.path), "--json").stdout)["status"] == "partial"


def test_a_study_is_resumed_as_what_it_is(tmp_path: Path) -> None:
    from raybench.documents.study.plan import Study, Variant
    from raybench.studies.folder import StudyFolder

    plan = Study(kind="strategy", workload=("train",), variants=(Variant(name="ddp"),), repeats=3, seed=1)
    folder = StudyFolder.create(str(tmp_path), plan)
    assert folder.study() == plan
    done = answer("study", "network", "--resume", str(folder.path))
    assert (done.returncode, "raybench study strategy --resume" in done.stderr) == (2, True)
    done = answer("study", "strategy", "--resume", str(folder.path), "--repeats", "2")
    assert (done.returncode, "cannot take any away" in done.stderr) == (2, True)
    with folder.held():
        done = answer("study", "strategy", "--resume", str(folder.path))
        assert (done.returncode, "is being run by another raybench" in done.stderr) == (2, True)
    shown = answer("study", "show", str(folder.path))
    assert shown.returncode == 3
    assert "VERDICT: INCOMPLETE: trials are missing; 0 of 3 trials complete" in shown.stdout
    (folder.path / "plan.json").write_text('{"schema": "raybench.study/1", "kind": "strategy"}')
    assert answer("study", "show", str(folder.path)).returncode == 2


@pytest.mark.parametrize(
    ("unknown", "after", "workload"),
    [
        (["--model", "tiny"], [], ("--model", "tiny")),
        (["--nodes", "2"], ["run", "--sizes", "1M"], ("run", "--nodes", "2", "--sizes", "1M")),
        ([], ["train", "--model", "tiny"], ("train", "--model", "tiny")),
        (["run", "--sizes", "1M"], [], ("run", "--sizes", "1M")),
        (["--model", "tiny"], ["--seed", "3"], ("--model", "tiny", "--seed", "3")),
        ([], [], ()),
    ],
)
def test_the_workload_is_what_a_study_does_not_know(
    unknown: list[str], after: list[str], workload: tuple[str, ...]
) -> None:
    assert workload_of(unknown, after) == workload


@pytest.mark.parametrize(
    "kind", ["network", "scaling", "strategy", "communication", "precision", "batch-size", "model-size", "show"]
)
def test_every_study_explains_itself(kind: str) -> None:
    done = answer("study", kind, "--help")
    assert done.returncode == 0
    assert kind == "show" or f"raybench study {kind}" in done.stdout
