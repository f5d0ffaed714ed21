"""How launchers, Kubernetes, the C library and glog say that a program ended, or that it could not begin.

Lines without NCCL's own mark, beside those of ``launchers``.
"""

from diagnostics.parsers.programs.rows import rows

_SRUN = (
    r"task \d+ launch failed.*|First task exited.*|Unable to confirm allocation.*|Nodes .* still not ready"
    r"|mpi/pmix: unable.*|step:.*exited abnormally"
)
_ARGUMENTS = r"unrecognized arguments|the following arguments are required|argument \S+:|ambiguous option"
_LAUNCHERS = "torchrun|python3?|mpirun|mpiexec|deepspeed|accelerate|srun|horovodrun|ray|pdsh"
_ENDED = (
    (
        "has exited due to process rank",
        r"(?:mpirun|mpiexec|prterun|orterun) has exited due to process rank \d+.*",
        "mpirun has exited due to process rank 3 with PID 0 on node gpu-a exiting improperly.",
    ),
    (
        "ignal",
        r"noticed that process rank \d+ .*exited on signal 15.*",
        "prterun noticed that process rank 3 with PID 1234 on node gpu-a exited on signal 15 (Terminated).",
    ),
    ("terminated badly", r"one of the processes terminated badly.*", "one of the processes terminated badly; aborting"),
    (
        "(SIGTERM) received",
        r"Signal 15 \(SIGTERM\) received by PID \d+",
        "  traceback : Signal 15 (SIGTERM) received by PID 4117",
    ),
    (
        "TASK FAILURE",
        r"DUE TO TASK FAILURE.*",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TASK FAILURE ***",
    ),
    (
        "or other failure mode",
        r"STEP \S+ ON \S+ FAILED \(non-zero exit code or other failure mode\)",
        "slurmstepd: error: *** STEP 123.0 ON gpu-a FAILED (non-zero exit code or other failure mode) ***",
    ),
    (
        "srun: ",
        rf"srun: (?:fatal: .*|Terminating (?:StepId|job step).*|error: (?:{_SRUN}))",
        "srun: error: task 3 launch failed: Invalid job credential",
    ),
    (
        "failed to start container",
        r"failed to start container .*",
        'Warning  Failed  2m  kubelet  Error: failed to start container "trainer"',
    ),
    *(
        (reason, rf"(?:[Rr]eason:? +|\d/\d+ +){reason}\b.*", f"      Reason:       {reason}")
        for reason in (
            "ContainerCannotRun",
            "ContainerStatusUnknown",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
            "StartError",
            "UnexpectedAdmissionError",
        )
    ),
    ("  Error  ", r"^\S+ +\d+/\d+ +Error +\d+ .*", "worker-0   0/1     Error       0          12m"),
    ("  Evicted  ", r"^\S+ +\d+/\d+ +Evicted +\d+ .*", "worker-0   0/1     Evicted     0          12m"),
    ("Init:Error", r"^\S+ +\d+/\d+ +Init:Error +\d+ .*", "worker-0   0/1     Init:Error  0          12m"),
    (
        "executing job with overrides",
        r"^(?:.*?[)\]>:] ?)?Error executing job with overrides: .*",
        "Error executing job with overrides: ['trainer.n_gpus_per_node=8']",
    ),
    (
        "Error: failed to run ",
        r"Error: failed to run \S+ .*",
        "Error: failed to run torchrun --nproc_per_node=4 a.py on n1",
    ),
    ("job failed! ", r"train job failed! train_ret: [1-9]\d*", "[INFO]: train job failed! train_ret: 1"),
    ("Job ", r"\bERROR\b.{0,60}\bJob \S+ failed\b.*", "[ERROR] Job nccl-test failed: no result in stdout.txt"),
    (
        "Exiting main process",
        r"Exiting main process due to a failure.*",
        "Exiting main process due to a failure upon worker",
    ),
    ("phase Failed", r"phase Failed for pod\b.*", "Got event MODIFIED, phase Failed for pod: mnist-worker-0"),
    ("hase: Failed", r"^\s*[\"']?phase[\"']?: [\"']?Failed\W*$", "  phase: Failed"),
    ("jobset failed", r"jobset failed due to .*", "jobset failed due to one or more job failures"),
    ("upervisor actor died", r"Job supervisor actor died.*", "[Failure] Job supervisor actor died"),
    ("Job 'raysubmit_", r"Job 'raysubmit_\w+' failed", "Job 'raysubmit_123' failed"),
    (
        "return code list",
        r"failed with return code list: .*[1-9].*",
        "ERROR: Job 1 failed with return code list: [137, 0]",
    ),
    ("(status: FAILED", r"Job finished \(status: FAILED\w*\).*", "INFO: Job finished (status: FAILED)."),
    (
        "not expected)",
        r"exited: \S+ \(exit status [1-9]\d*; not expected\)",
        "INFO exited: train (exit status 1; not expected)",
    ),
    (
        "conda.cli.main_run",
        r"conda\.cli\.main_run:\S+ `conda run .*` failed.*",
        "conda.cli.main_run:x(49): `conda run a` failed.",
    ),
    (
        "terminate called ",
        r"terminate called (?:without an active exception|recursively)",
        "terminate called recursively",
    ),
    ("pure virtual method", r"^pure virtual method called", "pure virtual method called"),
    ("libc++abi: ", r"libc\+\+abi: terminating .*", "libc++abi: terminating due to uncaught exception of type x"),
    ("corrupted double-linked", r"corrupted double-linked list.*", "corrupted double-linked list (not small)"),
    ("malloc_consolidate(): ", r"malloc_consolidate\(\): .*", "malloc_consolidate(): invalid chunk size"),
    ("buffer overflow detected", r"buffer overflow detected.*", "*** buffer overflow detected ***: terminated"),
    (
        "Fatal Python error: ",
        r"Fatal Python error: (?!Segm|Abort|Bus|Ill|Floa).*",
        "Fatal Python error: init_import_site: Failed to import the site module",
    ),
    ("== backtrace (tid", r"={4} backtrace \(tid: *\d+\) ={4}", "==== backtrace (tid:   1234) ===="),
    (
        "ignal code: ",
        r"Signal code: (?:Address not mapped|Invalid permissions|Non-existent physical address).*",
        "[gpu-a:1234] Signal code: Address not mapped (1)",
    ),
    (
        "by the Java Runtime",
        r"fatal error has been detected by the Java Runtime Environment.*",
        "#  A fatal error has been detected by the Java Runtime Environment:",
    ),
    (
        'Exception in thread "',
        r"Exception in thread \"[^\"]{1,100}\" [\w.$]+.*",
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
    ),
    (
        "fatal error: ",
        r"fatal error: (?:all goroutines are asleep|unexpected signal during runtime|concurrent map).*",
        "fatal error: all goroutines are asleep - deadlock!",
    ),
    ("munmap_chunk(): ", r"munmap_chunk\(\): invalid.*", "munmap_chunk(): invalid pointer"),
    ("realloc(): ", r"realloc\(\): invalid.*", "realloc(): invalid next size"),
    ("tcache", r"tcache\w*\(\): unaligned tcache chunk.*", "tcache_thread_shutdown(): unaligned tcache chunk detected"),
    ("Kernel panic", r"Kernel panic - not syncing.*", "Kernel panic - not syncing: Fatal exception"),
    (
        "Thread creation failed",
        r"libgomp: Thread creation failed.*",
        "libgomp: Thread creation failed: Resource temporarily",
    ),
    ("fork: Cannot allocate", r"\bfork: Cannot allocate memory", "bash: fork: Cannot allocate memory"),
    (
        "not found",
        rf"(?:: |^)(?:{_LAUNCHERS}): (?:command )?not found$",
        "bash: torchrun: command not found",
    ),
    ("can't open file", r"python\S*: can't open file .*", "python: can't open file 'train.py': [Errno 2] No such file"),
    ("No module named ", r"^\S*python\S*: No module named .*", "/usr/bin/python: No module named torch"),
    (
        ": error: ",
        rf"^(?:\[\w+\]: ?)?\S+(?:\.py)?: error: (?:{_ARGUMENTS}).*",
        "train.py: error: unrecognized arguments: --local-rank=0",
    ),
)
_ASSERTED = (
    ("RET_CHECK failure", r"RET_CHECK failure \(.*", "INTERNAL: RET_CHECK failure (xla/pjrt/gpu_device.cc:345) a == b"),
    (
        "Check failed: ",
        r"\bF\d{4} \d\d:\d\d:\S+ .*Check failed: .*",
        "F1122 08:33:08.123456 4117 foo.cc:12] Check failed: x",
    ),
    (
        "Non-OK-status: ",
        r"\bF\d{4} \d\d:\d\d:\S+ .*Non-OK-status: .*",
        "F0000 00:00:17.1 4117 a.cc:12] Non-OK-status: x",
    ),
    (
        "Assertion `",
        r"^(?:.*[:|\]] ?)??[\w./+-]+: [\w./+-]+:\d+: .*: Assertion `.*' failed\..*",
        "python: foo.cc:12: void f(): Assertion `x > 0' failed.",
    ),
    (
        "Assertion `",
        r"^(?:\[[^\]]{1,80}\] +)?[\w/.-]+\.[ch]:\d+ +Assertion `.*' failed.*",  # UCX ends its process with it
        "[n1:812  :0:812]       rndv.c:2410 Assertion `status == UCS_OK' failed",
    ),
    (
        "Assertion failed: (",
        r"Assertion failed: \(.*, file .*, line \d+.*",
        "Assertion failed: (x > 0), function f, file a.c, line 1.",
    ),
)

_LEVELS = tuple(  # of any program; how far from the end of its file does not matter
    (level, rf"\b{level}\b.*", f"2026-01-02 03:04:05 {level} the data loader crashed")
    for level in ("FATAL", "CRITICAL", "PANIC")
)

PATTERNS = (
    *rows("fatal-level", _LEVELS, names_text=True),
    *rows("launcher-failure", _ENDED, names_text=True),
    *rows("run-error", _ASSERTED, names_text=True),
)
