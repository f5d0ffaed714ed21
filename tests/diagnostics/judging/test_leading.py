"""Where the verdict is open, the finding that carries the reason stands first."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading

BOOTSTRAP = "n1:41:41 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
NO_DEVICE = "n1:41:41 [0] NCCL INFO NET/IB : No device found."
SOCKET = "n1:41:41 [0] NCCL INFO Using network Socket"
START = "n1:41:41 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 4 cudaDev 0 busId 1000 commId 0x2 - Init START"
CHANNEL = "n1:41:41 [0] NCCL INFO Channel 00 : 1[21000] -> 0[1000] via P2P/IPC"
NO_VERBS = "n1:41:41 [0] NCCL INFO Failed to open libibverbs.so[.1]"
FAR = "n1:41:41 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)"
NO_NIC_DIRECT = "n1:41:41 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"


def _diagnose(*lines: str) -> Diagnosis:
    reading = Reading()
    reading.feed(Batch(file="job.log", block="\n".join(lines).encode(), first=True))
    reading.flush()
    return reading.diagnosis()


@pytest.mark.parametrize(("lines", "first"), [
    ((BOOTSTRAP, NO_DEVICE, SOCKET, START), "log-truncated"),
    ((BOOTSTRAP, NO_VERBS, SOCKET, CHANNEL), "log-truncated"),
    ((BOOTSTRAP, NO_VERBS), "log-too-quiet"),
    ((BOOTSTRAP, "[ERROR] runner.cpp:115 Execute Failed. st: 3"), "run-failed"),
    (("loading", "[ERROR] runner.cpp:115 Execute Failed. st: 3"), "run-failed"),
    (("nothing of NCCL",), "log-too-quiet"),
    (("loading", "the scheduler: job 124 died"), "run-failed"),  # in words that no rule knows
    (("loading", "timeout=1800, retry failed calls"), "log-too-quiet"),
    ((FAR,), "gdr-distance"),  # near misses: a line tells for certain of a slower path
    ((BOOTSTRAP, SOCKET, START, NO_NIC_DIRECT), "gdr-module-missing"),
    ((BOOTSTRAP, NO_DEVICE, SOCKET), "rdma-device-missing"),  # nothing was begun
])  # fmt: skip
def test_the_reason_of_an_open_verdict_is_the_first_finding(lines: tuple[str, ...], first: str) -> None:
    diagnosis = _diagnose(*lines)
    assert diagnosis.verdict == "unknown"
    assert (diagnosis.findings[0].rule, diagnosis.findings[0].severity) == (first, "info")
    assert diagnosis.findings[0].recommendations
    assert {"log-truncated", "log-too-quiet", "run-failed"} & {finding.rule for finding in diagnosis.findings}
    assert not {finding.rule for finding in diagnosis.findings} & set(diagnosis.rules_clear)


def test_a_verdict_that_is_not_open_has_no_such_finding() -> None:
    lines = [
        f"n1:4{rank}:4{rank} [{rank}] NCCL INFO {said}"
        for rank in (0, 1)
        for said in (
            f"comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank}b000 commId 0x2 - Init START",
            f"comm 0x1 rank {rank} nRanks 2 nNodes 1 localRanks 2 localRank {rank} MNNVL 0",
            f"comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank}b000 commId 0x2 - Init COMPLETE",
        )
    ]
    diagnosis = _diagnose(SOCKET, *lines)
    assert (diagnosis.verdict, diagnosis.findings) == ("ok", ())
