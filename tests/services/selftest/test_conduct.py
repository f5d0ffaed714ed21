"""The order of a selftest: what it needs is looked at first, a run is done once, one that breaks spoils no other."""

import signal
import sys
from pathlib import Path

import pytest

from raybench.documents.selftest import DriverReading, SelftestCheck, TorchReading
from raybench.errors import IncompleteRunError
from raybench.processes.interrupt import Interrupt
from raybench.services.selftest import conduct as conduct_module
from raybench.services.selftest.check import Check, Outcome, Readings, RunReading, passed
from raybench.services.selftest.conduct import Conduct
from raybench.services.selftest.reading import probe, readings_of
from raybench.services.selftest.runs import run_config
from raybench.services.selftest.table import CHECKS, chosen_checks
from tests.services.selftest.machine import cluster, collectives, diagnosis, driver, readings, result, torch, unusable


class Told:
    """What was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, check: Check) -> None:
        self.lines.append(check.id)

    def step(self, text: str) -> None:
        self.lines.append(text)

    def end(self, check: SelftestCheck) -> None:
        self.lines.append(check.result)


def conducted(
    monkeypatch: pytest.MonkeyPatch,
    machine: Readings,
    checks: tuple[Check, ...] = CHECKS,
    *,
    run: RunReading | None = None,
    gpu_asked: bool = False,
    quick: bool = False,
) -> tuple[dict[str, SelftestCheck], list[str], Conduct]:
    """Each check's row, the names of the runs that were done, and the conduct."""
    done: list[str] = []
    one = Conduct(folder=Path("/x"), gpu_asked=gpu_asked, quick=quick, interrupt=Interrupt(), progress=Told())

    def do(_: Conduct, name: str) -> RunReading:
        done.append(name)
        return run or RunReading(result=result(collectives()), diagnosis=diagnosis())

    monkeypatch.setattr(conduct_module, "read_machine", lambda: machine)
    monkeypatch.setattr(Conduct, "_do", do)
    return {row.id: row for row in one.run(checks)}, done, one


NO_GPU = readings(
    driver=driver(pci_gpus=0, device_files=0, version=None, gpus=(), cuda=None, cuda_init=None, nvml_problem="no NVML"),
    torch=unusable(cuda=None, version="2.13.0+cpu", architectures=(), nccl=None, nccl_libraries=()),
)


def test_a_run_is_done_once_for_all_its_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, done, _ = conducted(monkeypatch, readings())
    assert done == ["collectives", "training", "memory"]
    of_collectives = ("ray-cluster", "gpu-count", "rank-devices", "collectives", "nccl-log", "gpu-p2p")
    assert {rows[name].result for name in of_collectives} == {"passed"}
    assert (rows["gpu-direct"].result, rows["gpu-direct"].seen) == (
        "not-run",
        "this machine has no RDMA port that is up",
    )


def test_checks_of_gpus_are_not_run_without_one_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    gloo = RunReading(result=result(collectives(), where=cluster((None, None), gpus=0, backend="gloo")))
    rows, _, _ = conducted(monkeypatch, NO_GPU, run=gloo)
    of_gpus = [check for check in CHECKS if check.needs]
    assert {(rows[check.id].result, rows[check.id].seen) for check in of_gpus if "rdma" not in check.needs} == {
        ("not-run", "this machine has no NVIDIA GPU")
    }
    assert rows["collectives"].result == "passed"


def test_gpus_that_were_asked_for_and_are_not_there_end_it_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, done, _ = conducted(monkeypatch, NO_GPU, gpu_asked=True)
    assert (done, rows["collectives"].result) == ([], "not-run")


def test_a_gpu_that_torch_cannot_use_is_a_failure_even_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _, _ = conducted(monkeypatch, readings(torch=unusable()))
    assert rows["torch-cuda"].result == "failed"
    assert rows["gpu-count"].seen == "torch cannot use a GPU here (torch-cuda)"


def test_a_driver_that_could_not_be_read_rules_no_gpu_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hung = "nothing came within 60 s: the driver hangs, or the disk is slow"
    machine = readings(driver=DriverReading(problem=hung), torch=TorchReading(problem=hung))
    rows, _, _ = conducted(monkeypatch, machine, chosen_checks(["torch-import", "gpu-driver", "torch-cuda", "cudnn"]))
    assert {name: row.result for name, row in rows.items()} == {
        "torch-import": "failed",
        "gpu-driver": "unknown",
        "torch-cuda": "unknown",
        "cudnn": "not-run",
    }
    assert "no NVIDIA GPU" not in "".join(row.seen for row in rows.values())


def test_one_gpu_leaves_the_checks_of_two_out(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = torch(gpus=torch().gpus[:1])
    rows, _, _ = conducted(monkeypatch, readings(torch=alone), chosen_checks(["gpu-p2p"]))
    assert rows["gpu-p2p"].seen == "there is one GPU, and it needs two"


def test_a_run_that_cannot_begin_fails_its_checks_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _, _ = conducted(monkeypatch, NO_GPU, run=RunReading(problem="Ray does not answer"))
    assert (rows["collectives"].result, rows["collectives"].seen) == ("failed", "Ray does not answer")
    assert rows["torch-import"].result == "passed"


def test_quick_leaves_out_what_takes_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, done, _ = conducted(monkeypatch, NO_GPU, quick=True)
    assert (rows["memory"].seen, done) == ("left out by --quick", ["collectives", "training"])


def test_a_check_that_breaks_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Readings) -> Outcome:
        raise KeyError("ranks")

    check = Check(id="x", title="", proves="", judge=broken)
    rows, _, _ = conducted(monkeypatch, readings(), (check,))
    assert (rows["x"].result, rows["x"].seen) == ("unknown", "the check broke (KeyError: 'ranks')")


def test_what_is_left_when_the_user_stops_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: Readings) -> Outcome:
        raise KeyboardInterrupt

    def fine(_: Readings) -> Outcome:
        return passed("fine")

    checks = tuple(
        Check(id=name, title="", proves="", judge=judge) for name, judge in (("a", fine), ("b", stop), ("c", fine))
    )
    rows, _, one = conducted(monkeypatch, readings(), checks)
    assert ([row.result for row in rows.values()], one.stopped) == (["passed", "not-run", "not-run"], True)


def test_a_run_that_was_cut_by_the_user_accuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = RunReading(result=result((), status="partial", recorded_verdict="incomplete", recorded_reason="stopped"))
    one = Conduct(folder=Path("/x"), gpu_asked=False, quick=False, interrupt=Interrupt(), progress=Told())
    one.interrupt.received = 1
    monkeypatch.setattr(conduct_module, "read_machine", lambda: NO_GPU)
    monkeypatch.setattr(Conduct, "_do", lambda _, __: cut)
    rows = one.run(chosen_checks(["collectives", "memory"]))
    assert [(row.result, row.seen) for row in rows] == [("not-run", "stopped by the user")] * 2


def test_an_error_of_a_run_is_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IncompleteRunError("the driver ended")

    monkeypatch.setattr("raybench.services.run.run", broken)
    monkeypatch.setattr(conduct_module, "read_machine", lambda: NO_GPU)
    one = Conduct(folder=tmp_path, gpu_asked=False, quick=False, interrupt=Interrupt(), progress=Told())
    rows = one.run(chosen_checks(["memory"]))
    assert [(row.result, row.seen) for row in rows] == [("failed", "the driver ended")]
    assert one.backend == "gloo"


def test_a_probe_that_hangs_or_crashes_is_a_reason_and_what_it_said_before_is_kept() -> None:
    line = '{"pci_gpus": 8, "version": "580.95.05"}'
    crash = f"import os, signal, sys; print('{line}', flush=True); os.kill(os.getpid(), signal.{signal.SIGSEGV.name})"
    found, torch_reading = probe([sys.executable, "-c", crash], 20.0)
    assert (found.pci_gpus, found.version) == (8, "580.95.05")
    assert torch_reading.problem == "the process that imports torch was killed by SIGSEGV"
    hang = "import time; time.sleep(60)"
    found, torch_reading = probe([sys.executable, "-c", hang], 0.3)
    assert "nothing came within 0 s" in torch_reading.problem
    assert found.problem == torch_reading.problem


def test_lines_that_are_no_readings_are_not_taken_for_any() -> None:
    found, torch_reading = readings_of([b"warning: numpy is missing"], "it ended")
    assert (found.version, torch_reading.problem) == (None, "it ended")


@pytest.mark.parametrize("gpus", [0, 1, 8])
@pytest.mark.parametrize("quick", [False, True])
def test_every_run_of_the_table_can_be_asked_for(gpus: int, quick: bool) -> None:
    names = {check.run for check in CHECKS if check.run}
    for name in names:
        config = run_config(name, gpus=gpus, output_dir=Path("/x"), quick=quick)
        assert (config.backend, config.address) == ("nccl" if gpus else "gloo", "local")
        assert config.plan("nccl" if gpus else "gloo")
    trained = {
        check.id.removeprefix("training-") for check in CHECKS if check.run == "training" and (check.quick or not quick)
    }
    assert set(run_config("training", gpus=gpus, output_dir=Path("/x"), quick=quick).suite.split(",")) == trained
