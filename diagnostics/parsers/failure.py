"""What says that a run failed, whatever the reason: NCCL's failure stack and result texts, programs, launchers.

NCCL prints how an error went up its calls, the deepest first: ``misc/socket.cc:535 -> 6``, ``init.cc:1089 -> 6``
(2.30.7 and newer with the function: ``init.cc:475 (commAlloc) -> 5``). 7 is "in progress" and no error. Only a stack
that reaches the calls of the program counts, and only where the process does not go on: NCCL also tries what it can do
without.
"""

from diagnostics.parsers.base import CARRIED, Pattern

RESULTS = (
    r"unhandled (?:system|cuda|CUDA|hip) error|internal error - please report"
    r"|remote process exited or there was a network error|invalid (?:usage|argument) \(run with NCCL_DEBUG"
)

FRAME = Pattern(
    kind="failure-frame",
    literal=" -> ",
    expression=(
        r"^(?:\S*/src/)?(?:(?P<unit>init|enqueue|group|bootstrap|channel|collectives|sym_kernels|ce_coll|dev_runtime)\.cc"
        r":\d+|(?:proxy\.cc:\d+(?=.*\[(?:Proxy|Progress) Thread\]))) (?:\((?P<function>\w+)\) )?-> (?P<code>[1-68])\b"
    ),
    samples=(
        "init.cc:1089 -> 6",
        "init.cc:2572 (ncclCommInitRank) -> 5",
        "group.cc:68 -> 3 [Async thread]",
        "proxy.cc:983 (ncclProxyProgress) -> 6 [Progress Thread]",
    ),
)

STACK_LINE = Pattern(  # of any of NCCL's sources: how much it means, what follows it tells
    kind="stack-line",
    literal=" -> ",
    expression=r"^(?P<source>(?:[\w.\-]+/|/){0,12}\w[\w\-]{0,60}\.(?:cc|cu|h)):\d+ (?:\(\w+\) )?-> (?P<code>[1-68])\b",
    samples=(
        "transport/net.cc:1134 -> 6",
        "graph/topo.cc:97 -> 2",
        "register.cc:33 -> 3",
        "plugin/net/net_v10.cc:75 (ncclNetInit) -> 2",
    ),
)

PATTERNS = (
    Pattern(
        kind="run-error",
        literal="ailure",
        expression=r"(?P<text>Test (?:NCCL|CUDA|HIP) failure\b.*|NCCL failure .*|: Test failure \S+:\d+)",
        samples=(
            "node02: Test NCCL failure common.cu:1158 'internal error - please report this issue'",
            ".. node02 pid 10366: Test failure common.cu:1000",
            "Failed: NCCL failure all_reduce.cpp:41 'unhandled system error'",
        ),
    ),
    Pattern(
        kind="run-error",
        literal="error",
        expression=rf"(?P<text>{RESULTS})",
        samples=(
            "rank 0: ncclCommInitRank -> 2 unhandled system error (run with NCCL_DEBUG=INFO for details)",
            "internal error - please report this issue to the NCCL developers",
        ),
    ),
    Pattern(
        kind="run-error",
        literal="invalid ",
        expression=r"(?P<text>invalid (?:usage|argument) \(run with NCCL_DEBUG=WARN for details\))",
        samples=("node1: Test NCCL failure all_reduce.cu:3 'invalid usage (run with NCCL_DEBUG=WARN for details)'",),
    ),
    Pattern(
        kind="run-error",
        literal="nccl",
        expression=r"(?P<text>nccl(?:UnhandledCuda|UnhandledHip|System|Internal|Remote)Error|ncclInvalid(?:Usage|Argument)\b)",
        samples=(
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        ),
    ),
    Pattern(
        kind="run-error",
        literal="rror",
        expression=r"(?P<text>\b[NR]CCL [Ee]rror\b.*)",
        samples=("RuntimeError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:825, invalid usage", "NCCL Error 2: x"),
    ),
    Pattern(
        kind="launcher-failure",
        literal="xit",
        expression=(
            r"(?P<text>(?:[Ee]xited|exits|returned|finished|terminated) with (?:a )?(?:non-zero )?(?:exit )?"
            r"(?:code|status)[ :=]*-?[1-9]\d*.*|returned a non-zero exit code|exitcode {0,3}: {0,3}-?[1-9]\d*"
            r"|exit code: -?[1-9]\d*|process returned a non-zero)"
        ),
        samples=(
            "srun: error: node1: task 3: Exited with exit code 1",
            "  exitcode  : 1 (pid: 4117)",
            "Primary job terminated normally, but 1 process returned a non-zero exit code.",
        ),
    ),
    Pattern(
        kind="run-error",
        literal="Out of bounds values",
        expression=r"(?P<text>Out of bounds values *: *\d+ FAILED)",
        samples=("# Out of bounds values : 12 FAILED",),
    ),
    Pattern(  # below nine tenths of what NCCL_TESTS_MIN_BW asks for
        kind="run-error",
        literal="Avg bus bandwidth",
        expression=r"(?P<text>Avg bus bandwidth *: *[\d.e+-]+ FAILED)",
        samples=("# Avg bus bandwidth    : 1.25 FAILED",),
    ),
    Pattern(
        kind="work-done",
        literal="Out of bounds values",
        expression=r"Out of bounds values *: *0 OK",
        samples=("# Out of bounds values : 0 OK",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="BAD TERMINATION",
        expression=r"(?P<text>BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES)",
        samples=("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="Node failure on",
        expression=r"(?P<text>\bNode failure on \S+)",
        samples=("srun: error: Node failure on gpu-a",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="MPI_A",
        expression=r"(?P<text>MPI_ABORT was invoked on rank \d+|MPI_Abort\(.*)",
        samples=("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="terminate called",
        expression=r"(?P<text>terminate called after throwing an instance of .*)",
        samples=("terminate called after throwing an instance of 'c10::DistBackendError'",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="core dumped",
        expression=r"(?P<text>(?:Aborted|Bus error|Illegal instruction|Floating point exception) \(core dumped\))",
        samples=("Aborted (core dumped)",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="ChildFailedError",
        expression=r"(?P<text>ChildFailedError)",
        samples=("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="DUE TO NODE ",
        expression=r"(?P<text>DUE TO NODE(?: \S+)? FAILURE.*)",
        samples=("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE ***",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="PBS: job killed: ",
        expression=r"PBS: job killed: (?P<text>(?!walltime|cput).*)",
        samples=("=>> PBS: job killed: vmem 68719480832 exceeded limit 68719476736",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="TERM_",
        expression=r"(?P<text>\bTERM_(?:MEMLIMIT|SWAP|UNKNOWN|EXTERNAL_SIGNAL)\b.*)",
        samples=("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",),
    ),
    Pattern(
        kind="launcher-failure",
        literal="low on resource",
        expression=r"(?P<text>(?:The )?node was low on resource: .*)",
        samples=("  Message: The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi.",),
    ),
    Pattern(
        kind="cancelled",
        literal="CANCELLED",
        expression=r"(?P<text>CANCELLED (?:AT|by|DUE TO) (?!.*(?:NODE(?: \S+)?|TASK) FAILURE).*)",
        samples=("slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",),
    ),
    Pattern(
        kind="cancelled",
        literal="PBS: job killed: ",
        expression=r"PBS: job killed: (?P<text>(?:walltime|cput).*)",
        samples=("=>> PBS: job killed: walltime 3637 exceeded limit 3600",),
    ),
    Pattern(
        kind="cancelled",
        literal="TERM_",
        expression=(
            r"(?P<text>\bTERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW|PREEMPT|LOAD|OWNER|ADMIN|FORCE_OWNER|FORCE_ADMIN|"
            r"REQUEUE_OWNER|REQUEUE_ADMIN|RC_RECLAIM)\b.*)"
        ),
        samples=("TERM_RUNLIMIT: job killed after reaching LSF run time limit.",),
    ),
    Pattern(
        kind="cancelled",
        literal="DeadlineExceeded",
        expression=r"(?P<text>(?:[Rr]eason:? *|JobFailed|Warning +|^\S* *)\(?\bDeadlineExceeded\b.*)",
        samples=("  Warning  DeadlineExceeded  2m  job-controller  Job was active longer than specified deadline",),
    ),
    Pattern(
        kind="cancelled",
        literal="active longer than specified deadline",
        expression=r"(?P<text>active longer than specified deadline)",
        samples=("Job was active longer than specified deadline",),
    ),
    Pattern(
        kind="cancelled",
        literal="reempt",
        expression=(
            r"(?P<text>\bPreempted (?:by|in order to) .*|[Rr]eason:? +Preempt\w+.*|"
            r"(?:[Jj]ob \S+|[Ii]nstance) (?:was|has been|is being) preempted.*)"
        ),
        samples=("  Normal  Preempted  3s  default-scheduler  Preempted by pod 5f6c on node gpu-a",),
    ),
    Pattern(
        kind="cancelled",
        literal="got signal: ",
        expression=r"(?P<text>SignalException: Process \d+ got signal: (?:1|2|15)\b)",
        samples=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4110 got signal: 15",),
    ),
    Pattern(
        kind="cancelled",
        literal="death signal",
        expression=r"(?P<text>Received (?:Signals\.)?(?:SIGTERM|SIGINT|SIGHUP|15|2|1) death signal)",
        samples=("Received 15 death signal, shutting down workers", "Received Signals.SIGTERM death signal, shutting"),
    ),
    Pattern(
        kind="cancelled",
        literal="sending signal TERM",
        expression=r"(?P<text>^timeout: sending signal TERM to command .*)",
        samples=("timeout: sending signal TERM to command 'python'",),
    ),
    Pattern(
        kind="cancelled",
        literal="KeyboardInterrupt",
        expression=rf"(?P<text>^\S*\s*KeyboardInterrupt|{CARRIED}KeyboardInterrupt\s*$)",
        samples=("KeyboardInterrupt",),
    ),
    Pattern(
        kind="cancelled",
        literal="SIGTERM",
        expression=r"(?P<text>(?:Received|received|got|Got|due to|signal) .{0,20}SIGTERM)",
        samples=("Received SIGTERM: 15",),
    ),
)
