"""A log that ends with an error that no rule knows does not show that the job works; one that is survived does."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.parsers.last_errors import is_error
from diagnostics.reading import Reading
from tests.diagnostics.test_program_failures import START
from tests.diagnostics.threads import diagnose

ERRORS = (
    "slurmstepd: error: Exceeded step memory limit at some point.",
    "srun: error: step:123.0 tasks 0-6: running",
    "Primary job  terminated normally, but 1 process returned",
    "A call to mpirun was made without enough slots",
    "Intel(R) MPI Library troubleshooting guide: Abort(15) on node 0",
    "gpu-b: ssh: connect to host gpu-b port 22: Connection refused",
    "parallel: This job failed:",
    "Process SpawnProcess-3 terminated unexpectedly",
    "error: timed out waiting for the condition on jobs/train",
    'Error from server (BadRequest): container "trainer" in pod "w-0" is terminated',
    "worker-0   0/1     NodeAffinity   0          12m",
    '  Warning  FailedMount  2m  kubelet  MountVolume.SetUp failed for volume "data"',
    "status: Failed   reason: PodFailed",
    "ray::train() died",
    "(raylet) Worker exited unexpectedly",
    "    @     0x7f0 (unknown)",
    "what():  CUDA error",
    "Internal error: Oops: 96000004",
    "qsub: job killed",
    "DEADLINE_EXCEEDED: Deadline Exceeded",
    "wandb: WARNING  Command failed (exit 1)",
    "ERROR 08-20 09:48:31 [pynccl_wrapper.py:229] Cannot load the NCCL library from /root/libnccl.so.2",
    "-bash: fork: retry: Resource temporarily unavailable",
    "version `GLIBCXX_3.4.29' not found",
    "2024-01-02 03:04:05.678 | ERROR    | trainer:main:12 - the store has no such key",
    "(EngineCore_DP0 pid=272) ERROR 09-09 10:15:10 [core.py:700] the engine has ended",
    "E0716 12:11:09.1 4117 transfer.cpp:294] segment is gone",
    'ts=2024-05-05T01:01:01Z level=error msg="the queue is gone"',
    "2024/05/05 01:01:01 [error] upstream is gone",
    "frame #4: c10d::wait() + 0x12 (0x7f00 in libtorch.so)",
    "/usr/lib/libmpi.so.40(PMPI_Allreduce+0x2c5) [0x7f12]",
    "#3  0x00007f12 in ncclGroupEnd () from libnccl.so.2",
    "goroutine 1 [running]:",
    "\tat org.apache.Trainer.run(Trainer.java:12)",
    "[n1:08003] the relay of the job: send() to socket 9 failed: Broken pipe (32)",
    "/bin/bash: line 1: /usr/sbin/sshd: No such file or directory",
    "open: Stale file handle",
    "Failed to open the data set: x",
    "2026-01-01T00:00:01.5Z stderr F ERROR:root:the queue is gone",
    "2026-01-01 00:00:01 [error    ] the queue is gone    rank=1",
    "Training failed, giving up after 3 retries",
    "max retries reached",
)
TROUBLE = (  # in words of which none shows by itself that something failed
    "crashed rank: 0, see its own output",
    "3 checks failed",
    "failed samples: 3, lost: 0, see the report",
    "Training aborted after 3 unsuccessful attempts.",
    "Loss is nan, stopping training",
    "Timeout waiting for rank 1 (1800 s)",
    "Detected hang: no progress for 1800 s on rank 1",
    "unhandled exception: worker 1: bad magic",
    "Disk quota exceeded",
    "rank 1 has not reported for 600 seconds",
    "[node-monitor] node1 NotReady",
    "KeyError: 3",
    "Essential container in task exited",
    "watchdog: BUG: soft lockup - CPU#12 stuck for 23s!",
    "Abgebrochen (Speicherabzug geschrieben)",
    "Processus arr\u00eat\u00e9",
    "Violaci\u00f3n de segmento",
    "\u8bad\u7ec3\u5931\u8d25: \u8fdb\u7a0b 1 \u5f02\u5e38\u9000\u51fa",
    "\u5f37\u5236\u7d42\u4e86",
    "Errore di segmentazione (core dump creato)",
    "training halted: bad gradient",
    "Exiting due to NaN",
    "train-1   0/1   Error   0   12m",
    "rank 1: \u043e\u0448\u0438\u0431\u043a\u0430",
)
NO_TROUBLE = (
    "epoch 3: validation error 0.0312, failed samples: 0, exit code 0",
    "requests served: 900, refused: 0, timed out: 0, queue 12",
    "the handler of signal 15 is installed, and none is lost: 0",
    "12 samples were marked dead by the filter",
    "Bus error count: 0",
    "NCCL timeout set to 1800 s, abort on failure: true",
    "If the host cannot be found, see the guide",
    "word error rate 12.1",
    "KL divergence: 0.12",
    "max_retries: 3",
    "epoch 12 error 0.12",
    "error_file: /tmp/torchelastic_x/error.json",
    "dead neurons: 0.3%",
    "checkpoint gone to /ckpt",
    "all workers terminated gracefully",
    "RAM usage exceeded 80% threshold twice",
    "tcp retransmits lost 3",
    "interrupted: false",
    "could not find xformers, using sdp attention",
    "Job id 4711 finished; not failed",
    "attempt 1 of the checkpoint failed, attempt 2 succeeded",
    "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error",
    '{"level":"info","msg":"the queue is gone"}',
    '{"level":30,"time":1,"msg":"the queue is gone"}',
)
ENDS = (
    "[FATAL] 2024-01-01 rank 3: aborting",
    "2024-01-02 03:04:05,678 - trainer - CRITICAL - giving up",
    "supervisor: trainer exited: exit status 3",
    "trainer.service: Main process exited, code=exited, status=1/FAILURE",
    "job 7 ended rc=13",
    "launcher: {'returncode': 2}",
    "worker 3 got SIGSEGV",
    "node n1: signal 9 (core of 4 GB written)",
    "thread 'main' panicked at src/main.rs:12",
    "F0801 10:11:12.131415  9981 clique.cc:99] the clique is stuck",
    "2026-01-12 05:44:21.334610: F tensorflow/core/platform/foo.cc:80] the ring is broken",
    "[2026-01-12 05:44:21] FATAL: worker 3 lost connection to the parameter server",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "[ERROR] Rank 3: loss is NaN at step 120, aborting",
    "[1,1]<stderr>:FATAL: node lost",
    "1: FATAL: node lost",
    "(Worker pid=10, ip=10.1.1.1) FATAL: node lost",
    "Nov 27 14:00:00 node0 train[99]: FATAL: node lost",
    "node1: FATAL: node lost",
    "train-worker-1 main FATAL: node lost",
    "2026-11-27T14:00:00Z FATAL node lost",
    ">>> FATAL: node lost",
    "Job 4711 FAILED",
    "STATUS: FAILED",
    "Job status: FAILED",
    "JobState=NODE_FAIL",
    "[2026-11-27T14:00:00Z] Job failed: user process exited",
)
NO_ENDS = (
    "++ exit 1",
    "wandb: WARNING Command failed (exit 1)",
    "2024-01-02 03:04:05 - trainer - ERROR - the store has no such key",
    "All done, exiting.",
)
NO_ERRORS = (
    "0 errors, 0 warnings",
    "error=0 retries=0",
    "summary: passed: 12, failed: 0",
    'done {"errors": [], "level": "info"}',
    "no errors found",
    "2024-01-02 03:04:05 - trainer - INFO - 3 requests failed.",
    "2024-01-02 03:04:05 - trainer - WARNING - ERROR: the cache is cold",
    "ERROR: upload to s3 was throttled, retrying in 3 s",
    "ERROR: the metrics server is gone; continuing without it",
    "Failed to import apex, falling back to torch",
    "[W1011 TCPStore.cpp:106] [c10d] sendBytes failed.",
    "the plot has ERROR bars",
    "--log-level ERROR",
    "train loss 0.31 (error rate 2 %)",
    "gradient error: 0",
    "Test error: 12.3%",
    "relative error: 1e-6",
    "Number of failed requests: 0",
    "n1:4117:4117 [0] NCCL WARN Call to connect returned Connection refused: error: 111",
    "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: INTERNAL: x",
    "[n1:04117] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 169",
    "level=info msg=started",
    "exit code: 0",
    "early exit 1.5 times as fast",
    "exits 3 times",
    "rc=0",
    "return code: 0",
    "signal 11 handlers are installed",
    "GET /health HTTP/1.1 200, status: 200",
    "ssh: connect to host gpu-b port 22: Connection refused",
    "/opt/x.py:12: UserWarning: the cache is cold: No such file or directory",
)
BEHIND = (  # of work and of an end in order
    START[-1],
    "step 12/100 loss: 2.30 12.2 samples/s",
    "Training completed in 312 s",
    "checkpoint saved to /data/ckpt",
    "process exited with code 0",
    "All tests passed",
)
NO_WORK_BEHIND = (  # of scripts, of schedulers, of ranks that are left
    "Job finished at Fri Nov 27",
    "All done.",
    "Cleanup successful",
    "script end, exit status 0",
    "connected to the scheduler",
    "n1:40:42 [0] NCCL INFO [Service thread] Connection closed by localRank 1",
    "n1:40:40 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId b000 - Destroy COMPLETE",
    "+----+----+\n" * 45,
)
STEPS = [f"step {number}/100 loss: 2.{number} 12.1 samples/s" for number in range(10, 20)]


def _behind_a_start(text: str) -> Diagnosis:
    return diagnose("\n".join([*START, text]) + "\n")


@pytest.mark.parametrize("line", ERRORS)
def test_an_error_that_no_rule_knows_leaves_it_open_and_is_quoted(line: str) -> None:
    diagnosis = _behind_a_start(line)
    assert diagnosis.verdict == "unknown"
    assert line.strip() in diagnosis.explanation


@pytest.mark.parametrize("line", [*ERRORS[::5], *ENDS[::3], *TROUBLE])
def test_trouble_behind_the_last_step_is_never_fine(line: str) -> None:
    assert _behind_a_start("\n".join([*STEPS, line])).verdict == _behind_a_start(line).verdict != "ok"
    assert _behind_a_start("\n".join([line, *STEPS])).verdict != "unknown"


@pytest.mark.parametrize("line", NO_TROUBLE)
def test_words_of_trouble_are_none_in_what_is_over_or_counts_nothing(line: str) -> None:
    assert _behind_a_start("\n".join([*STEPS, line])).verdict == "ok"


@pytest.mark.parametrize("behind", NO_WORK_BEHIND)
def test_words_of_an_end_and_of_ranks_that_are_left_are_no_work(behind: str) -> None:
    for line in (ENDS[0], ERRORS[-1], TROUBLE[0])[: 1 if "--" in behind else 3]:
        assert _behind_a_start("\n".join([*STEPS, line, behind])).verdict == _behind_a_start(line).verdict


@pytest.mark.parametrize(("line", "verdict"), [
    ("[rank1] FATAL: data loader crashed, aborting", "unknown"), ("node1: CRITICAL: the queue is gone", "unknown"),
    ("ERROR: the queue is gone", "ok"), ("the plot has FATAL bars", "ok"), ("FATAL: no such cache, continuing", "ok"),
])  # fmt: skip
def test_a_fatal_level_counts_however_much_stands_behind_it(line: str, verdict: str) -> None:
    behind = "\n".join(f"lr {number}e-5 of the epilogue" for number in range(900))
    assert _behind_a_start("\n".join([*STEPS, line, behind])).verdict == verdict
    assert _behind_a_start("\n".join([line, behind, START[-1]])).verdict == "ok"
    assert _behind_a_start("\n".join([line, behind, *STEPS])).verdict == "ok"


@pytest.mark.parametrize("key", ["level", "lvl", "levelname", "severity", "log.level", "logLevel"])
def test_the_level_of_json_counts_by_any_key(key: str) -> None:
    line = '{"time":"2024-05-05T01:01:01Z","%s":"%s","message":"the queue is empty"}'
    told = {level: _behind_a_start(line % (key, level)).verdict for level in ("info", "ERROR", "fatal", "crit")}
    assert told == {"info": "ok", "ERROR": "unknown", "fatal": "critical", "crit": "critical"}
    numbers = {number: _behind_a_start(f'{{"level":{number},"time":1,"msg":"x"}}').verdict for number in (30, 50, 60)}
    assert numbers == {30: "ok", 50: "unknown", 60: "critical"}


@pytest.mark.parametrize("line", ENDS)
def test_an_error_that_says_that_its_program_ended_is_a_failed_run(line: str) -> None:
    finding = _behind_a_start(line).findings[0]
    assert (finding.rule, finding.severity, finding.evidence[0].text) == ("run-failed", "critical", line)
    assert finding.evidence[0].line == len(START) + 1
    assert _behind_a_start(f"{line}\n{BEHIND[0]}").verdict == "ok"


@pytest.mark.parametrize("line", NO_ENDS)
def test_what_does_not_say_that_a_program_ended_is_no_failed_run(line: str) -> None:
    assert _behind_a_start(line).verdict in ("ok", "unknown")


@pytest.mark.parametrize("line", NO_ERRORS)
def test_words_of_errors_are_none_where_nothing_failed_or_it_was_passed_over(line: str) -> None:
    assert not is_error(line)


@pytest.mark.parametrize(("level", "told"), [("error", True), ("fatal", True), ("info", False)])
def test_the_level_counts_in_colours_behind_steps(level: str, told: bool) -> None:
    line = f"\x1b[31m{level.upper()}\x1b[0m: the queue is empty"
    assert (_behind_a_start("\n".join([*STEPS, line])).verdict != "ok") is told


@pytest.mark.parametrize(("level", "told"), [("error", True), ("fatal", True), ("info", False)])
def test_the_level_counts_between_tabs(level: str, told: bool) -> None:
    assert is_error(f"2026-01-01T00:00:01Z\t{level}\ttrainer/main.go:88\tthe queue is empty") is told


@pytest.mark.parametrize("behind", BEHIND)
def test_an_error_with_work_or_an_end_in_order_behind_it_is_survived(behind: str) -> None:
    assert _behind_a_start(f"{ERRORS[-1]}\n{behind}").verdict == "ok"


def test_an_error_far_from_the_end_is_none_of_the_last_lines() -> None:
    other = "\n".join(f"lr {number}e-5" for number in range(60))
    assert _behind_a_start(f"{ERRORS[-1]}\n{other}").verdict == "ok"
    assert _behind_a_start(f"{other}\n{ERRORS[-1]}\nlr 1e-5\n\n").verdict == "unknown"


def test_the_level_beside_a_message_of_json_counts() -> None:
    line = '{"time":"2024-05-05T01:01:01Z","level":"%s","message":"the queue is gone"}'
    assert _behind_a_start(line % "info").verdict == "ok"
    diagnosis = _behind_a_start(line % "error")
    assert (diagnosis.verdict, "ERROR: the queue is gone" in diagnosis.explanation) == ("unknown", True)


def test_each_file_is_looked_at() -> None:
    reading = Reading()
    for file, text in (("b.log", ERRORS[-1]), ("a.log", "\n".join(START))):
        reading.feed(Batch(file=file, block=text.encode(), first=True))
    reading.flush()
    assert "the last lines of b.log" in reading.diagnosis().explanation


UNCAUGHT = (
    "2025-03-24 18:13:29 ERROR {} exception: (<class 'KeyError'>, KeyError('labels'), <traceback object at 0x7f>)\n"
)


@pytest.mark.parametrize(
    ("said", "rule"), [("Uncaught", "application-error"), ("Unhandled", "application-error"), ("Caught", None)]
)
def test_an_exception_that_nobody_handles_ends_the_program_wherever_a_collector_puts_it(
    said: str, rule: str | None
) -> None:
    behind = "".join(f"INFO closing {number}\n" for number in range(8))
    diagnosis = diagnose("INFO engine.py:116] starting\n" + UNCAUGHT.format(said) + behind)
    assert [finding.rule for finding in diagnosis.findings if finding.severity == "critical"] == (
        [rule] if rule else []
    )


@pytest.mark.parametrize(("behind", "quoted"), [
    ("MemManager: Recv from rank 4 failed - handle exchange incomplete", True),  # of no table
    ("Could not create a widget for rank 3", True),
    ("Traceback (most recent call last):", False),  # another rank's
    ("[rank2]: torch.distributed.DistBackendError: NCCL error in: a.cpp:1, remote", False),
    ("    return pg.recv([tensor], group_src_rank, tag)", False),
    ("", False),
])  # fmt: skip
def test_what_pytorch_repeats_as_the_last_error_is_quoted_where_no_rule_knows_it(behind: str, quoted: bool) -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: a.cpp:1970, internal error, NCCL version 2.30.7\n"
    found = diagnose(f"{error}ncclInternalError: Internal check failed.\nLast error:\n{behind}\n").findings
    assert found[0].rule == "run-failed"
    lines = [evidence.text.strip() for one in found for evidence in one.evidence]
    unexplained = [one for one in found if one.rule == "unclassified-warning"]
    assert (behind in lines, bool(unexplained)) == (True, True) if quoted else not unexplained
    assert not quoted or found[0].summary == f"The run failed: {behind}"
