"""What PyTorch's ProcessGroupNCCL, Python and the system print: lines without NCCL's own mark."""

from diagnostics.parsers.base import Pattern

BEFORE_EXCEPTION = (
    r"^(?:.*?(?:[:|)\]]|std(?:err|out) [FP]"  # what launchers, Ray and Kubernetes put in front
    r"|:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)|:\d+ -"  # and with time stamps, and loggers with a line's number
    r"|\b(?:ERROR|CRITICAL|FATAL)\]? -|(?<!\w)E {2,12}) "  # or a level; pytest
    r"|.*?\w (?:with|error|get|message|this)?:? ?\""  # quoted in a sentence
    r"|.*?(?:<std(?:err|out)>|\[[a-z]*\d{1,7}\]):"  # mpirun, horovodrun, torchrun: [1,0]<stderr>: [default0]:
    r"|.*?(?:\"(?:message|error|exception|msg)\": ?|ErrorMessage )\")??"  # files of PyTorch's agent, SageMaker
)
_EXCEPTION = BEFORE_EXCEPTION + (
    r"(?P<name>(?:\w+\.)*(?:_?[A-Z]\w*(?:Error|Exception)|Exception)|(?:\w+\.)+\w+(?:Error|Exception)): (?P<reason>.+)"
)

PATTERNS = (
    Pattern(
        kind="watchdog-timeout",
        literal="collective operation timeout",
        expression=(
            r"(?:\[Rank (?P<rank>\d+)\]|\[PG \S+ .*?Rank (?P<pg_rank>\d+)\]).*?collective operation timeout: "
            r"WorkNCCL\((?:SeqNum=(?P<sequence>\d+), )?"
            r"OpType=(?P<operation>\w+)(?:, TensorShape=\[[^\]]*\])?(?:, NumelIn=(?P<input>\d+), "
            r"NumelOut=(?P<output>\d+)(?!\d*\s*$))?"
            r"(?:(?:, Timeout\(ms\)=(?P<timeout_ms>\d+))?\)(?: ran for (?P<ran_ms>\d+) milliseconds)?|[^)]*$)"
        ),
        samples=(
            (
                "[rank1]:[E810 03:04:11.061 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective "
                "operation timeout: "
                "WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for "
                "600096 milliseconds "
                "before timing out."
            ),
            (  # a terminal's end of line
                "[rank2]:[E513 13:25:57.7147 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation "
                "timeout: WorkNCCL(SeqNum=532339, OpType=BROADCAST, NumelIn=5164000, NumelOut=5"
            ),
        ),
    ),
    Pattern(
        kind="watchdog-timeout",
        literal="collective operation timeout",
        expression=(
            r"^(?!.*Rank \d+\]).*collective operation timeout: WorkNCCL\("  # without a rank, fields in any order
            r"(?=(?:[^)]*?SeqNum=(?P<sequence>\d+))?)(?=(?:[^)]*?Timeout\(ms\)=(?P<timeout_ms>\d+))?)"
            r"[^)]*?OpType=(?P<operation>\w+)(?:.*? ran for (?P<ran_ms>\d+))?"
        ),
        samples=(
            (
                "[E ProcessGroupNCCL.cpp:523] Watchdog caught collective operation timeout: "
                "WorkNCCL(OpType=ALLREDUCE, SeqNum=458) ran for 1800600 ms before timing out."
            ),
        ),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="have failed or timed out",
        expression=r"(?P<text>Some NCCL operations have failed or timed out)",
        samples=("[E ProcessGroupNCCL.cpp:537] Some NCCL operations have failed or timed out. Due to the async",),
    ),
    Pattern(
        kind="watchdog-status",
        literal="ast enqueued",
        expression=(
            r"(?:\[PG (?:ID )?(?P<group>\d+)(?: PG GUID (?P<guid>\w+)\S*)? )?"
            r"\bRank (?P<rank>\d+)\].*?last enqueued(?: NCCL)? work: (?P<enqueued>-?\d+), last completed(?: "
            r"NCCL)? work: "
            r"(?P<completed>-?\d+)"
        ),
        samples=(
            (
                "[rank13]:[E218 04:54:22.864 ProcessGroupNCCL.cpp:1795] [PG ID 11 PG GUID 119 Rank 1] Exception "
                "detected by watchdog at work: 216, last enqueued NCCL work: 220, last completed NCCL work: 215."
            ),
            (
                "[rank3]:[E ProcessGroupNCCL.cpp:577] [Rank 3] Timeout at NCCL work: 12, last enqueued NCCL "
                "work: 12, last "
                "completed NCCL work: 11."
            ),
        ),
    ),
    Pattern(
        kind="watchdog-exception",
        literal="terminated with exception",
        expression=r"watchdog thread terminated with exception: (?P<reason>.*)",
        samples=("[Rank 1] NCCL watchdog thread terminated with exception: CUDA error: device-side assert triggered",),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="watchdog",
        expression=r"(?P<text>watchdog got stuck for \d+ ?seconds)",
        samples=("ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress",),
    ),
    *(
        Pattern(kind="watchdog-stuck", literal=literal, expression=rf"(?P<text>{literal}.*)", samples=(sample,))
        for literal, sample in (
            (
                "Heartbeat monitor timed out",
                "[PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated after dumping debug info.",
            ),
            (
                "detected no heartbeat of its watchdog",
                "[PG 3 Rank 7] First PG on this rank that detected no heartbeat of its watchdog.",
            ),
            (
                "failure detected by watchdog",
                "[PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work sequence id: 241",
            ),
            (
                "taking the entire process down",
                "[Rank 3] To avoid data inconsistency, we are taking the entire process down.",
            ),
            (
                "dump signal from another rank",
                "[PG ID 0 Rank 3] Observed flight recorder dump signal from another rank via TCPStore.",
            ),
            (
                "Received a timeout signal from this local rank",
                "[PG ID 0 Rank 0] Received a timeout signal from this local rank and will start to dump the debug",
            ),
        )
    ),
    Pattern(
        kind="desync",
        literal="caused the desync",
        expression=r"(?P<text>ranks that caused the desync.*)",
        samples=("To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",),
    ),
    Pattern(
        kind="desync",
        literal="caused this timeout",
        expression=r"(?P<text>ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout.*)",
        samples=(
            "To our best knowledge, ranks [1] are the lagging ranks that caused this timeout. They never joined any",
        ),
    ),
    Pattern(
        kind="desync",
        literal="finished collective #",
        expression=r"(?P<text>\[(?P<ranks>[\d, ]+)\] finished collective #\d+, but didn't join collective #\d+.*)",
        samples=("[0, 1] finished collective #4, but didn't join collective #5 (count from 1)",),
    ),
    Pattern(
        kind="desync",
        literal="finish collective #",
        expression=r"(?P<text>\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #\d+.*)",
        samples=(
            "    [3] joined but didn't finish collective #7 (count from 1)",
            "lagging/dead/mismatched ranks that caused the desync problem: [3] joined but didn't finish collective #7",
        ),
    ),
    Pattern(
        kind="desync",
        literal="failed to pass monitoredBarrier",
        expression=r"(?P<text>Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier.*)",
        samples=("[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 10000 ms",),
    ),
    Pattern(
        kind="communicator-aborted",
        literal="communicator was aborted",
        expression=r"NCCL communicator was aborted on rank (?P<rank>\d+)",
        samples=("NCCL communicator was aborted on rank 3. ",),
    ),
    Pattern(
        kind="store-failed",
        literal="via c10d key-value store",
        expression=r"\[(?P<rank>\d+)\] is setting up NCCL communicator.*got error: (?P<reason>.*)",
        samples=(
            (
                "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
                "store by key '0', "
                "but store->get('0') got error: Connection reset by peer"
            ),
        ),
    ),
    Pattern(
        kind="python-error",
        literal="rror: ",
        expression=_EXCEPTION,
        samples=(
            "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "(RayTrainWorker pid=1, ip=10.0.0.1) ValueError: bad batch",
            "stderr F KeyError: 'labels'",
            "[pod/worker-0/trainer] 2026-11-22T08:33:08.123456789Z KeyError: 'labels'",
            "[1,3]<stderr>:KeyError: 'labels'",
            "[default3]:KeyError: 'labels'",
            "2026-01-02 03:04:05.678 | ERROR    | __main__:main:12 - KeyError: 'labels'",
            "ValueError: bad batch",
            "nixl_cu13._bindings.nixlBackendError: NIXL_ERR_BACKEND",
        ),
    ),
    Pattern(
        kind="python-error",
        literal="xception: ",
        expression=_EXCEPTION,
        samples=("deepspeed.runtime.zero.utils.ZeRORuntimeException: You are using ZeRO-Offload",),
    ),
    Pattern(
        kind="disk-full",
        literal="No space left on device",
        expression=r"(?:OSError|IOError|Errno 28|errno 28).*No space left on device",
        samples=("OSError: [Errno 28] No space left on device",),
    ),
    Pattern(
        kind="process-killed",
        literal="ignal",
        expression=(
            r"(?P<who>(?:exitcode|killed by|Received|terminated|exited on).{0,80}?)"
            r"\b(?P<signal>SIG(?:KILL|SEGV|ABRT|BUS)|signal (?:9|11|[4678])\b)"
        ),
        samples=(
            "failed (exitcode: -9) local_rank: 3 (pid: 4117) of binary: python, Signal 9 (SIGKILL) received",
            "mpirun noticed that process rank 3 exited on signal 9 (Killed).",
            "prterun noticed that process rank 1 with PID 13 on node n1 exited on signal 6 (Aborted).",
        ),
    ),
    Pattern(
        kind="process-killed",
        literal="orker",
        expression=(
            r"worker died or was killed while executing|worker process has died|Worker exit type: (?:SYSTEM_ERROR|NODE_"
            r"|USER_ERROR)"
        ),
        samples=(
            "(raylet) A worker died or was killed while executing a task by an unexpected system error.",
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
            "Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed due to the node running low",
        ),
    ),
    Pattern(
        kind="process-killed",
        literal="marked dead",
        expression=r"node (?:with node id|id):? .{0,200}marked dead",
        samples=(
            "The node with node id: 08a5 and address: 10.0.0.7 has been marked dead because the detector has missed",
        ),
    ),
    *(
        Pattern(
            kind="process-killed",
            literal=literal,
            expression=rf"(?:^|[\s*])(?P<signal>SIG(?:SEGV|ABRT|BUS|FPE|ILL)) {expression}",
            samples=(sample,),
        )
        for literal, expression, sample in (
            (" received at time=", "received at time=", "*** SIGSEGV received at time=1779000000 on cpu 3 ***"),
            (" (@0x", r"\(@", "*** SIGSEGV (@0x0) received by PID 12 ***"),
        )
    ),
    Pattern(
        kind="process-killed",
        literal="egmentation fault",
        expression=r"(?:Signal: |Fatal Python error: |Caught signal 11 \(|^)(?P<signal>Segmentation fault)",
        samples=(
            "[gpu-a:4101] Signal: Segmentation fault (11)",
            "Fatal Python error: Segmentation fault",
            "[gpu-a:4101 :0:4101] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
            "Segmentation fault (core dumped)",
        ),
    ),
    Pattern(
        kind="process-killed",
        literal="rror",
        expression=r"(?:Signal: |Fatal Python error: |Caught signal \d{1,2} \()(?P<signal>Bus error)",
        samples=(
            "[gpu-a:4101:0:4141] Caught signal 7 (Bus error: nonexistent physical address)",
            "[gpu-a:4101] Signal: Bus error (7)",
            "Fatal Python error: Bus error",
        ),
    ),
    Pattern(
        kind="process-killed",
        literal="ignal",
        expression=(
            r"(?:\] Signal: |Caught signal \d{1,2} \()"
            r"(?P<signal>Aborted|Illegal instruction|Floating point exception|Killed)"
        ),
        samples=("[gpu-a:4101] Signal: Aborted (6)", "[gpu-a:4101:0:4141] Caught signal 8 (Floating point exception)"),
    ),
    *(
        Pattern(
            kind="process-killed",
            literal=literal,
            expression=(
                rf"(?:\btasks? [\d,\[\]-]+: (?=[\w ]+(?:\(core dumped\))?\s*$)|: line \d+: +\d+ )(?P<signal>{literal})"
                r"(?= *$| *\(core|   )"
            ),
            samples=(f"srun: error: gpu-a: task 3: {literal}", *samples),
        )
        for literal, samples in (
            ("Killed", ("run.sh: line 12:  4117 Killed                  python train.py",)),
            ("Segmentation fault", ("run.sh: line 12:  4117 Segmentation fault      (core dumped) python train.py",)),
            ("Bus error", ("bash: line 1: 4117 Bus error               (core dumped) python train.py",)),
            ("Aborted", ("bash: line 1: 4117 Aborted                 (core dumped) python train.py",)),
            ("Out Of Memory", ()),
            (
                "Floating point exception",
                ("run.sh: line 12:  4117 Floating point exception(core dumped) python train.py",),
            ),
            ("Illegal instruction", ()),
        )
    ),
    Pattern(
        kind="process-killed",
        literal="oom",
        expression=r"Detected \d+ (?P<signal>oom[_-]kill) event",
        samples=("slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.",),
    ),
    Pattern(
        kind="verbs-foreign",
        literal="libibverbs",
        expression=r"libibverbs: Warning: couldn't (?:open config directory|load driver) ?(?P<what>.*)",
        samples=("libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'",),
    ),
    Pattern(
        kind="init-options",
        literal="ProcessGroupNCCL",
        expression=r"NCCL version: (?P<version>\d+\.\d+\.\d+)",
        samples=(
            "[PG 0 Rank 0] ProcessGroupNCCL initialization options: NCCL version: 2.21.5, size: 8, ProcessGroupNCCL",
        ),
    ),
    Pattern(
        kind="traceback",
        literal="Traceback (most",
        expression=r"Traceback \(most recent call last\)",
        samples=("Traceback (most recent call last):",),
    ),
    *(
        Pattern(kind="exception-ignored", literal=literal, expression=literal, samples=(sample,))
        for literal, sample in (
            ("Exception ignored in", "Exception ignored in: <function Pool.__del__ at 0x7f>"),
            ("exception was never retrieved", "Task exception was never retrieved"),
            ("Exception in thread", "Exception in thread Thread-3 (_pin_memory_loop):"),
            ("Error in atexit", "Error in atexit._run_exitfuncs:"),
        )
    ),
    Pattern(
        kind="speedup",
        literal="peedup",
        expression=r"^(?:\S+ ){0,6}[Ss]peedup(?: \S+){0,4}? ?[:=] ?(?P<factor>\d{1,6}(?:\.\d{1,6})?) ?x?\s*$",
        samples=("Speedup: 1.40x", "RDMA over TCP speedup: 1.2x"),
    ),
    Pattern(
        kind="sync-share",
        literal="radient",
        expression=r"[Gg]radient[ _-][Ss]ync\w*(?: \w+){0,4} ?[:=] ?(?P<percent>\d{1,3}(?:\.\d{1,6})?) ?%",
        samples=("Gradient sync overhead: 45.2%", "gradient synchronization overhead = 41 %"),
    ),
)
