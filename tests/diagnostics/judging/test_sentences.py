"""What a sentence says is what the log shows: no reason for which no line speaks."""

import pytest

from tests.diagnostics.threads import diagnose

WATCHDOG = (
    "[rank{0}]:[E] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)
TRANSFER = "n1:4:5 [0] ofi_process_cq:1033 NCCL WARN NET/OFI Request 0x7f0 completed with error. RC: {}. Error: {}.\n"
SENTENCES = (
    (WATCHDOG.format(5), "or wrote to another log", "Which rank was late"),
    ("".join(WATCHDOG.format(rank) for rank in range(1, 8)), "look there", "another log"),
    (TRANSFER.format(21, "unknown error"), "Mostly the receiver's process", ""),
    (TRANSFER.format(103, "103 (Unreachable remote)"), "The receiver's process", "Mostly"),
    ("ssh: Could not resolve hostname w-3.w.svc: Name or service not known\n", "The name cannot be", "Refused means"),
    (
        "[E socket.cpp:9] [c10d] The client socket has timed out after 300s while trying to connect to (n1, 29400).\n",
        "Timed out means",
        "name",
    ),
    ("Out of memory: Killed process 45123 (python) total-vm:5kB\n", "out of memory is the host", "neighbours"),
    (
        "[n1:22011] *** Process received signal ***\n[n1:22011] Signal: Segmentation fault (11)\n",
        "(Segmentation",
        "(signal",
    ),
    (
        "n1:4:5 [0] misc/socket.cc:5 NCCL WARN socketProgress: Connection closed by remote peer n2<4>\n",
        "neighbours",
        "This tells how",
    ),
    (
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown\n",
        "No call of CUDA",
        "fork",
    ),
    (
        (
            "n1:9:9 [0] NCCL INFO NET/IB : No device found.\n"
            "n1:9:9 [0] plugin/net.cc:210 NCCL WARN Failed to initialize any NET plugin\n"
        ),
        "NCCL stops",
        "costs nothing",
    ),
    (
        "Horovod: tensors were submitted to be reduced, gathered or broadcasted by subset of ranks\n",
        "Horovod",
        "PyTorch",
    ),
)


@pytest.mark.parametrize(("text", "said", "unsaid"), SENTENCES, ids=[said for _, said, _ in SENTENCES])
def test_a_sentence_claims_no_more_than_the_log_shows(text: str, said: str, unsaid: str) -> None:
    finding = diagnose(text).findings[0]
    told = f"{finding.summary} {finding.explanation}"
    assert said in told
    assert not unsaid or unsaid not in told


@pytest.mark.parametrize(("text", "advice"), [
    ("NVRM: Xid (PCI:0000:9b:00): 79, pid=7, GPU has fallen off the bus.\n", "out of service"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "out of service"),
    ("nvidia-container-cli: ldcache error: process /sbin/ldconfig failed\n", "on the host"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered\n", "asynchronous error"),
])  # fmt: skip
def test_advice_is_of_the_hardware_the_container_or_the_program(text: str, advice: str) -> None:
    told = diagnose(text).findings[0].recommendations
    assert len(told) == 1
    assert advice in told[0].text


RANGE = "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n"
RANK = "#  Rank  0 Group  0 Pid 12 on n1 device  0 [0x1a] NVIDIA H100 80GB HBM3\n"
UNREAD = (
    "n1:4:5 [0] misc/rocmwrap.cc:229 NCCL WARN pfn_hsa_system_get_info failed with 4107\n"
    "n1:4:5 [0] NCCL INFO comm 0x51 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n"
)


@pytest.mark.parametrize(("text", "said", "unsaid"), [
    (RANGE + RANK, "no row of its table: it hangs at its first size", "gloo"),
    (RANGE + RANK + "# Out of bounds values : 0 OK\n" + RANGE, "output of nccl-tests", "No problem"),
    ("epoch 1 loss 0.3\n", "another backend such as gloo", "nccl-tests"),
    (UNREAD, "It is open whether the run works: 1 warnings of NCCL that no rule explains", "No problem is shown"),
    ("n1:4:5 [0] NCCL INFO Using network IB\n", "the job hangs before", "warnings"),
])  # fmt: skip
def test_what_is_open_is_no_problem_that_is_not_shown(text: str, said: str, unsaid: str) -> None:
    told = diagnose(text).explanation
    assert said in told
    assert unsaid not in told
