"""How launchers, schedulers, shells and the kernel say that a process ended, and nccl-tests that data is wrong.

Lines without NCCL's own mark: mpirun, Slurm, Kubernetes, make, glibc, the out-of-memory killer.
"""

from diagnostics.parsers.base import CARRIED
from diagnostics.parsers.programs.rows import rows

_LAUNCHING = (
    (
        "undefined symbol: nccl",
        r"undefined symbol: nccl\w+",
        "ImportError: /usr/lib/libtorch_cuda.so: undefined symbol: ncclCommSplit",
    ),
    (
        "loading shared libraries",
        r"error while loading shared libraries: .*",
        "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file",
    ),
    (
        "DataLoader worker",
        r"DataLoader worker \(pid\S* [\d, ]+\) exited unexpectedly.*",
        "RuntimeError: DataLoader worker (pid(s) 4117) exited unexpectedly",
    ),
    (
        "] HYD",
        r"\[(?:mpiexec|proxy)\S*\] HYD\w+ \(.*(?:error|failed).*",
        "[mpiexec@n1] HYDU_sock_write (sock.c:256): error",
    ),
    ("EXIT CODE: ", r"EXIT CODE: [1-9]\d*", "=   EXIT CODE: 1"),
    (
        "starting container process",
        r"starting container process caused.*",
        'error: container_linux.go:380: starting container process caused: exec: "python": executable file not found',
    ),
    (
        "connect to some hosts via ssh",
        r"could not connect to some hosts via ssh",
        "RuntimeError: could not connect to some hosts via ssh",
    ),
    ("ProcessRaisedException", r"ProcessRaisedException", "torch.multiprocessing.spawn.ProcessRaisedException:"),
    (
        "expects same model across all ranks",
        r"DDP expects same model across all ranks.*",
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 10 params",
    ),
    ("double free or", r"double free or corruption.*", "double free or corruption (!prev)"),
    ("corrupted size vs", r"corrupted size vs\. prev_size.*", "corrupted size vs. prev_size"),
    ("free(): ", r"free\(\): (?:invalid|corrupted|unaligned|double).*", "free(): invalid pointer"),
    (
        "malloc(): ",
        r"malloc\(\): (?:invalid|corrupted|unaligned|memory|unsorted|mismatching).*",
        "malloc(): invalid size (unsorted)",
    ),
    ("stack smashing", r"stack smashing detected.*", "*** stack smashing detected ***: terminated"),
    ("monitored command dumped", r"monitored command dumped core", "timeout: the monitored command dumped core"),
    ("NodeLost", r"\bNodeLost\b.*", "Warning  NodeLost  Node gpu-a which was running pod worker-0 is unresponsive"),
    ("NodeNotReady", r"\bNodeNotReady\b.*", "Warning  NodeNotReady  2m  node-controller  Node is not ready"),
    (
        "exited with non-zero",
        r"processes exited with non-zero status",
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
    ),
    (
        "Per user-direction",
        r"Per user-direction, the job has been aborted",
        "a non-zero exit code. Per user-direction, the job has been aborted.",
    ),
    (
        "unexpectedly disconnected",
        r"peer process has unexpectedly disconnected",
        "An MPI communication peer process has unexpectedly disconnected.",
    ),
    (
        "daemon has unexpectedly failed",
        r"daemon has unexpectedly failed.*",
        "An ORTE daemon has unexpectedly failed after launch and before",
    ),
    (
        "not enough slots",
        r"There are not enough slots available.*",
        "There are not enough slots available in the system to satisfy the 16",
    ),
    (
        "assert (!closed) failed",
        r"mpiexec.*assert \(!closed\) failed",
        "[mpiexec@node1] control_cb (pm/pmiserv/pmiserv_cb.c:200): assert (!closed) failed",
    ),
    (
        "Back-off restarting failed",
        r"Back-off restarting failed container.*",
        "Back-off restarting failed container trainer in pod worker-0",
    ),
    ("CrashLoopBackOff", r"CrashLoopBackOff", "trainer-0   0/1   CrashLoopBackOff   4   5m"),
    (
        "BackoffLimitExceeded",
        r"BackoffLimitExceeded.*",
        "Warning  BackoffLimitExceeded  1m  job-controller  Job has reached the specified backoff limit",
    ),
    (
        "replica(s) failed",
        r"\d+ \w+ replica\(s\) failed",
        "PyTorchJob test is failed because 1 Worker replica(s) failed.",
    ),
    (
        "Evicted",
        r"(?:[Rr]eason:? +|Warning +)Evicted\b.*",
        "  Warning  Evicted  2m  kubelet  The node had condition: [MemoryPressure].",
    ),
    ("xit Code:", r"Exit Code: +[1-9]\d*", "      Exit Code:    137"),
    ("failed with ", r"failed with (?:exit )?(?:code|status):? -?[1-9]\d*", "job failed with exit code 1"),
    (
        "reliably start one or more daemons",
        r"unable to reliably start one or more daemons",
        "ORTE was unable to reliably start one or more daemons.",
    ),
    (
        " was unable to ",
        r"(?:mpirun|mpiexec|prterun|orterun) was unable to (?:launch|find|start|allocate|open|cleanly).*",
        "mpirun was unable to launch the specified application as it could not access or execute an executable:",
    ),
    (
        "An error occurred in MPI_",
        r"An error occurred in MPI_\w+",
        "[node1:4117] *** An error occurred in MPI_Allreduce",
    ),
    (
        "atal error in ",
        r"Abort\(\d+\) on node \d+ .*|Fatal error in (?:internal_\w+|P?MPI_\w+).*",
        "Abort(1090831) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:",
    ),
    (
        "PMIX ERROR: ",
        r"PMIX ERROR: (?:UNREACHABLE|LOST-CONNECTION|LOST_CONNECTION|TIMEOUT)\b.*",
        "[gpu-a:4117] PMIX ERROR: UNREACHABLE in file src/server/pmix_server.c at line 2193",
    ),
    (
        "unable to complete a TCP connection",
        r"was unable to complete a TCP connection.*",
        "A process or daemon was unable to complete a TCP connection",
    ),
    (
        "failed to TCP connect to",
        r"Open MPI failed to TCP connect to .*",
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This should not happen.",
    ),
    (
        "tcp_peer_",
        r"tcp_peer_\w+: .*\bfailed: (?:Broken pipe|Connection reset by peer) \(\d+\)",
        "[n2:08003] [[32552,0],2] tcp_peer_send_blocking: send() to socket 9 failed: Broken pipe (32)",
    ),
    (
        "waiting for job step to complete",
        r"srun: error: Timed out waiting for job step to complete",
        "srun: error: Timed out waiting for job step to complete",
    ),
    (
        "MPI_INIT failed",
        r"(?:It looks like|PMPI_Init.*) ?MPI_INIT failed.*",
        "It looks like MPI_INIT failed for some reason; your parallel process is likely to abort.",
    ),
    ("execve(): ", r"error: execve\(\): .*", "slurmstepd: error: execve(): train.sh: No such file or directory"),
    (
        "srun: error: ",
        r"srun: error: (?:Unable to (?:create step|allocate resources)|Application launch failed|Task launch for).*",
        "srun: error: Unable to create step for job 1234: Invalid generic resource (gres) specification",
    ),
    ("exit with status code", r"exit with status code [1-9]\d*", "Process 1 exit with status code 134."),
    ("Host key verification failed", r"Host key verification failed", "Host key verification failed."),
    (
        "Permission denied (publickey",
        r"Permission denied \(publickey.*",
        "user@gpu-b: Permission denied (publickey,password).",
    ),
    (
        "kex_exchange_identification",
        r"kex_exchange_identification: .*",
        "kex_exchange_identification: Connection closed by remote host",
    ),
    (
        "Error response from daemon",
        r"(?:docker|podman): Error response from daemon: .*",
        "docker: Error response from daemon: could not select device driver with capabilities: [[gpu]].",
    ),
    ("was evicted", r"\b[Pp]od (?:\S+ )?was evicted.*", "Pod was evicted in response to taint"),
    (
        "ImagePull",
        r"\b(?:ImagePullBackOff|ErrImagePull)\b.*",
        "worker-0   0/1   ImagePullBackOff   0   2m",
    ),
    (
        "ake: *** ",
        r"^g?make: \*\*\* .*(?: Error [1-9]\d*|\] (?:Killed|Aborted|Segm|Bus).*)",
        "make: *** [a:12: test] Error 1",
    ),
    ("]: *** [", r"^g?make\[\d+\]: \*\*\* .* Error [1-9]\d*", "make[1]: *** [Makefile:12: test] Error 134"),
)
_CUT = (
    (
        "Job step aborted",
        r"srun: Job step aborted: .*",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ),
    ("due to walltime", r"(?:terminated|killed) due to walltime.*", "Job terminated due to walltime"),
    ("exceeded its wall", r"exceeded its wall ?(?:clock )?time.*", "Your job has exceeded its wall time limit"),
    (
        "termination notice",
        r"(?:[Ss]pot|instance|[Pp]reemption) .*termination notice.*",
        "Spot instance termination notice received",
    ),
    (
        "Terminated",
        r"^Terminated\s*$|srun: error: \S+: tasks? [\d,\[\]-]+: Terminated",
        "srun: error: gpu-a: task 3: Terminated",
    ),
    ("Hangup", r"^Hangup\s*$", "Hangup"),
)
# a row of nccl-tests whose column #wrong is not 0, out of place or in place; large numbers are printed as 6.71e+07
_TIMES = r"[\d.]+\s+[\d.]+\s+[\d.]+\s+"
_COUNTED = r"(?:[1-9]\d*|[1-9](?:\.\d+)?e\+\d+)(?=\s|$)"
_ROW = (
    rf"{CARRIED}\s*(?P<wrong_at>\d+)\s+\d+\s+\w+\s+(?:\w+\s+)?-?\d+\s+{_TIMES}"
    rf"(?P<text>{_COUNTED}|(?:0|N/A)\s+{_TIMES}{_COUNTED})"
)
_WRONG = (
    *(
        (
            f"  {reduction}  ",
            _ROW,
            f"  1048576  262144  float   {reduction}     -1    31.20   33.61   63.02      8    30.9   33.9  63.6     0",
        )
        for reduction in ("sum", "prod", "max", "min", "avg", "none")
    ),
    (  # hypercube_perf names none
        "          -1  ",
        _ROW,
        " 1048576   16384     float              -1   479.91    2.05    2.05  2.40115e+06   460.90    2.13    2.13  0",
    ),
)

PATTERNS = (
    *rows("launcher-failure", _LAUNCHING, names_text=True),
    *rows("cancelled", _CUT, names_text=True),
    *rows("run-error", _WRONG),
)
