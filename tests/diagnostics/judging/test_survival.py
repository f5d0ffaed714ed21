"""A warning that reads as a failure, and a run that goes on behind it: no alarm where nothing tells that it failed."""

import pytest

from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from tests.diagnostics.threads import diagnose

START = """\
n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:1:1 [0] NCCL INFO Using network IB
n1:1:9 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 1 cudaDev 0 busId b000 commId 0xab - Init START
"""
COMPLETE = START.splitlines(keepends=True)[-1].replace("START", "COMPLETE")
DESTROYED = "n1:1:1 [0] NCCL INFO comm 0x5 rank 0 nranks 1 cudaDev 0 busId b000 - Destroy COMPLETE\n"
ABORTED = DESTROYED.replace("Destroy", "Abort")
STEPS = "".join(f"step {number} loss 2.{9 - number} tokens/s 123{number}\n" for number in range(3))
FRAME = "n1:1:9 [0] NCCL INFO group.cc:64 -> 3 [Async thread]\n"
FAILS = "\nn1:1:9 [0] x.cc:7 NCCL WARN {}\n"
SCANNED = FAILS.format("socketFinalizeAccept: wrong magic 3132333435 != 564ab9f2")
NEW = FAILS.format("MemManager: Recv from rank 4 failed - handle exchange incomplete")
IPC = FAILS.format("UDS: Binding to socket /tmp/nccl-socket-1 failed : Address already in use (98)")
FULL = FAILS.format("Failed to CUDA calloc 6291456 bytes")
LOST = FAILS.format("socketProgress: Connection closed by remote peer n2<45678>")


@pytest.mark.parametrize("warning", [SCANNED, NEW, IPC, FULL], ids=["scanned", "new", "ipc", "full"])
@pytest.mark.parametrize(("before", "behind", "alarm"), [
    (START + COMPLETE, STEPS, False),
    (START, COMPLETE + STEPS, False),
    (START, COMPLETE + DESTROYED, False),
    ("", STEPS, False),  # NCCL_DEBUG=WARN
    (START + COMPLETE, STEPS + DESTROYED, False),
    (START, COMPLETE, None),  # no line shows that the work was done
    (START + COMPLETE, "", True),
    (START + COMPLETE + STEPS, "", True),
    (START + COMPLETE, STEPS.splitlines(keepends=True)[0], True),  # that may have been printed before
    (START + COMPLETE, DESTROYED, True),  # behind the warning there is no work
    (START, COMPLETE + ABORTED, None),
    (START + COMPLETE, FRAME + STEPS, True),
    (START + COMPLETE, STEPS + "srun: error: n1: task 0: Exited with exit code 1\n", True),
    (START + COMPLETE, STEPS + "[rank0]: torch.distributed.DistBackendError: NCCL error in: a.cpp:1\n", True),
    (START + COMPLETE, STEPS + "Traceback (most recent call last):\n", True),
    (START + COMPLETE, STEPS + "n2:7:7 [0] x.cc:7 NCCL WARN Cuda failure 'unspecified launch failure'\n", True),
])  # fmt: skip
def test_what_follows_a_warning_decides_whether_the_run_failed_of_it(
    warning: str, before: str, behind: str, alarm: bool | None
) -> None:
    diagnosis = diagnose(before + warning + behind)
    assert alarm is None or (diagnosis.verdict == "critical") is alarm


def test_a_finding_says_that_the_run_went_on() -> None:
    found = diagnose(START + COMPLETE + IPC + STEPS).findings[0]
    assert (found.rule, found.severity) == ("p2p-ipc-failed", "warning")
    assert "The run went on behind it (step 2 loss 2.7 tokens/s 1232)" in found.explanation


def test_a_rank_that_is_lost_before_the_results_stays_one() -> None:
    assert diagnose(START + COMPLETE + LOST + "# Out of bounds values : 0 OK\n").verdict == "critical"


def test_steps_of_another_file_tell_nothing_of_a_warning() -> None:
    reading = Reading()
    for file, text in (("a.log", START + COMPLETE + NEW), ("b.log", STEPS)):
        reading.feed(Batch(file=file, block=text.encode(), first=True))
    reading.flush()
    assert reading.diagnosis().verdict == "critical"


@pytest.mark.parametrize(("warning", "top"), [
    ("[Service thread] Error encountered progressing operation=Connect, res=2, closing connection", "peer-died"),
    ("Socket recv failed while polling for opId=0x7fa0242685e0", "peer-died"),
    ("[Service thread] Error encountered progressing operation=Close, res=2, closing connection", ""),
    ("[Service thread] Accept failed Resource temporarily unavailable", ""),
])  # fmt: skip
def test_what_the_proxy_says_counts_while_ranks_connect_and_is_quoted_where_it_is_all(warning: str, top: str) -> None:
    alone = [one.rule for one in diagnose(START + COMPLETE + FAILS.format(warning)).findings if one.severity != "info"]
    assert alone == ([top] if top else [])
    failed = diagnose(START + FAILS.format(warning) + FRAME).findings[0]
    assert failed.rule == (top or "run-failed")
    assert any(warning in evidence.text for evidence in failed.evidence)
    assert diagnose(START + COMPLETE + DESTROYED + FAILS.format(warning)).verdict == "ok"


@pytest.mark.parametrize(("reason", "rule"), [
    ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 9",
     "watchdog-timeout"),
    ("Watchdog caught collective operation timeout", "watchdog-timeout"),
    ("NCCL error: unhandled system error, NCCL version 2.14.3", "peer-died"),
])  # fmt: skip
def test_a_rank_that_its_own_watchdog_ended_lost_no_peer(reason: str, rule: str) -> None:
    aborted = f"RuntimeError: NCCL communicator was aborted on rank 3. Original reason for failure was: {reason}\n"
    assert diagnose(aborted).findings[0].rule == rule


@pytest.mark.parametrize(("size", "rule"), [
    ("more than 1EB memory", "watchdog-timeout"),
    ("131072.00 TiB", "watchdog-timeout"),
    ("2.00 GiB", "gpu-out-of-memory"),  # others wait for the rank that has no memory
])  # fmt: skip
def test_a_size_that_no_gpu_has_follows_from_the_collective_that_timed_out(size: str, rule: str) -> None:
    memory = f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}.\n"
    timeout = (
        "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, "
        "OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800493 milliseconds before timing out.\n"
    )
    assert diagnose(timeout + "Traceback (most recent call last):\n" + memory).findings[0].rule == rule
    assert diagnose("Traceback (most recent call last):\n" + memory).findings[0].rule == "gpu-out-of-memory"


RAISED = """\
Traceback (most recent call last):
  File "train.py", line 88, in main
    batch["attention_mask"]
KeyError: 'attention_mask'
"""
TEARDOWN = "n2:7:9 [0] NCCL INFO [Service thread] Connection closed by localRank 0\n"
EPILOGUE = "node n1: leases handed back\n"


@pytest.mark.parametrize(("text", "verdict"), [
    (STEPS + RAISED + EPILOGUE * 160, "unknown"),
    (STEPS + RAISED.replace("KeyError", "trainer.Stop") + EPILOGUE * 160, "unknown"),
    (STEPS + RAISED + TEARDOWN * 160, "unknown"),
    (RAISED + EPILOGUE * 160 + STEPS, "ok"),  # caught
    (RAISED + STEPS * 20, "ok"),
    (RAISED + EPILOGUE * 160 + "# Out of bounds values : 0 OK\n", "ok"),
    ("Exception ignored in: <function Pool.__del__ at 0x7f>\n" + RAISED + EPILOGUE * 160, "ok"),
    ("".join(f"[rank0]: {line}\n" for line in RAISED.splitlines())
     + "".join(f"[rank1]: {line}\n" for line in STEPS.splitlines()), "unknown"),
    ("".join(f"(worker pid=1, ip=10.0.0.1) {line}\n" for line in RAISED.splitlines())
     + "".join(f"(worker pid=2, ip=10.0.0.2) {line}\n" for line in STEPS.splitlines()), "unknown"),
])  # fmt: skip
def test_an_exception_counts_however_much_others_print_behind_it_until_work_is_done(text: str, verdict: str) -> None:
    assert diagnose(START + COMPLETE + text).verdict == verdict


STORE_GONE = (
    '[rank1]:[W1127 ProcessGroupNCCL.cpp:1662] [PG ID 0 Rank 1] Failed to check the "should dump" flag on TCPStore, '
    "(maybe TCPStore server has shut down too early), with error: Broken pipe\n"
)
TWO_RANKS = "".join(
    f"n{rank}:{rank}:1 [0] NCCL INFO comm 0x5 rank {rank} nranks 2 cudaDev 0 busId b000 commId 0xab - Init {state}\n"
    for state in ("START", "COMPLETE")
    for rank in (0, 1)
)


@pytest.mark.parametrize(("told", "verdict"), [
    ("", "unknown"),
    ("Training completed successfully.", "unknown"),  # by whom is not said
    ("[Rank 0] Training job finished successfully!", "unknown"),
    ("[Rank 0] Training job finished successfully!\n[Rank 1] Training job finished successfully!", "ok"),
    ("[INFO] [launch.py:350:main] Process 15 exits successfully.", "unknown"),
    ("\n".join(f"[INFO] [launch.py:350:main] Process {pid} exits successfully." for pid in (15, 16)), "ok"),
    ("I1127 api.py:900] [default] worker group successfully finished. Waiting 300 seconds", "ok"),
    ("State: COMPLETED (exit code 0)", "ok"),
    ("worker group successfully finished\nsrun: error: n1: task 1: Exited with exit code 1", "critical"),
])  # fmt: skip
def test_a_store_that_left_is_no_question_where_the_end_of_all_is_proven(told: str, verdict: str) -> None:
    start = START.splitlines(keepends=True)[0] + START.splitlines(keepends=True)[1] + TWO_RANKS
    assert diagnose(f"{start}{STORE_GONE}{told}\n").verdict == verdict


@pytest.mark.parametrize(("glued", "verdict", "rules"), [
    ("NCCL INFO Connected all treesRuntimeError: NCCL error: unhandled system error", "critical", ["run-failed"]),
    ("x.cc:7 NCCL WARN Cuda failure 'out of memory'[rank0]: RuntimeError: NCCL error: unhandled system error",
     "critical", ["gpu-out-of-memory"]),
    ("x.cc:7 NCCL WARN Widget failedtorch.distributed.DistBackendError: NCCL error in: ../x.cpp:1, NCCL version 2.21.5",
     "critical", ["run-failed"]),
    ("x.cc:7 NCCL WARN NET/OFI Request 0x1 completed with error. RC: 107. Error: Transport endpoint is not connected",
     "critical", ["net-plugin-broken"]),
])  # fmt: skip
def test_an_error_glued_behind_a_line_of_nccl_is_one_failure(glued: str, verdict: str, rules: list[str]) -> None:
    diagnosis = diagnose(f"{START}{COMPLETE}n1:1:1 [0] {glued}\n")
    assert diagnosis.verdict == verdict
    assert [finding.rule for finding in diagnosis.findings if finding.severity != "info"] == rules


@pytest.mark.parametrize(("stack", "behind", "verdict"), [
    ("transport/net_ib.cc:1293 -> 6\ntransport/net.cc:1134 -> 6\nproxy.cc:694 -> 6", "", "critical"),
    ("transport/p2p.cc:275 -> 1\ntransport.cc:33 -> 1", "n2:7:9 [0] NCCL INFO still fine\n", "critical"),
    ("graph/xml.cc:33 (ncclTopoGetXml) -> 2", EPILOGUE * 60, "critical"),
    ("register/register.cc:33 -> 3\nmisc/strongstream.cc:97 -> 1", "", "critical"),
    ("/build/nccl/src/plugin/net/net_v10.cc:75 -> 3", "", "critical"),
    ("transport/net.cc:1134 -> 6", STEPS, "ok"),
    ("transport/net.cc:1134 -> 6", COMPLETE, "ok"),
    ("transport/net.cc:1134 -> 6", DESTROYED, "ok"),
    ("transport/net.cc:1134 -> 6", "# Out of bounds values : 0 OK\n", "ok"),
    ("transport/net.cc:1134 -> 7", "", "ok"),  # in progress
    ("transport/net.cc:1134 -> 0", "", "ok"),
    ("misc/socket.cc:47 -> 3\nmisc/socket.cc:826 -> 3", "", "ok"),  # a peer that has ended closed it
    ("include/coll_net.h:21 -> 3\ncoll_net.cc:765 -> 2", "", "ok"),
])  # fmt: skip
def test_a_stack_of_any_source_is_a_failure_where_nothing_is_done_behind_it(
    stack: str, behind: str, verdict: str
) -> None:
    lines = "".join(f"n1:1:9 [0] NCCL INFO {line}\n" for line in stack.splitlines())
    assert diagnose(START + COMPLETE + lines + behind).verdict == verdict
    assert diagnose(START.replace("- Init START", "") + lines).verdict == "unknown"  # of what it does without


LONG = "y" * 9000


@pytest.mark.parametrize(("text", "verdict"), [
    (f"{LONG[:2500]} Segmentation fault (core dumped)\n", "critical"),
    (f"{LONG} exited with code 1\n", "critical"),
    (f"{LONG * 300} RuntimeError: NCCL error: unhandled system error\n", "critical"),
    (f"[rank1] FATAL: the loader crashed\n{LONG}\n", "critical"),
    (f"{LONG[:3000]}{SCANNED}{LONG}\n", "critical"),
    (f"{LONG[:3000]} n1:1:9 [0] x.cc:7 NCCL WARN Cuda failure 'out of memory'\n", "critical"),
    (f"{LONG}\n", "ok"),
    ("\r".join(f"{number}%| step {number}/100 loss 2.1 1.2it/s {LONG[:90]}" for number in range(90)) + "\n", "ok"),
])  # fmt: skip
def test_of_a_long_line_the_front_and_the_end_are_read(text: str, verdict: str) -> None:
    assert diagnose(START + COMPLETE + STEPS + text).verdict == verdict
