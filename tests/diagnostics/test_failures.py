"""Warnings that no rule knows: what fails the run is told from what NCCL goes on after, by texts of its sources."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from tests.diagnostics import threads

PREFIX = "n1:41:41 [3] "
WORK = (
    "NCCL INFO Using network IB",
    "NCCL INFO comm 0x5 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    "NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xab - Init COMPLETE",
)
# file, text, from the sources of 2.10.3 to 2.30.7; behind each the call returns an error
FATAL = (
    ("enqueue.cc:5", "AllReduce : communicator was revoked"),
    ("misc/argcheck.cc:5", "Broadcast : sendbuff argument is NULL"),
    ("init.cc:5", "Attempt to use communicator before the previous operation returned ncclSuccess"),
    ("bootstrap.cc:5", "Bootstrap Root : localId 7 is out of range"),
    ("group.cc:5", "Either none or all communicators in a ncclGroup() can be CUDA graph captured."),
    ("transport/net_ib/connect.cc:5", "Listencomm in unknown state 7"),
    ("init.cc:5", "improper usage of ncclCommInitRank: nId = 2, nranks=2"),
    ("graph/search.cc:5", "Rank 7 requires NIC 7 but that NIC is not available for rank 7"),
    ("transport.cc:5", "No transport found for rank 0[1000] -> rank 1[1000]"),
    ("misc/socket.cc:5", "socketTryAccept: exceeded error retry count after 34 attempts, Invalid argument"),
    (
        "init.cc:5",
        "Detected mixed local CollNet device counts across ranks (min 0, max 8). Set NCCL_IGNORE_COLLNET_MISMATCH=1",
    ),
    ("transport/net_ib/p2p_resiliency.cc:5", "NET/IB: The error is fatal (IBV_WC_LOC_QP_OP_ERR). Cannot continue."),
    (
        "transport/net_ib.cc:5",
        "NET/IB : Got completion from peer 10.0.0.2<4> with error 2, opcode 0, len 0, vendor err 7",
    ),
    ("graph/rings.cc:5", "Error : ring 0 does not contain rank 3"),
    ("graph/xml.cc:5", "ncclTopoFillNet: parent is NULL even after fallback for mlx5_0"),
    ("ib_plugin.c:5", "NET/IB : Unable to create the receive queue"),
)
# behind these it goes on
HARMLESS = (
    ("init.cc:5", "NCCL_WORK_FIFO_BYTES=3 is being ignored because it is not a power of 2."),
    ("init.cc:5", "CollNet currently only supports up to 8 GPUs per node, disabling CollNet"),
    ("init.cc:5", "minCTAs 64 is larger than maxCTAs 32, set both to 32"),
    (
        "transport/net_socket.cc:5",
        "NET/Socket : NCCL_SOCKET_NTHREADS is greater than the maximum allowed, setting to 16",
    ),
    ("graph/connect.cc:5", "User asked for a minimum of 64 channels, limiting to 32"),
    ("transport/shm.cc:5", "Ignoring SHM locality, must be 1 (sender side) or 2 (receiver side, default)"),
    ("plugin/profiler.cc:5", "Profiler init failed with error (3). Continue without profiler."),
    ("register/register.cc:5", "rank 0 deregister NET buffer handle 0x7f proxy rank 0 failed"),
    ("graph/xml.cc:5", "No NVML device handle. Skipping nvlink detection."),
    ("os/linux.cc:5", "unlink shared memory /dev/shm/nccl-a failed, error: Permission denied (13)"),
    ("graph/tuning.cc:5", "Invalid NCCL_NTHREADS 1000 (maximum 512)."),
)


def diagnosis_of(*messages: str) -> Diagnosis:
    reading = Reading()
    lines = ["NCCL version 2.27.5+cuda12.8", *(PREFIX + message for message in messages)]
    reading.feed(Batch(file="a.log", block="\n".join(lines).encode(), first=True))
    reading.flush()
    return reading.diagnosis()


@pytest.mark.parametrize(("place", "text"), FATAL, ids=[text[:40] for _, text in FATAL])
def test_a_warning_that_fails_the_call_is_critical_though_nothing_else_is_said(place: str, text: str) -> None:
    diagnosis = diagnosis_of(f"{place} NCCL WARN {text}")
    assert diagnosis.verdict == "critical"
    assert text in diagnosis.findings[0].evidence[0].text


@pytest.mark.parametrize(
    "line",
    [
        "include/socket.h:344 WARN Socket creation failed : Address family not supported by protocol",
        "misc/ibvwrap.cu:60 WARN Call to ibv_create_qp failed",
        "> transport/net_ib.cu:455 WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129",
        "bootstrap.cu:28 WARN Connection closed by remote peer",
    ],
)
def test_a_warning_of_2_2_is_one_without_its_host_too(line: str) -> None:
    assert threads.diagnose(line).verdict == "critical"


@pytest.mark.parametrize("line", ["server/socket.h:344 WARN Socket creation failed", "main.cc:12 WARN it failed"])
def test_warnings_of_other_programs_are_not_nccls(line: str) -> None:
    assert threads.diagnose(line).verdict == "unknown"


def test_a_bus_error_points_to_shared_memory() -> None:
    finding = _followed_by("[gpu01:4117:0:4180] Caught signal 7 (Bus error: nonexistent physical address)").findings[0]
    assert "/dev/shm" in finding.explanation
    assert "more-shm" in {one.action for one in finding.recommendations}


@pytest.mark.parametrize(("place", "text"), FATAL, ids=[text[:40] for _, text in FATAL])
def test_where_the_process_goes_on_to_work_it_did_not_fail(place: str, text: str) -> None:
    assert "run-failed" not in {f.rule for f in diagnosis_of(f"{place} NCCL WARN {text}", *WORK).findings}


@pytest.mark.parametrize(("place", "text"), HARMLESS, ids=[text[:40] for _, text in HARMLESS])
def test_a_warning_that_nccl_goes_on_after_fails_nothing(place: str, text: str) -> None:
    assert diagnosis_of(f"{place} NCCL WARN {text}").verdict == "unknown"
    assert diagnosis_of(*WORK, f"{place} NCCL WARN {text}").verdict == "ok"


FAILED_AFTER_WORK = (
    "srun: error: gpu01: task 3: Killed",
    "srun: error: gpu01: tasks 2-3: Segmentation fault (core dumped)",
    "srun: error: gpu01: task 3: Out Of Memory",
    "srun: error: Node failure on gpu01",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed.",
    "run.sh: line 12:  4117 Killed                  python train.py",
    "/bin/bash: line 1: 4117 Bus error               (core dumped) python train.py",
    "prterun noticed that process rank 1 with PID 13 on node n1 exited on signal 6 (Aborted).",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "[gpu01:4117:0:4180] Caught signal 7 (Bus error: nonexistent physical address)",
    "[gpu01:04117] Signal: Bus error (7)",
    "Fatal Python error: Bus error",
    "[gpu01:04117] Signal: Aborted (6)",
    "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
    "The actor is dead because its worker process has died.",
    "Worker PID: 66408 Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: the node is low on memory",
    "(raylet) The node with node id: 08a5 and address: 10.0.0.7 has been marked dead because of missed heartbeats",
    "# Out of bounds values : 12 FAILED",
    (
        "[rank0]:[F1218 20:27:21.4 ProcessGroupNCCL.cpp:1557] [PG ID 0 Rank 0] ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    ),
    "[pod/worker-0/trainer] 2026-11-22T08:33:08.123456789Z torch.OutOfMemoryError: CUDA out of memory.",
)
NO_FAILURES = (
    "Killed 3 stale workers of the last run",
    "INFO: task 3: Killed time 12 s",
    "# Out of bounds values : 0 OK",
    "Installing a handler: signal 9 cannot be caught",
    "Aborted 0 requests",
    "Signal: SNR 12 dB",
    "Worker PID: 66408 Worker exit type: INTENDED_USER_EXIT Worker exit detail: exit() was called",
    "12 samples were marked dead by the filter",
    "[0] tcpxCommProgress(tcpxComm*):1231 NCCL WARN 0xa:0xb, nic 0, rx rx ctrl timeout cnt 733, nanos 1000",
    "bus error counter: 0",
)


_LATER = "Of the allocated memory 50.94 GiB is allocated by PyTorch, and {} is reserved by PyTorch but unallocated."
_EARLIER = (
    "(GPU 0; 15.78 GiB total capacity; 13.20 GiB already allocated; 1.06 GiB free; {} reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("asked", "said", "pieces"),
    [
        ("4.35 GiB", _LATER.format("8.56 GiB"), ": 8.56 GiB are reserved in pieces, none of 4.35 GiB"),  # fifth.txt
        ("512.00 MiB", _LATER.format("1.10 GiB"), ": 1.10 GiB are reserved in pieces, none of 512.00 MiB"),
        ("20.00 MiB", _EARLIER.format("14.31 GiB"), ": 1.11 GiB are reserved in pieces, none of 20.00 MiB"),
        ("4.35 GiB", _LATER.format("474.00 MiB"), ""),
        ("2.00 GiB", _EARLIER.format("14.31 GiB"), ""),
        ("2.00 GiB", "", ""),
        ("a lot", _LATER.format("8.56 GiB"), ""),
    ],
)
def test_memory_that_lies_in_pieces_is_told_from_memory_that_is_used_up(asked: str, said: str, pieces: str) -> None:
    finding, *_ = _followed_by(
        f"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. {said}"
    ).findings
    assert finding.rule == "gpu-out-of-memory"
    assert finding.summary == f"GPU memory is used up by the program{pieces}"
    advice = " ".join(command for one in finding.recommendations for command in one.commands)
    assert ("expandable_segments:True" in advice) == bool(pieces)


@pytest.mark.parametrize("line", FAILED_AFTER_WORK, ids=[line[:40] for line in FAILED_AFTER_WORK])
def test_what_ends_a_run_that_worked_is_critical_and_quoted(line: str) -> None:
    diagnosis = _followed_by(line)
    assert diagnosis.verdict == "critical"
    assert any(line[-30:] in evidence.text for finding in diagnosis.findings for evidence in finding.evidence)


KILLED_FIRST = (
    "srun: error: gpu01: task 3: Killed",
    "srun: error: gpu01: tasks 2-3: Segmentation fault (core dumped)",
    "prterun noticed that process rank 1 with PID 13 on node n1 exited on signal 9 (Killed).",
    "[3256824.3] Killed process 9666 (python) total-vm:53893188kB, anon-rss:23892380kB",
)
NO_ANSWER = "transport/net_ib.cc:2451 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<59296> with status=12"


@pytest.mark.parametrize("killed", KILLED_FIRST)
def test_a_peer_that_was_killed_before_is_why_it_answers_no_more(killed: str) -> None:
    findings = _followed_by(f"{killed}\n{PREFIX}{NO_ANSWER}").findings
    assert findings[0].rule == "peer-died"
    assert "ib-retry-exceeded" not in {finding.rule for finding in findings}
    assert NO_ANSWER in findings[0].evidence[-1].text


@pytest.mark.parametrize("killed", [*KILLED_FIRST, "srun: error: gpu01: task 3: Aborted (core dumped)"])
def test_a_peer_that_is_killed_behind_lost_transfers_is_their_consequence(killed: str) -> None:
    assert _followed_by(f"{PREFIX}{NO_ANSWER}\n{killed}").findings[0].rule == "ib-retry-exceeded"


@pytest.mark.parametrize("line", NO_FAILURES, ids=[line[:40] for line in NO_FAILURES])
def test_words_of_a_failure_in_other_lines_accuse_nothing(line: str) -> None:
    assert _followed_by(line).verdict == "ok"


def _followed_by(line: str) -> Diagnosis:
    reading = Reading()
    block = "\n".join(["NCCL version 2.27.5+cuda12.8", *(PREFIX + message for message in WORK), line])
    reading.feed(Batch(file="a.log", block=block.encode(), first=True))
    reading.flush()
    return reading.diagnosis()


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (
            "n1: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details)'",
            "critical",
        ),
        ("ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.", "critical"),
        ("Traceback (most recent call last):\nKeyError: 'loss'", "critical"),
    ],
    ids=["nccl-tests", "ray", "program"],
)
def test_work_in_a_file_that_is_read_later_does_not_show_that_a_failed_rank_went_on(line: str, verdict: str) -> None:
    reading = Reading()
    for name, pid, more in (("rank0.log", 41, [line]), ("rank1.log", 42, [])):
        messages = [f"n1:{pid}:{pid} [0] " + message.replace("rank 0", f"rank {pid - 41}") for message in WORK]
        reading.feed(Batch(file=name, block="\n".join([*messages, *more]).encode(), first=True))
    reading.flush()
    assert reading.diagnosis().verdict == verdict


@pytest.mark.parametrize(
    "line",
    [
        "# Out of bounds values : 12 FAILED",
        "n1: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details)'",
        "[rank0]:[F1218 20:27:21.4 ProcessGroupNCCL.cpp:1557] ProcessGroupNCCL's watchdog got stuck for 480 seconds",
    ],
    ids=["wrong data", "nccl-tests", "watchdog"],
)
def test_what_no_program_goes_on_after_is_critical_before_the_output_of_other_ranks_in_one_file(line: str) -> None:
    others = [message.replace("n1:41:41", "n1:42:42").replace("rank 0", "rank 1") for message in WORK]
    reading = Reading()
    lines = [*(PREFIX + message for message in WORK), line, *("n1:42:42 [1] " + message for message in others)]
    reading.feed(Batch(file="all.log", block="\n".join(lines).encode(), first=True))
    reading.flush()
    assert reading.diagnosis().verdict == "critical"


@pytest.mark.parametrize(("ranks_after", "verdict"), [((), "critical"), ((1,), "unknown"), ((0, 1), "ok")])
def test_a_program_went_on_after_its_exception_only_where_every_rank_of_the_file_did(
    ranks_after: tuple[int, ...], verdict: str
) -> None:
    work = {
        rank: [f"n1:{41 + rank}:{41 + rank} [0] " + message.replace("rank 0", f"rank {rank}") for message in WORK]
        for rank in (0, 1)
    }
    after = [line for rank in ranks_after for line in work[rank]]
    raised = ["Traceback (most recent call last):", "KeyError: 'loss'"]
    reading = Reading()
    reading.feed(Batch(file="a.log", block="\n".join([*work[0], *work[1], *raised, *after]).encode(), first=True))
    reading.flush()
    assert reading.diagnosis().verdict == verdict


REFUSED = (
    "AllReduce : communicator was revoked",
    "Broadcast : sendbuff 0x5 is not a valid pointer",
    "FP8 reduction support begins with sm90 capable devices.",
    "ncclGroupEnd: not in a group call.",
    "ncclCommGrow: existing ranks must pass rank=-1, got 3",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_call_that_nccl_refuses_is_told_apart_from_faults_of_network_and_machine(text: str) -> None:
    marked = diagnosis_of(*WORK, f"enqueue.cc:5 NCCL WARN {text}")
    bare = threads.diagnose(f"NCCL version 2.30.7+cuda13.0\n{text}")
    for diagnosis in (marked, bare):
        assert diagnosis.verdict == "critical"
        assert (diagnosis.findings[0].rule, "refused a call" in diagnosis.findings[0].explanation) == (
            "run-failed",
            True,
        )


def test_results_of_a_refused_call_say_so_without_its_warning() -> None:
    said = {
        code: diagnosis_of(f"NCCL INFO enqueue.cc:5 -> {code}", f"NCCL INFO init.cc:9 -> {code}")
        .findings[0]
        .explanation
        for code in (3, 4, 5)
    }
    assert ["refused a call" in said[code] for code in (3, 4, 5)] == [False, True, True]


def test_frames_beyond_those_that_are_kept_are_not_taken_for_collnets() -> None:
    """Each of 500 ranks says first that CollNet is given up, and only then that its initialisation failed."""
    given_up = [f"n1:{pid}:{pid} [0] NCCL INFO init.cc:670 -> 2" for pid in range(1000, 1500)]
    warned = "n1:999:999 [0] transport.cc:323 NCCL WARN Cannot initialize CollNet, using point-to-point network instead"
    failed = [f"n1:{pid}:{pid} [0] NCCL INFO init.cc:1089 -> 2" for pid in range(1000, 1500)]
    verdicts = []
    for lines in (given_up[:300], given_up + failed):
        reading = Reading()
        reading.feed(Batch(file="a.log", block="\n".join([warned, *lines]).encode(), first=True))
        reading.flush()
        verdicts.append(reading.diagnosis().verdict)
    assert verdicts == ["unknown", "critical"]
