"""The proof goes through on a CPU, keeps what it has when it is cut, and takes no dry run for a GPU's."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.gpu.__main__ import main
from tests.gpu.messages import bandwidths_of
from tests.gpu.proof import Plan, empty_record, opened, outcome_of, prove
from tests.gpu.record import DRY_RUN, ON_GPU, Comparison, Record, StepRecord, alone, load, name_of, records_in, write
from tests.gpu.step import Bench, NotRunError, Outcome, Step
from tests.gpu.system import has_code
from tests.gpu.table import LONGEST_SECONDS, STEPS, step_of
from tests.processes.waiting import come_true, has_ended

ROOT = Path(__file__).parents[2]
_SPIED = ("is_available", "device_count", "_lazy_init", "get_device_capability", "current_device")
# The dry run in a process that notes who asks for GPUs while the modules of a rank host are imported.
_DRY_RUN = f"""
import importlib, sys, torch
asked = []
originals = {{name: getattr(torch.cuda, name) for name in {_SPIED!r}}}
for name, function in originals.items():
    setattr(torch.cuda, name, lambda *a, name=name, function=function, **k: asked.append(name) or function(*a, **k))
from raybench.benchmarks.registry import WORKLOADS, workload_of
from raybench.execution.ranks.rank_host import PRELOAD
benchmarks = [one for kind in WORKLOADS for one in workload_of(kind).benchmarks.values()]
for module in [*PRELOAD, "tests.gpu.table", *benchmarks]:
    importlib.import_module(module)
assert not asked, f"CUDA may be started before ranks are forked: {{asked}}"
for name, function in originals.items():
    setattr(torch.cuda, name, function)
from tests.gpu.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
def test_every_step_goes_through_on_a_cpu_and_what_is_imported_before_forks_asks_for_no_gpu(tmp_path: Path) -> None:
    words = ["--dry-run", "--short", "--records", str(tmp_path), "--logs", str(tmp_path / "logs")]
    done = subprocess.run(
        [sys.executable, "-c", _DRY_RUN, *words], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    ((name, record),) = records_in(tmp_path).items()
    assert name.startswith("dry-run-")
    assert record.label == DRY_RUN
    assert list(record.steps) == [step.id for step in STEPS]
    for step in STEPS:
        found = record.steps[step.id]
        if step.gpu_only or step.not_short or step.id == "agent-gpu":
            assert found.result == "not-run"
            assert found.reason
        else:
            assert found.result == "passed"
            assert found.devices == ("cpu",)
            assert found.comparisons
    assert_proves_nothing(record)


def assert_proves_nothing(record: Record) -> None:
    """Not even where somebody has given it the label and the machine of a GPU."""
    forged = msgspec.structs.replace(record, label=ON_GPU, machine={"gpus": [{"name": "NVIDIA H200"}]})
    assert forged.is_of_gpu
    for step in STEPS:
        assert not record.proves(step.id)
        assert not forged.proves(step.id)


def passed(**changes: object) -> StepRecord:
    step = StepRecord(result="passed", seconds=1.0, at="", source="", devices=("cuda:0",), gpus=("GPU-1",))
    return msgspec.structs.replace(step, **changes)


def test_a_step_is_proved_by_ranks_that_all_named_a_gpu() -> None:
    machine = {"gpus": [{"name": "NVIDIA H200", "uuid": "GPU-1"}]}
    record = Record(schema="", label=ON_GPU, date="", machine=machine, versions={})
    assert record.with_step("machine", passed()).proves("machine")
    for near_miss in (
        passed(result="failed"),
        passed(result="not-run"),
        passed(devices=("cpu", "cuda:0")),
        passed(devices=()),
        passed(gpus=()),
    ):
        assert not record.with_step("machine", near_miss).proves("machine")
    labelled = msgspec.structs.replace(record, label=DRY_RUN)
    assert not labelled.with_step("machine", passed()).proves("machine")


def test_the_records_that_are_kept_are_of_gpus() -> None:
    for name, record in records_in().items():
        assert record.is_of_gpu, f"{name} is no GPU's"
        stem = name_of(record.machine, record.date).removesuffix(".json")
        assert re.fullmatch(rf"{re.escape(stem)}(-\d+)?\.json", name)
        assert set(record.steps) <= {step.id for step in STEPS}


def test_the_steps_have_names_of_their_own_and_limits_that_add_up() -> None:
    assert len({step.id for step in STEPS}) == len(STEPS)
    assert sum(step.seconds for step in STEPS) <= LONGEST_SECONDS
    with pytest.raises(KeyError, match="train-ddp"):
        step_of("no-such-step")


def row(name: str, run: object, seconds: int = 20) -> Step:
    return Step(id=name, proves="", compared="", seconds=seconds, run=run)


def compared(value: float, **changes: object) -> object:
    one = Comparison(what="x", value=value, least=1.0, most=2.0, **changes)
    return lambda bench: Outcome(figures={"seconds": bench.seconds}, comparisons=[one])


def refuses(_: Bench) -> Outcome:
    raise NotRunError("there is no such device")


def breaks(_: Bench) -> Outcome:
    raise ValueError("wrong")


def hangs(bench: Bench) -> Outcome:
    child = subprocess.Popen(["sleep", "1000"])
    (bench.folder / "step.log").write_text("started a child")
    (bench.folder.parent / "child").write_text(str(child.pid))
    time.sleep(1000)
    raise AssertionError


def test_each_step_ends_within_its_limit_with_a_result_that_is_kept(tmp_path: Path) -> None:
    steps = [
        row("good", compared(1.5)),
        row("bad", compared(2.5)),
        row("unjudged", compared(2.5, judged=False)),
        row("unknown", compared(None)),
        row("nan", compared(float("nan"))),
        row("refused", refuses),
        row("broken", breaks),
        row("ended", lambda _: os._exit(7)),
        row("hanging", hangs, seconds=1),
    ]
    plan = Plan(steps=steps, on_gpu=False, short=False, folder=tmp_path, seconds=600.0)
    path = tmp_path / "record.json"
    record, left = prove(plan, path, empty_record(on_gpu=False), lambda _: None)
    assert left == []
    assert list(load(path).steps) == list(record.steps), "a proof that is cut goes on from the file"
    assert {name: one.result for name, one in record.steps.items()} == {
        "good": "passed",
        "unjudged": "passed",
        "refused": "not-run",
        **dict.fromkeys(("bad", "unknown", "nan", "broken", "ended", "hanging"), "failed"),
    }
    assert not Comparison(what="x", value=float("inf"), least=1.0).holds
    reasons = {name: one.reason or "" for name, one in record.steps.items()}
    assert reasons["bad"] == "x 2.5 (1..2)"
    assert reasons["unknown"] == "x unknown (1..2)"
    assert reasons["refused"] == "there is no such device"
    assert reasons["broken"] == "ValueError: wrong"
    assert "status 7" in reasons["ended"]
    assert "limit of 3 s" in reasons["hanging"]
    assert "started a child" in (tmp_path / "hanging.log").read_text()
    assert come_true(lambda: has_ended(int((tmp_path / "child").read_text())))


def test_a_proof_that_is_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    fresh = empty_record(on_gpu=False)
    steps = [row("first", compared(1.5)), row("second", refuses), row("third", compared(1.5), seconds=100)]
    short = Plan(steps=steps, on_gpu=False, short=False, folder=tmp_path, seconds=60.0)
    path, record = opened(tmp_path, fresh)
    _, left = prove(short, path, record, lambda _: None)
    assert left == ["third"]

    again, record = opened(tmp_path, fresh)
    assert again == path
    assert list(record.steps) == ["first", "second"]
    said: list[str] = []
    longer = Plan(steps=steps, on_gpu=False, short=False, folder=tmp_path, seconds=600.0)
    record, left = prove(longer, again, record, said.append)
    assert left == []
    assert list(record.steps) == ["first", "second", "third"]
    assert "passed on" in said[0], "what has a result is not done again"
    assert "not-run (" in said[1], "what could not be done is tried again"

    other = msgspec.structs.replace(fresh, versions={**fresh.versions, "torch": "1.0"})
    beside, empty = opened(tmp_path, other)
    assert empty.steps == {}, "other versions are another proof"
    assert beside.name == path.name.replace(".json", "-2.json"), "which takes nothing from the first"


def test_a_step_that_failed_is_done_again_once_the_code_is_another(tmp_path: Path) -> None:
    plan = Plan(steps=[row("bad", compared(2.5))], on_gpu=False, short=False, folder=tmp_path, seconds=600.0)
    path, said = tmp_path / "record.json", []
    record, _ = prove(plan, path, empty_record(on_gpu=False), said.append)
    prove(plan, path, record, said.append)
    assert "failed on" in said[1]
    mended = msgspec.structs.replace(record.steps["bad"], source="of another day")
    prove(plan, path, record.with_step("bad", mended), said.append)
    assert "failed (" in said[2]
    mended = msgspec.structs.replace(mended, result="passed")
    prove(plan, path, record.with_step("bad", mended), said.append)
    assert "passed on" in said[3]


@pytest.mark.parametrize(
    ("devices", "gpus", "judged", "result"),
    [
        ({"cuda:0"}, {"GPU-1"}, True, "passed"),
        ({"cuda:0"}, {"GPU-1"}, False, "failed"),
        ({"cpu", "cuda:0"}, {"GPU-1"}, True, "failed"),
        ({"cuda:0"}, set(), True, "failed"),
        (set(), set(), True, "failed"),
    ],
)
def test_on_a_gpu_a_step_passes_by_what_it_compared_on_ranks_of_that_gpu(
    tmp_path: Path, devices: set[str], gpus: set[str], judged: bool, result: str
) -> None:
    bench = Bench(on_gpu=True, short=False, folder=tmp_path, seconds=1.0, devices=devices, gpus=gpus)
    found = outcome_of(row("one", compared(1.5, judged=judged)), bench)
    assert found.result == result
    assert bool(found.reason) == (result == "failed")


def proof(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.gpu", "--dry-run", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_what_cannot_be_begun_is_invalid_usage_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "")  # main adds to it
    assert main(["--dry-run", "--only", "train-ddp,no-such-step"]) == 2
    assert "no-such-step is no step" in capsys.readouterr().err
    (tmp_path / "damaged.json").write_text('{"schema": "raybench.gpu-rec')
    words = ["--dry-run", "--only", "nccl-tests", "--records"]
    assert main([*words, str(tmp_path)]) == 2
    assert "damaged.json is no record" in capsys.readouterr().err
    (tmp_path / "damaged.json").unlink()
    assert main([*words, str(tmp_path / "file")]) == 3, "a proof of nothing is incomplete"
    (tmp_path / "a file").touch()
    assert main([*words, str(tmp_path / "a file")]) == 2
    with alone(tmp_path):
        assert main([*words, str(tmp_path)]) == 2
    assert "another proof writes to" in capsys.readouterr().err


@pytest.mark.long  # every day a step that hangs is ended with what it started: above
def test_a_proof_that_is_ended_takes_its_step_with_it_and_keeps_what_it_had(tmp_path: Path) -> None:
    words = ["--only", "nccl-tests,event-clock,collectives-4", "--records", str(tmp_path), "--logs", str(tmp_path)]
    process = proof(*words)
    assert process.stdout is not None
    for line in process.stdout:
        if "event-clock" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert "stopped; what was done before is in" in process.communicate(timeout=30)[0]
    assert process.returncode == 3
    ((_, record),) = records_in(tmp_path).items()
    assert list(record.steps) == ["nccl-tests", "event-clock"]
    assert not list(tmp_path.glob("rbg-*")), "nor its folder"


def test_a_file_of_another_kind_is_no_record(tmp_path: Path) -> None:
    write(tmp_path / "a.json", msgspec.structs.replace(empty_record(on_gpu=False), schema="other/1"))
    with pytest.raises(msgspec.ValidationError, match="other/1"):
        load(tmp_path / "a.json")


def test_the_architectures_of_a_build_tell_whether_a_gpu_is_served() -> None:
    assert has_code(["sm_80", "sm_90"], 9, 0)
    assert has_code(["sm_80"], 8, 9)
    assert has_code(["sm_90a"], 9, 0)
    assert has_code(["sm_80", "compute_90"], 10, 0)
    assert not has_code(["sm_86"], 8, 0)
    assert not has_code(["sm_80", "sm_90"], 12, 0)
    assert not has_code([], 9, 0)


def test_the_table_of_nccl_tests_is_read() -> None:
    text = """
# nThread 1 nGpus 1 minBytes 67108864 maxBytes 268435456 step: 4(factor) warmup iters: 1 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    67108864      16777216     float     sum      -1    42.10  1594.02    0.00      0    41.90  1601.64    0.00      0
   268435456      67108864     float     sum      -1   130.20  2061.72    0.00      0     0.61  440058    0.00      0
# Out of bounds values : 0 OK
"""
    assert bandwidths_of(text) == {67108864: 1594.02, 268435456: 2061.72}
