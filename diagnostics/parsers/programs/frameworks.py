"""How frameworks say that a run failed: vLLM, SGLang, TensorRT-LLM, DeepSpeed, Horovod, JAX, Paddle, TensorFlow, Ray.

Lines without NCCL's own mark. A literal is looked for in every line, so it is as rare as the message.
"""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.programs.rows import rows

_TORN = tuple(  # what PyTorch raises, where ranks that write at once have torn the exception's name off it
    (text, rf"(?<!Error: )(?<!Exception: ){text}.*", text)
    for text in (
        "Expected to have finished reduction in the prior iteration",
        "Expected to mark a variable ready only once",
        "Expected all tensors to be on the same device",
        "mat1 and mat2 shapes cannot be multiplied",
        "Trying to backward through the graph a second time",
        "one of the variables needed for gradient computation has been modified",
        "Default process group has not been initialized",
    )
)
_SERVING = (
    (
        "EngineCore failed",
        "EngineCore failed to start",
        "ERROR 05-12 10:11:12 [core.py:396] EngineCore failed to start.",
    ),
    (
        "ngine core init",
        r"[Ee]ngine core initialization failed",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
    (
        "DeadError",
        r"\b(?:Async|MQ)?EngineDeadError\b.*",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
    ),
    (
        "EngineCore encountered",
        r"EngineCore encountered (?:a fatal error|an issue)",
        "EngineCore encountered a fatal error.",
    ),
    (
        "Exception in worker",
        r"Exception in worker \w+.*",
        "Exception in worker VllmWorkerProcess while processing method init_device.",
    ),
    (
        "hit an exception",
        r"\w+ hit an exception",
        "[2025-05-12 10:11:12 TP0] Scheduler hit an exception: Traceback (most recent",
    ),
    (
        "Received sigquit",
        r"Received sigquit from a child process",
        "Received sigquit from a child process. It usually means the child failed.",
    ),
    (
        "unexpectedly failed",
        r"Child process unexpectedly failed with .*",
        "Child process unexpectedly failed with an exit code 9. pid=4117",
    ),
    (
        "WorkerProc ",
        r"WorkerProc (?:failed to start|initialization failed|hit an exception).*",
        "(VllmWorker rank=2 pid=4664) ERROR 08-05 14:13:44 [multiproc_executor.py:487] WorkerProc failed to start.",
    ),
    ("detokenizer died", r"Scheduler or detokenizer died", "Scheduler or detokenizer died. Please check the logs"),
    (  # text-generation-inference
        "Error: Shard",
        r"\bError: Shard(?:CannotStart|Failed|Disconnected)\b",
        "Error: ShardCannotStart",
    ),
    (
        " failed to start",
        r"\bShard \d+ failed to start",
        "2023-10-05T22:17:51.388477Z ERROR text_generation_launcher: Shard 0 failed to start",
    ),
    (
        " crashed",
        r"text_generation_launcher: Shard \d+ crashed",
        "2024-10-01T07:43:22.392453Z ERROR text_generation_launcher: Shard 0 crashed",
    ),
    (
        "[TM][",  # LMDeploy
        r"\[TM\]\[(?:FATAL|ERROR)\] .*",
        "[TM][FATAL] models/llama/llama_utils.cu(88): Assertion fail: num_tokens",
    ),
    (
        "TensorRT-LLM][ERROR]",
        r"\[TensorRT-LLM\]\[ERROR\] .*",
        "[TensorRT-LLM][ERROR] Assertion failed: Can't get NCCL id",
    ),
)
_TRAINING = (
    (
        "Unhandled exception: ",
        r"Unhandled exception: \w.*",
        "[2025-04-15 00:31:11,815 E 808 17795] logging.cc:108: Unhandled exception: N3c1016DistBackendErrorE.",
    ),
    (
        "Error executing method",
        r"Error executing method '?\w+.*",
        "ERROR 08-02 08:50:03 worker_base.py:382] Error executing method init_device. This might cause deadlock",
    ),
    (
        "return code = ",
        r"exits with return code = -?[1-9]\d*",
        "[ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return code = 1",
    ),
    (
        "Horovod background loop",
        r"Horovod background loop uncaught exception.*",
        "Horovod background loop uncaught exception: ncclCommInitRank failed",
    ),
    (
        "Horovod has been shut down",
        r"Horovod has been shut down\. This was caused by an exception.*",
        "RuntimeError: Horovod has been shut down. This was caused by an exception on one of the ranks",
    ),
    (
        "Termination timeout for",
        r"Termination timeout for .* exceeded.*",
        "Termination timeout for `initialize clique for rank 0` of 40 seconds exceeded. Exiting to ensure",
    ),
    (
        "Terminating process because",
        r"Terminating process because the .*",
        "Terminating process because the JAX distributed service detected fatal errors.",
    ),
    (
        "stopped sending heartbeats",
        r"tasks? (?:are|is) unhealthy \(stopped sending heartbeats\).*",
        "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/task:3",
    ),
    (
        "Coordination agent is set to ERROR",
        r"Coordination agent is set to ERROR.*",
        "Coordination agent is set to ERROR: UNAVAILABLE: Task /job:jax_worker/replica:0/task:1 heartbeat timeout.",
    ),
    (
        "agent in error status",
        r"Coordination service agent in error status.*",
        "client.cc:96] Coordination service agent in error status: DEADLINE_EXCEEDED: Deadline Exceeded",
    ),
    (
        "to ERROR in coordination",
        r"has been set to ERROR in coordination service.*",
        "/job:worker/replica:0/task:1 has been set to ERROR in coordination service: ABORTED: /job:worker/task:1",
    ),
    (
        "Execution of replica",
        r"Execution of replica \d+ failed.*",
        "Execution of replica 0 failed: INTERNAL: NCCL operation ncclAllReduce failed",
    ),
    (
        "the trainer process with rank=",
        r"the trainer process with rank=\S+ was aborted",
        "ABORT!!! Out of all 8 trainers, the trainer process with rank=[3] was aborted. Please check its log.",
    ),
    (
        "Collective ops is aborted",
        r"Collective ops is aborted by.*",
        "Collective ops is aborted by: Device /job:worker/replica:0/task:1/device:GPU:0 current incarnation",
    ),
    (
        "::StartAbort",
        r"BaseCollectiveExecutor::StartAbort (?!.*OUT_OF_RANGE).*",
        "BaseCollectiveExecutor::StartAbort Internal: NCCL: unhandled cuda error",
    ),
    (
        "Exception raised from check",
        r"Exception raised from checkForNCCLErrors\w*",
        "Exception raised from checkForNCCLErrorsInternal at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1720",
    ),
    (
        "RayTaskError(",
        r"RayTaskError\(\w+\).*",
        "ray.exceptions.RayTaskError(RuntimeError): ray::RayTrainWorker.get_next() (pid=123, ip=10.0.0.1)",
    ),
    ("Container failed", r"Container failed !!!", "LAUNCH ERROR 2022-11-21 02:35:54,385 Container failed !!!"),
    ("Pod failed", r"LAUNCH \w+ .*Pod failed", "LAUNCH INFO 2022-11-21 02:35:54,384 Pod failed"),
    (
        "ExecuteUserScriptError",
        r"ExecuteUserScriptError.*",
        "Failed. Reason: AlgorithmError: ExecuteUserScriptError:",
    ),
    (
        "a non-zero status of",
        r"exited with a non-zero status of [1-9]\d*.*",
        "The replica workerpool0-0 exited with a non-zero status of 1.",
    ),
    (
        "libnccl",
        r"(?:ImportError|OSError): .*\blibnccl\S*: cannot open shared object file.*",
        "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
    ),
    (
        "returned non-zero exit status",
        r"returned non-zero exit status -?[1-9]\d*",
        "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.",
    ),
)
_CALLS = (
    (
        "NCCL operation",
        r"(?P<text>NCCL operation \w+.* failed.*)",
        "INTERNAL: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled cuda error",
    ),
    (
        "NCCL_ERROR_",
        r"(?P<text>NCCL_ERROR_\w+.*)",
        "cupy.cuda.nccl.NcclError: NCCL_ERROR_SYSTEM_ERROR: unhandled system error",
    ),
    (
        "failed: ",
        r"(?P<text>\b(?:nccl|pynccl\.)(?:Comm|All|Reduce|Group|Broadcast|Send|Recv|GetUnique)\w* failed: .*)",
        "HorovodInternalError: ncclAllReduce failed: unhandled cuda error",
    ),
)
_CHECKS = (
    (
        "failed with error",
        r"\bnccl[A-Z]\w+(?:\(.*\))? failed with error \S.*",
        "ncclCommInitRank failed with error 2",
    ),
    (
        "ncclSuccess",
        r"(?i:check|assert\w*|assertion) ?.{0,40}?failed\b.*\bncclSuccess\b.*",
        "F0000 00:00:00.000000 nccl_manager.cc:1 Check failed: result == ncclSuccess (2 vs. 0)",
    ),
    (
        "CCL: ",
        r"\b[NR]CCL: (?:internal error|invalid (?:usage|argument)|unhandled \w+ error|remote process exited).*",
        "E tensorflow/core/nccl/nccl_manager.cc:123] NCCL: internal error",
    ),
    (
        "see MPI output for details",
        r"MPI_\w+ failed, see MPI output for details.*",
        "  what():  MPI_Allreduce failed, see MPI output for details.",
    ),
)
_STALLED = (
    (
        "abort timed out after",
        r"Future for ProcessGroup abort timed out after.*",
        "[PG 0 Rank 0] Future for ProcessGroup abort timed out after 600000 ms",
    ),
    (
        "self.watchdog_timeout",
        r"Watchdog timeout \(self\.watchdog_timeout=.*",
        "[2025-03-03 10:10:10 TP0] Watchdog timeout (self.watchdog_timeout=300)",
    ),
    (
        "RPC call to ",
        r"RPC call to \w+ timed out.*",
        "(EngineCore_0 pid=200) ERROR 09-09 10:15:10 [core.py:700] TimeoutError: RPC call to sample_tokens timed out.",
    ),
)
_APART = (
    (
        "timed out in monitoredBarrier",
        r"(?P<text>Rank \d+ timed out in monitoredBarrier.*)",
        "RuntimeError: Rank 0 timed out in monitoredBarrier after 10000 ms.",
    ),
    (
        "by subset of ranks",
        r"(?P<text>tensors were submitted to be reduced, gathered or broadcasted by subset of ranks.*)",
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting",
    ),
    (
        "successfully reached monitoredBarrier",
        r"(?P<text>reached monitoredBarrier, but received errors .* from rank (?P<ranks>\d+).*)",
        "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
    ),
)
_UNLIKE = (
    (
        "Mismatched ",
        r"(?P<text>Mismatched [\w /]+: One rank .*)",
        "Mismatched allreduce tensor shapes: One rank sent a tensor of shape [4096, 10], but another rank sent [8]",
    ),
)

PATTERNS = (
    *rows("launcher-failure", _SERVING, _TRAINING, names_text=True),
    *rows("run-error", _CALLS),
    *rows("run-error", _CHECKS, _TORN, names_text=True),
    *rows("watchdog-stuck", _STALLED, names_text=True),
    *rows("desync", _APART),
    *rows("collective-mismatch", _UNLIKE),
    Pattern(
        kind="collective-mismatch",
        literal="mismatch between collectives",
        expression=r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+)",
        samples=("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: X",),
    ),
    Pattern(  # PyTorch's analyser of flight records, torchfrtrace
        kind="collective-mismatch",
        literal="_MISMATCH",
        expression=r"[Cc]ulprit ranks? (?P<rank>\d+);.*?Error type: (?:SIZE_OR_SYNTAX|COLLECTIVE_D?TYPE)_MISMATCH",
        samples=(
            "error msg: Culprit rank 22; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]'",
            "Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce' does not",
        ),
    ),
    Pattern(
        kind="desync",
        literal="Not all ranks joining collective",
        expression=r"(?P<text>Not all ranks joining collective.*)",
        samples=("Not all ranks joining collective 39 at entry 38, missing ranks {3}",),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="Received a dump signal",
        expression=r"(?P<text>Received a dump signal due to a collective timeout.*)",
        samples=("[Rank 3] Received a dump signal due to a collective timeout from rank 1 and we will try our best",),
    ),
    Pattern(
        kind="timeout-signal",
        literal="Timeout at ",
        expression=(
            r"Rank (?P<late>\d+)\] Timeout at NCCL work: \d+"
            r"|\[(?P<waits>\d+)\] Timeout at collective: (?P<operation>\w+), #(?P<sequence>\d+)"
        ),
        samples=(
            "[PG 1 Rank 11] Timeout at NCCL work: 15734, last enqueued NCCL work: 15735, last completed NCCL",
            "- [2] Timeout at collective: ALLREDUCE, #730",
        ),
    ),
    Pattern(  # cut by a terminal or a pager before it names the operation
        kind="timeout-signal",
        literal="Watchdog caught collective",
        expression=(
            r"(?:Rank (?P<late>\d+)\] )?Watchdog caught collective(?! operation timeout: WorkNCCL\([^)]*OpType=\w)"
        ),
        samples=("[Rank 3] NCCL watchdog thread terminated with exception: [Rank 3] Watchdog caught collective oper",),
    ),
    Pattern(
        kind="ranks-at",
        literal="] started ",
        expression=r"^\W*\[(?P<ranks>[\d, ]+)\] started [A-Z_]+\b",
        samples=("     [0, 1, 2, 3] started ALLREDUCE",),
    ),
    Pattern(  # Horovod's check for stalled tensors, which speaks after a minute
        kind="desync",
        literal="missing ranks: ",
        expression=r"(?P<text>\S+ \[missing ranks: ?(?P<ranks>[\d, ]+)\])",
        samples=("horovod/common/operations.cc:588] HorovodBroadcast_dense_1_bias_Momentum_0 [missing ranks: 1]",),
    ),
    Pattern(
        kind="timeout-signal",
        literal="due to a collective timeout from",
        expression=r"due to a collective timeout from +(?:this local rank|rank (?P<late>\d+))",
        samples=("[Rank 3] Received a dump signal due to a collective timeout from  rank 1 and we will try our best",),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="after attempting to dump",
        expression=r"(?P<text>Terminating the process after attempting to dump debug info.*)",
        samples=(
            "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        ),
    ),
)
