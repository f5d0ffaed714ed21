"""How frameworks that train say that a run failed: PyTorch, DeepSpeed, Horovod, JAX, Paddle, TensorFlow, Ray.

Lines without NCCL's own mark. A literal is looked for in every line, so it is as rare as the message.
"""

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
        "Termination timeout of",
        r"Termination timeout of .* exceeded.*",
        "Termination timeout of 40 seconds exceeded. Exiting to ensure a consistent program state.",
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
        r"RayTaskError\(\w+(?:\)|$).*",
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

PATTERNS = (
    *rows("launcher-failure", _TRAINING, names_text=True),
    *rows("run-error", _CALLS),
    *rows("run-error", _CHECKS, _TORN, names_text=True),
)
