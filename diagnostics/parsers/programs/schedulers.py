"""How schedulers and what runs ranks on a cluster say that a job failed or was ended.

Slurm, Kubernetes, Flux, LSF, Cray's PALS, SkyPilot, SageMaker, servers of models. Lines without NCCL's own mark, beside
those of ``launchers`` and ``endings``. An event that Kubernetes tries again
(scheduling, a sandbox, a mount) tells of no failure.
"""

from diagnostics.parsers.programs.rows import rows

_CRASHES = "Segmentation fault|Bus error|Aborted|Killed|Illegal instruction|Floating point exception"
_FAILED = (
    ("Reason:  ", r"^\W*Reason: {2,}Error\s*$", "      Reason:       Error"),
    (
        "specified backoff limit",
        r"has (?:failed: Job has )?reached the specified backoff limit",
        "MPIJob ns/test has failed: Job has reached the specified backoff limit",
    ),
    (" failed: FAILED", r"\bJob \d+ failed: FAILED\w*", "I 05-01 10:00:00 log_lib.py:431] Job 1 failed: FAILED_SETUP"),
    (
        "after failure of Process",
        r"Terminating remaining workers after failure of Process \d+.*",
        "Terminating remaining workers after failure of Process 2.",
    ),
    (
        "Child process with PID ",
        r"Child process with PID \d+ terminated with code -?[1-9]\d*.*",
        "[rank: 1] Child process with PID 1234 terminated with code 1. Forcefully terminating all other processes to",
    ),
    (
        "eporting training FAILURE",
        r"Reporting training FAILURE",
        "2024-05-01 10:00:00,123 sagemaker-training-toolkit ERROR    Reporting training FAILURE",
    ),
    (
        "job.exception type=exec",
        r"job\.exception type=exec severity=0 .*",
        "1.234s: job.exception type=exec severity=0 task 3 (host n2): Killed",
    ),
    (
        "FATAL: doom: ",
        r"flux-shell\[\d+\]: FATAL: doom: rank \d+ .*",
        "12.3s: flux-shell[1]: FATAL: doom: rank 3 on host n2 exited and exit-timeout=30s has expired",
    ),
    ("pyxis: co", r"pyxis: (?:container start failed|couldn't start container).*", "pyxis: couldn't start container"),
    (
        "ubmit/allocate failed: ",
        r"(?:salloc|srun): error: Job submit/allocate failed: .*",
        "salloc: error: Job submit/allocate failed: Requested node configuration is not available",
    ),
    (
        "job submission failed: ",
        r"sbatch: error: Batch job submission failed: .*",
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
    ),
    (
        "_init failed for some",
        r"It looks like \w+_init failed for some reason.*",
        "It looks like orte_init failed for some reason; your parallel process is likely to abort.",
    ),
    (
        "] Terminating process ",  # what spawn of PyTorch does to the others once one has failed
        r"spawn\.py:\d+\] Terminating process \d+ via signal \w+",
        "W0305 11:55:57.242000 19054 torch/multiprocessing/spawn.py:169] Terminating process 19119 via signal SIGTERM",
    ),
    (
        " status failed cmd ",
        r"Container rank \d+ status failed cmd .*",
        "Container rank 0 status failed cmd ['/usr/bin/python3', '-u', 'train.py'] code 1 log log/workerlog.0",
    ),
    ("NCCL Init failed", r"NCCL Init failed \(\d+\).*", "NCCL Init failed (10) 'cuda malloc failed'"),
    ("returned -1", r"\bPMIX?\w*_\w+ returned -1\b", "MPIR_pmi_kvs_get(227).......: PMI_KVS_Get returned -1"),
    (" workers are evicted", r"\d+/\d+ workers are evicted", "    message: 1/8 workers are evicted"),
    (
        "cannot recover from this failure",
        r"We cannot recover from this failure.*",
        "the daemon itself. We cannot recover from this failure, and",
    ),
    (
        "Slurm Job_id=",
        r"Slurm Job_id=\d+ Name=.*\b(?:FAILED|NODE_FAIL|OUT_OF_MEMORY)\b.*",
        "Slurm Job_id=124 Name=train Failed, Run time 00:10:00, FAILED, ExitCode 1",
    ),
    *(  # of sacct
        (word, rf"^\W*\d+(?:[._]\w+)*\s.*\s{word}\w*\+? +\d+:\d+", f"124.0     python   normal  {word}  1:0")
        for word in ("OUT_OF_ME", "NODE_FAIL", "FAILED")
    ),
    (
        "scheduler is dead",
        r"Rank \d+ scheduler is dead\b.*",
        "Rank 0 scheduler is dead. Please check if there are logs.",
    ),
    (
        "initialize executor on rank",
        r"Failed to initialize executor on rank \d+.*",
        "[TRT-LLM] [E] Failed to initialize executor on rank 1: assertion failed",
    ),
)
_KILLED = (
    ("flux-job: task(s)", rf"flux-job: task\(s\) (?P<signal>{_CRASHES})", "flux-job: task(s) Killed"),
    (
        "killed due to out",
        r"[Cc]ontainer killed due to (?P<signal>out of memory)",
        "Container killed due to out of memory",
    ),
    (
        "System OOM enc",
        r"(?P<signal>System OOM) encountered",
        "Warning  SystemOOM  1m  kubelet  System OOM encountered,",
    ),
    (
        "signal termination: ",
        r"Exited with signal termination: (?P<number>4|6|7|8|9|11)\b",
        "Exited with signal termination: 9.",
    ),
    (
        " exit signal ",
        rf"PE RANK \d+ exit signal (?P<signal>{_CRASHES})",
        "_pmiu_daemon(SIGCHLD): [NID 00012] [c0-0c0s3n0] PE RANK 3 exit signal Killed",
    ),
)
_ENDED = (
    ("Force Terminated job", r"(?:srun|salloc): Force Terminated job.*", "srun: Force Terminated job 1234"),
    ("forcing job termination", r"srun: forcing job termination", "srun: forcing job termination"),
    (
        "interrupt (one more",
        r"srun: interrupt \(one more within 1 sec.*",
        "srun: interrupt (one more within 1 sec to",
    ),
    ("scancel: ", r"scancel: (?:Terminating|Signal \d+ to) .*", "scancel: Terminating job 1234"),
    (
        "job.exception type=",
        r"job\.exception type=(?:timeout|cancel) severity=0.*",
        "job.exception type=timeout severity=0 resource allocation expired",
    ),
    (" TIMEOUT ", r"^\W*\d+(?:[._]\w+)*\s.*\sTIMEOUT +\d+:\d+", "124.0     python   normal  TIMEOUT   0:0"),
    ("died from signal", r"rank \d+ died from signal 15", "x1000c0s0b0n0: rank 0 died from signal 15"),
)

PATTERNS = (
    *rows("launcher-failure", _FAILED, names_text=True),
    *rows("process-killed", _KILLED),
    *rows("cancelled", _ENDED, names_text=True),
)
