"""Lines that processes tore into each other: what a program wrote into a line of NCCL's is read, too."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading

CHANNEL = "n9:77:78 [1] NCCL INFO Channel 00/0 : 3[3] -> 0[0] via P2P/IPC"
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
TIMED_OUT = (
    "[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600061 milliseconds"
)


def _diagnose(text: str) -> Diagnosis:
    reading = Reading()
    reading.feed(Batch(file="job.log", block=text.encode(), first=True))
    reading.flush()
    return reading.diagnosis()


@pytest.mark.parametrize(("said", "rule"), [
    (OOM, "gpu-out-of-memory"),
    (TIMED_OUT, "watchdog-timeout"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda-error"),
    ("[rank2]: ValueError: no such split", "application-error"),
])  # fmt: skip
def test_an_error_before_and_behind_what_nccl_says_is_read(said: str, rule: str) -> None:
    trees = "n9:77:78 [1] NCCL INFO Trees [0] 1/-1/-1->0->-1"
    for text in (CHANNEL + said, f"{CHANNEL} {said}", *([trees + said] if "rror" in said else [])):
        assert _diagnose(text).findings[0].rule == rule, text
    assert rule in {finding.rule for finding in _diagnose(f"{said}{CHANNEL}").findings}


@pytest.mark.parametrize("line", [
    CHANNEL,
    f"[rank3]: {CHANNEL}",  # a launcher's mark is no line of its own
    f"(RayWorkerWrapper pid=7, ip=10.0.0.1) {CHANNEL}",
    "n9:77:78 [1] NCCL INFO NET/Plugin: Plugin load returned 2 : error: libnccl-net.so: cannot open shared object file",
    "n9:77:78 [1] NCCL INFO NCCL_DEBUG_FILE set by environment to /logs/Error: %h",
])  # fmt: skip
def test_what_is_nccls_own_is_no_line_of_a_program(line: str) -> None:
    assert not [finding for finding in _diagnose(line).findings if finding.severity == "critical"]
