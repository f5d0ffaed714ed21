from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.judging.timeline import stamp_of
from diagnostics.scanning.prefix import clean

RETRY = (
    "node-0:10:20 [0] transport/net_ib.cc:2250 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<41234> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_1"
)
MEMORY = "node-1:30:40 [0] enqueue.cc:99 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'"
NATIVE, UTC = "[2026-01-02 03:04:{:02d}] ", "2026-01-02T03:04:{:02d}.5Z stderr F "


@pytest.mark.parametrize(
    ("retry", "memory", "first"),
    [
        (NATIVE.format(9), NATIVE.format(1), "cuda-error"),
        (UTC.format(9), UTC.format(1), "cuda-error"),
        (NATIVE.format(1), NATIVE.format(9), "ib-retry-exceeded"),
        (NATIVE.format(9), UTC.format(1), "ib-retry-exceeded"),  # local time and UTC tell no order
        (NATIVE.format(9), "", "ib-retry-exceeded"),
        ("", "", "ib-retry-exceeded"),
    ],
)
def test_faults_of_several_files_go_by_their_stamps(tmp_path: Path, retry: str, memory: str, first: str) -> None:
    (tmp_path / "rank0.log").write_text(f"\n{retry}{RETRY}\n")
    (tmp_path / "rank1.log").write_text(f"\n{memory}{MEMORY}\n")
    diagnosis = diagnose_paths([tmp_path])
    assert {finding.rule for finding in diagnosis.findings} >= {"cuda-error", "ib-retry-exceeded"}
    assert diagnosis.findings[0].rule == first


def test_one_file_keeps_its_own_order(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(f"\n{NATIVE.format(9)}{RETRY}\n\n{NATIVE.format(1)}{MEMORY}\n")
    assert diagnose_paths([tmp_path]).findings[0].rule == "ib-retry-exceeded"


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ("[2026-01-02 03:04:05] h:1:2 [0] NCCL", ("local", "2026-01-02 03:04:05")),
        ("[pod/a/b] 2026-01-02T03:04:05.123Z h:1:2", ("iso", "2026-01-02T03:04:05.123")),
        ("[rank1]:[E1218 20:27:21.426 ProcessGroupNCCL.cpp:629] x", ("glog", "1218 20:27:21.426")),
        ("[rank1]:[E513 13:25:57.7147 ProcessGroupNCCL.cpp:616] x", ("glog", "0513 13:25:57.7147")),
        ("h:1:2 [0] NCCL INFO busId 2026-01", None),
        ("x" * 200 + "2026-01-02 03:04:05", None),
    ],
)
def test_stamps(line: str, stamp: tuple[str, str] | None) -> None:
    assert stamp_of(line) == stamp


@pytest.mark.parametrize(
    "head", ["[rank1]: ", "(RayTrainWorker pid=1, ip=10.0.0.1) ", "[pod/worker-1/main] ", "worker-1  | ", UTC.format(1)]
)
def test_an_exception_behind_a_prefix_of_its_launcher(tmp_path: Path, head: str) -> None:
    text = f"{head}Traceback (most recent call last):\n{head}ValueError: batch of 0 samples\n"
    (tmp_path / "a.log").write_text(text + "node-0:1:2 [0] NCCL WARN Connection closed by remote peer b<1>\n")
    (tmp_path / "b.log").write_text(text.replace("ValueError", "loss 0.5 after ValueError"))
    first = diagnose_paths([tmp_path / "a.log"]).findings[0]
    assert (first.rule, first.summary) == ("application-error", "The program raised ValueError: batch of 0 samples")
    assert "application-error" not in {finding.rule for finding in diagnose_paths([tmp_path / "b.log"]).findings}


@pytest.mark.parametrize(("watchdog", "error", "fires"), [("", "", True), (5, 1, True), (1, 5, False)])
def test_an_exception_in_a_file_that_is_read_later(
    tmp_path: Path, watchdog: int | str, error: int | str, fires: bool
) -> None:
    stamps = [UTC.format(number) if number else "" for number in (watchdog, error)]
    (tmp_path / "rank0.log").write_text(
        f"{stamps[0]}node-0:1:2 [0] NCCL WARN socketProgress: Connection closed by remote peer b<1>\n"
    )
    (tmp_path / "rank1.log").write_text(
        f"{stamps[1]}Traceback (most recent call last):\n{stamps[1]}ValueError: batch of 0 samples\n" + "epoch\n" * 200
    )
    findings = diagnose_paths([tmp_path]).findings
    assert ("application-error" in [finding.rule for finding in findings if finding.severity == "critical"]) is fires


def test_blanks_of_chat_programs_are_blanks() -> None:
    assert clean("h:1:2\u00a0[0]\u00a0NCCL\u00a0INFO\u00a0x".encode()) == "h:1:2 [0] NCCL INFO x"


GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:45492"
STORE_GONE = (
    "[rank0]:[W TCPStore.cpp:141] [c10d] recvValue failed on SocketImpl(fd=9, remote=[n0]:29500): Connection reset"
)
CLOSED = "node-0:10:20 [0] misc/socket.cc:915 NCCL WARN socketProgress: Connection closed by remote peer node-1<40000>"
WAITED = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds before timing out."
)
GLOG = "[rank3]:[E102 03:20:05.426 ProcessGroupNCCL.cpp:629] "
COMPLETE = "node-0:10:10 [0] NCCL INFO comm 0x1 rank 3 nranks 4 cudaDev 3 busId 1b000 - Init COMPLETE"


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        # another rank's watchdog ended its process: whose lines stand first tells no order
        ([GLOO, WAITED], "watchdog-timeout"),
        ([STORE_GONE, STORE_GONE, STORE_GONE, WAITED], "watchdog-timeout"),
        (["[2026-01-02 03:20:07] " + CLOSED, GLOG + WAITED], "watchdog-timeout"),
        # the times, or the lines of one rank, do
        (["[2026-01-02 03:10:04 TP0] " + GLOO, GLOG + WAITED], "peer-died"),
        (["[2026-01-02 03:10:04] " + CLOSED, GLOG + WAITED], "peer-died"),
        ([COMPLETE, CLOSED, WAITED], "peer-died"),
        ([CLOSED, WAITED], "peer-died"),  # NCCL's own, mostly of the rank that waits then
        # lack of memory does not come of a peer that does not answer
        ([RETRY, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."], "gpu-out-of-memory"),
        ([RETRY, MEMORY], "ib-retry-exceeded"),
    ],
)
def test_what_follows_may_be_printed_first(tmp_path: Path, lines: list[str], first: str) -> None:
    (tmp_path / "all.log").write_text("\n".join(lines) + "\n")
    assert diagnose_paths([tmp_path]).findings[0].rule == first
