"""What frameworks, launchers, schedulers and the kernel say of a run that failed, behind a start that worked."""

from pathlib import Path

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading

_LINES = Path(__file__).with_name("program_failures.txt")
START = [
    f"n1:4{rank}:4{rank} [{rank}] NCCL INFO {message.format(rank=rank)}"
    for message in (
        "Using network IB",
        "ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank}b000 commId 0x2 - Init START",
        "comm 0x1 rank {rank} nRanks 2 nNodes 1 localRanks 2 localRank {rank} MNNVL 0",
        "ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank}b000 commId 0x2 - Init COMPLETE",
        "Connected all rings",
    )
    for rank in (0, 1)
]


def _diagnose(text: str) -> Diagnosis:
    reading = Reading()
    reading.feed(Batch(file="job.log", block="\n".join([*START, text]).encode(), first=True))
    reading.flush()
    return reading.diagnosis()


def _blocks(heading: str) -> list[str]:
    """The blocks of a part of the file, without its comment lines."""
    part = next(part for part in _LINES.read_text().split("\n=== ") if part.startswith(heading + "\n"))
    return [block.strip("\n") for block in part.removeprefix(heading + "\n").split("\n---\n")]


def test_the_start_alone_is_no_problem() -> None:
    assert _diagnose("").verdict == "ok"


@pytest.mark.parametrize("heading", ["run-failed", "peer-died", "cuda-error", "gpu-out-of-memory", "init-hang",
                                     "bootstrap-unreachable", "collective-mismatch", "watchdog-timeout",
                                     "net-plugin-broken", "straggler", "shm-too-small",
                                     "memlock-limit", "application-error", "file-limit", "ib-connect-failed",
                                     "roce-gid-invalid", "memory-registration-failed", "ib-protection-error",
                                     "ib-retry-exceeded", "shm-attach-failed"])  # fmt: skip
def test_each_way_to_say_that_a_run_failed_is_critical_and_of_its_rule(heading: str) -> None:
    wrong = []
    for block in _blocks(heading):
        diagnosis = _diagnose(block)
        top = diagnosis.findings[0].rule if diagnosis.findings else "nothing"
        if (diagnosis.verdict, top) != ("critical", heading):
            wrong.append(f"{diagnosis.verdict}, {top}: {block}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("heading", ["cut", "unknown"])
def test_a_job_that_was_cut_or_ends_with_an_exception_is_never_ok(heading: str) -> None:
    verdict = {"cut": "warning", "unknown": "unknown"}[heading]
    assert {block: _diagnose(block).verdict for block in _blocks(heading)} == dict.fromkeys(_blocks(heading), verdict)


def test_near_misses_are_no_failures() -> None:
    assert {block: _diagnose(block).verdict for block in _blocks("ok")} == dict.fromkeys(_blocks("ok"), "ok")


@pytest.mark.parametrize("line", ["UCX  ERROR   ibv_create_qp(rc) on mlx5_0 failed: Connection timed out",
                                  "/nvshmem/src/ibrc.cpp:418: non-zero status: 110 ibv_modify_qp failed"])  # fmt: skip
def test_connections_of_other_libraries_say_nothing_of_the_network_that_nccl_uses(line: str) -> None:
    reading = Reading()
    reading.feed(Batch(file="job.log", block=line.encode(), first=True))
    reading.flush()
    assert reading.diagnosis().network == "unknown"


def test_other_ranks_that_go_on_in_the_same_file_hide_no_lack_of_memory() -> None:
    raised = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
    raised += "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 39.59 GiB total capacity)\n"
    diagnosis = _diagnose(raised + "n1:40:40 [0] NCCL INFO Connected all rings")
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "gpu-out-of-memory")


def test_what_other_libraries_call_an_error_tells_its_number_and_the_link_layer() -> None:
    modify = "ibgda.cpp:1345: non-zero status: 121 Error in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 29e0df"
    assert "121 EREMOTEIO" in _alone(modify).findings[0].summary
    diagnosis = _alone("ib_mlx5_log.c:179  UCX  ERROR Local protection error on mlx5_0:1/RoCE (synd 0x4 vend 0x51)")
    assert (diagnosis.network, diagnosis.findings[0].rule) == ("roce", "ib-protection-error")
    assert diagnosis.findings[0].occurrences == 1


@pytest.mark.parametrize(("line", "rules"), [
    ("W1130 12:13:49.388000 1 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting",
     ["run-failed", "job-cancelled"]),
    ("KeyboardInterrupt", ["run-failed", "job-cancelled"]),
    ("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***", ["job-cancelled"]),
    ("srun: Force Terminated job 12\nReceived SIGTERM: 15", ["job-cancelled"]),  # whoever ended it is known
])  # fmt: skip
def test_a_signal_that_nobody_explains_leaves_open_why_the_run_ended(line: str, rules: list[str]) -> None:
    diagnosis = _alone(line)
    assert diagnosis.verdict == "warning"
    assert [finding.rule for finding in diagnosis.findings if finding.severity != "info"] == rules
    worked = [finding.rule for finding in _diagnose(line).findings]  # it is no failure of what worked until then
    assert worked == ["job-cancelled"]


@pytest.mark.parametrize("line", [
    "j:1:1 [0] init.cc:471 NCCL WARN Failed to find nvml device for busId 0000:00:00.0. This may affect performance.",
    'srun --kill-on-bad-exit=1 bash -c "',
])  # fmt: skip
def test_a_device_that_nvml_does_not_know_and_an_option_of_srun_are_no_failures(line: str) -> None:
    assert _alone(line).verdict == "unknown"
    assert _above_info(line) == []


CUDA = "RuntimeError: CUDA error: an illegal memory access was encountered"
RAISED = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n{CUDA}'
GOES_ON = "n1:4{0}:4{0} [{0}] NCCL INFO Connected all rings"


@pytest.mark.parametrize("text", [
    f"{RAISED}\n{GOES_ON.format(0)}",  # whoever raised it, one of the two does not go on
    f"{CUDA}\n{GOES_ON.format(1)}\n{GOES_ON.format(1)}",
    f"1: {CUDA}\n{GOES_ON.format(0)}",
    f"[rank1]: {CUDA}\n{GOES_ON.format(0)}",
    f"[1,1]<stderr>:{CUDA}\n{GOES_ON.format(0)}",
])  # fmt: skip
def test_an_error_is_not_survived_by_the_work_of_another_rank(text: str) -> None:
    diagnosis = _diagnose(text)
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "cuda-error")


@pytest.mark.parametrize("text", [
    f"{CUDA}\n{GOES_ON.format(0)}\n{GOES_ON.format(1)}",
    f"[rank1]: {CUDA}\n{GOES_ON.format(1)}",
    f"1: {CUDA}\n{GOES_ON.format(1)}",
    f"cuda_driver.cc:152] failed call to cuInit: {CUDA}\n{GOES_ON.format(1)}",  # TensorFlow does without
])  # fmt: skip
def test_an_error_is_survived_where_its_rank_or_all_go_on(text: str) -> None:
    assert _diagnose(text).verdict == "ok"


@pytest.mark.parametrize("step", ["ep 1 train, step {}, loss 250.5, mem_usage:cuda:1 4.9GB, 8.2 sec/step",
                                  "{}/64 [=====>....] - ETA: 3s - loss: 0.4117 - 28ms/step",
                                  "Epoch 2:  {}2%| | 9/64 [00:04<00:02,  2.61it/s, loss=0.61, v_num=6]"])  # fmt: skip
def test_steps_that_say_how_long_they_take_show_work_without_a_line_of_nccl(step: str) -> None:
    reading = Reading()
    reading.feed(Batch(file="job.log", block="\n".join(map(step.format, range(3))).encode(), first=True))
    reading.flush()
    assert reading.diagnosis().verdict == "ok"


STORE = (
    "[rank1]:[W1 TCPStore.cpp:106] [c10d] recvValue failed on SocketImpl(fd=6, addr=[n1]:6, remote=[n0]:29500): reset"
)


def _alone(text: str) -> Diagnosis:
    reading = Reading()
    reading.feed(Batch(file="job.log", block=text.encode(), first=True))
    reading.flush()
    return reading.diagnosis()


def _above_info(text: str) -> list[str]:
    return [finding.rule for finding in _alone(text).findings if finding.severity != "info"]


def test_a_store_that_is_gone_tells_of_a_dead_rank_where_a_log_says_nothing_else() -> None:
    assert _alone(STORE).findings[0].rule == "peer-died"
    steps = "\n".join(f"iter {number} loss 0.5 12.1 tokens/s" for number in range(3))
    assert _above_info(f"{STORE}\n{steps}") == []


def test_a_group_that_failed_and_was_restarted_works_where_steps_follow() -> None:
    failed = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    steps = "\n".join(f"iter {number} loss 0.5 12.1 tokens/s" for number in range(3))
    assert _alone(failed + steps).verdict == "ok"
    assert _alone(failed).findings[0].rule == "run-failed"


@pytest.mark.parametrize(("behind", "rule"), [("", "run-failed"), ("\nmylib.Trouble: x", "run-failed"),
                                              ("\nlr 1e-4" * 60, ""), (f"\n{START[0]}", "")])  # fmt: skip
def test_an_excerpt_that_ends_in_a_traceback_tells_of_an_exception(behind: str, rule: str) -> None:
    text = f'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    main(){behind}'
    assert _above_info(text) == [rule] * bool(rule)


LOOPBACK = "n9:41:41 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>"
REFUSED = "n9:41:42 [0] NCCL INFO Call to connect returned Connection refused, retrying"
COMPLETE = "n9:41:42 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE"


@pytest.mark.parametrize(("lines", "verdict"), [
    ([LOOPBACK, *[REFUSED] * 3], "critical"),
    ([LOOPBACK.replace("[0]lo:127.0.0.1", "lo:127.0.1.1"), *[REFUSED] * 6], "critical"),
    ([LOOPBACK.replace("Using [0]lo", "Using lo"), *[REFUSED] * 4, "make: leaving"], "critical"),
    ([LOOPBACK, REFUSED], "unknown"),  # the peer starts later
    ([LOOPBACK, *[REFUSED] * 3, COMPLETE], ""),  # on one machine loopback is good
    ([LOOPBACK.replace("lo:127.0.0.1", "eth0:10.0.0.1"), *[REFUSED] * 3], "unknown"),
])  # fmt: skip
def test_a_rank_that_is_refused_at_loopback_to_the_end_of_its_log(lines: list[str], verdict: str) -> None:
    diagnosis = _alone("\n".join(lines))
    rules = [finding.rule for finding in diagnosis.findings]
    assert ("wrong-interface" in rules) == (verdict == "critical")
    assert not verdict or diagnosis.verdict == verdict


TRIED = "connect to 10.9.0.4<40113> returned {}, retrying (1/34) after sleep for 100 msec"
OF_N9 = "n9:41:42 [0] NCCL INFO socketPollConnect: "
STEPS = "\n".join(f"iter {number} loss 0.5 12.1 tokens/s" for number in range(3))


@pytest.mark.parametrize(("lines", "severity"), [
    ([OF_N9 + TRIED.format("Network is unreachable")], "warning"),
    ([f"[rank1]: {TRIED.format('No route to host')}"], "warning"),
    (["NCCL INFO Call to connect returned No route to host, retrying"], "warning"),
    ([f"NCCL INFO {TRIED.format('Host is down')}", "job ended"], "warning"),
    ([OF_N9 + TRIED.format("No route to host"), "RuntimeError: NCCL error: unhandled system error"], "critical"),
    ([OF_N9 + TRIED.format("Network is unreachable"), COMPLETE], ""),
    ([OF_N9 + TRIED.format("Network is unreachable"), STEPS], ""),
    ([f"NCCL INFO {TRIED.format('No route to host')}", COMPLETE.partition(" [0] ")[2]], ""),
    ([OF_N9 + TRIED.format("Connection refused")], ""),
])  # fmt: skip
def test_an_attempt_without_a_route_that_nothing_follows(lines: list[str], severity: str) -> None:
    diagnosis = _alone("\n".join(lines))
    found = {finding.rule: finding.severity for finding in diagnosis.findings}
    assert found.get("wrong-interface", "") == severity
    assert severity != "warning" or "No problem is shown" not in diagnosis.explanation


@pytest.mark.parametrize("line", [OF_N9 + TRIED.format("Connection refused"), TRIED.format("Connection refused"),
                                  "NCCL INFO Call to connect returned Connection refused, retrying"])  # fmt: skip
def test_no_problem_is_shown_never_stands_over_an_attempt_that_failed_last(line: str) -> None:
    diagnosis = _alone(line)
    assert diagnosis.verdict == "unknown"
    assert diagnosis.explanation.startswith("It is open whether the run works: ")


def test_an_xid_goes_before_the_cuda_error_that_follows_from_it() -> None:
    xid = "kernel: NVRM: Xid (PCI:0000:1b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x1 0x2)"
    finding = _diagnose(f"{CUDA}\n{xid}").findings[0]
    assert "Xid (PCI:0000:1b:00): 145" in finding.summary
    assert "NVLink" in finding.explanation


def test_a_process_that_was_killed_for_lack_of_memory_is_said_to_be() -> None:
    finding = _diagnose("systemd[1]: trainer.service: Failed with result 'oom-kill'.").findings[0]
    assert "memory of its host or container" in finding.summary


PROBED = (
    "[1668693503.47] [n1:1188443:0]  ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. "
    "Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"
)
OSU = "# OSU MPI Broadcast Latency Test v5.8\n# Size       Avg Latency(us)\n1                       0.23"
IMB = "# Benchmarking PingPong\n    #bytes #repetitions    t[usec]   Mbytes/sec\n       0         1000       0.31"


@pytest.mark.parametrize(("text", "verdict"), [
    (f"{PROBED}\n{OSU}", "unknown"),
    (f"{PROBED}\n{PROBED}\n{IMB}", "unknown"),
    (PROBED, "critical"),
    (f"{OSU}\n{PROBED}", "critical"),  # the benchmark had begun
    (f"{PROBED}\n{OSU}\nsrun: error: n1: task 1: Exited with exit code 1", "critical"),
])  # fmt: skip
def test_ucx_probes_nics_while_mpi_starts_and_does_without(text: str, verdict: str) -> None:
    assert _alone(text).verdict == verdict
