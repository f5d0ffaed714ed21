"""What tools say of the machines of a job: names unresolved, memory used up, containers unstarted, sockets closed.

Lines without NCCL's own mark, of DNS tools, Ray, Slurm, systemd, Kubernetes, container runtimes, MPI and gRPC.
"""

from diagnostics.parsers.programs.rows import Row, rows

# where a mention is no failure: "If you see ...", and PyTorch's level W, which tries the next address
_SAID = r"^(?!.*\[W)(?!.*\b(?:[Ii]f|[Mm]ay|[Mm]ight|[Aa]void)\b).*?"
_UNRESOLVED: tuple[Row, ...] = (
    (
        "ould not resolve host",
        rf"{_SAID}(?P<reason>Could not resolve host(?:name)?:? (?!.*(?:Name or service|Temporary failure)).*)",
        "ssh: Could not resolve hostname gpu-b: nodename nor servname provided, or not known",
    ),
    (
        "nable to resolve ",
        rf"{_SAID}(?P<reason>[Uu]nable to resolve (?:host(?:name)?\b|\"|'|address).*)",
        'srun: error: slurm_set_addr: Unable to resolve "gpu-b"',
    ),
    (
        "ENOTFOUND",
        r"(?P<reason>getaddrinfo (?:ENOTFOUND|EAI_AGAIN) \S+)",
        "Error: getaddrinfo ENOTFOUND trainer-master-0",
    ),
    (
        "DNS resolution failed for",
        rf"{_SAID}(?P<reason>DNS resolution failed for .*)",
        "UNAVAILABLE: DNS resolution failed for trainer-0.trainer:1234: C-ares status is not ARES_SUCCESS",
    ),
    (
        "unable to get host address",
        r"(?P<reason>unable to get host address for \S+)",
        "[proxy:0:1@n2] HYDU_sock_connect (sock.c:110): unable to get host address for gpu-a (1)",
    ),
    (
        "UnknownHostException",
        r"(?P<reason>\bUnknownHostException: \S+)",
        "java.net.UnknownHostException: trainer-master-0",
    ),
    (
        "hostname to a (local) address",
        r"(?P<reason>[Uu]nable to resolve hostname to a \(local\) address)",
        "RuntimeError: [enforce fail at tcp/device.cc:83] Unable to resolve hostname to a (local) address",
    ),
)
_ASKED: tuple[Row, ...] = (  # by scripts that wait for a host, and ask again
    (
        "can't resolve '",
        r"(?P<reason>nslookup: can't resolve '(?!\(null\)).*)",
        "nslookup: can't resolve 'trainer-master-0': Name does not resolve",
    ),
    (
        "NXDOMAIN",
        r"(?P<reason>server can't find \S+: NXDOMAIN|.*not found: \d+\(NXDOMAIN\))",
        "** server can't find trainer-master-0.default.svc.cluster.local: NXDOMAIN",
    ),
    (
        ": bad address '",
        r"(?P<reason>\b(?:ping|wget|nc|telnet): bad address '.*)",
        "ping: bad address 'trainer-master-0'",
    ),
)
_NO_MEMORY: tuple[Row, ...] = (
    (
        "exceeds the memory usage threshold",
        r"(?P<signal>memory) usage threshold of [\d.]+\. Ray killed",
        "which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 79a553ea) because it was",
    ),
    (
        "OOM Killed",
        r"(?P<signal>OOM Killed)",
        "srun: error: gpu-a: Some of the step tasks have been OOM Killed.",
    ),
    (
        "killed by the OOM killer",
        r"killed by the (?P<signal>OOM killer)",
        "systemd[1]: trainer.service: A process of this unit has been killed by the OOM killer.",
    ),
    (
        "result 'oom-kill'",
        r"with result '(?P<signal>oom-kill)'",
        "systemd[1]: trainer.service: Failed with result 'oom-kill'.",
    ),
    (
        "earlyoom",
        r"(?P<signal>earlyoom)\S* +sending SIG(?:KILL|TERM) to process",
        'earlyoom[812]: sending SIGKILL to process 4117 uid 1000 "python": badness 901, VmRSS 64112 MiB',
    ),
    (
        "OOMKilling",
        r"(?P<signal>OOMKilling)\b",
        "Warning  OOMKilling  1m  kernel-monitor  Memory cgroup out of memory: Killed process 4117 (python)",
    ),
    (
        "memory limits. ",
        r"killed by YARN for exceeding (?P<signal>memory) limits",
        "Container killed by YARN for exceeding memory limits. 16.1 GB of 16 GB physical memory used.",
    ),
)
_CONTAINERS: tuple[Row, ...] = (
    (
        "pyxis: ",
        r"pyxis: +(?:\[ERROR\] .*|couldn't start container.*|failed to \S+ .*)",
        "slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see https://github.com/NVIDIA",
    ),
    (
        "enroot",
        r"\benroot-[a-z]+: (?!.*warning).*(?:No such file|Permission denied|not permitted|[Ff]ailed|No space).*",
        "enroot-nsenter: failed to create user namespace: Operation not permitted",
    ),
    (
        "[ERROR] Command not found: ",
        r"\[ERROR\] Command not found: .*",
        "[ERROR] Command not found: nvidia-container-cli",
    ),
    (
        "OCI runtime ",
        r"OCI runtime (?:create|exec|start) failed.*|OCI runtime error.*",
        "Error: failed to create task for container: OCI runtime create failed: runc create failed: unable to start",
    ),
    (
        "select device driver",
        r"could not select device driver .*",
        'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]',
    ),
    (
        "failed to create shim",
        r"failed to create shim(?: task)?: .*",
        "failed to create shim task: OCI runtime create failed: unknown or invalid runtime name: nvidia: unknown",
    ),
    (
        "ContainerError",
        r"\b(?:Create|Run)ContainerError\b.*",
        "trainer-0   0/1   CreateContainerError   0   2m",
    ),
    (
        "CreateContainerConfigError",
        r"\bCreateContainerConfigError\b.*",
        "trainer-0   0/1   CreateContainerConfigError   0   2m",
    ),
    (
        "FATAL:   ",
        r"^FATAL:   .*(?:container|image|mount|namespace).*",
        "FATAL:   container creation failed: mount hook function failure: mount /dev/nvidia0 error",
    ),
)
# a daemon of the launcher, or a socket of the framework, whose other end is gone
_CLOSED = "(?P<reason>Socket closed|Connection reset by peer|GOAWAY received)"
_GONE: tuple[Row, ...] = (
    (
        "lost communication with",
        r"(?P<library>ORTE|PRTE|prterun|prte|mpirun) has lost communication with a remote daemon",
        "PRTE has lost communication with a remote daemon.",
    ),
    (
        "HYDU_sock_",
        r"(?P<library>HYDU)_sock_\w+ \(.*\((?P<reason>Connection (?:reset|closed|timed)[^)]*|No route[^)]*)",
        "[mpiexec@n1] HYDU_sock_read (utils/sock/sock.c:239): read error (Connection reset by peer)",
    ),
    (
        "Aborting Ring",
        r"(?P<library>Aborting Ring)\w+ with (?i:unavailable).*?: (?P<reason>[\w ]+)",
        "ring_reducer.cc:369] Aborting RingReduce with Unavailable: Socket closed",
    ),
    (
        "::StartAbort",
        rf"(?P<library>::StartAbort) (?i:unavailable):.*?{_CLOSED}",
        "BaseCollectiveExecutor::StartAbort UNAVAILABLE: Connection reset by peer",
    ),
    (
        "Collective ops is aborted by",
        rf"(?P<library>Collective ops) is aborted by:? .*?{_CLOSED}",
        "UnavailableError: Collective ops is aborted by: Connection reset by peer. The error could be from a previous",
    ),
    (
        "UNAVAILABLE: ",
        rf"(?:Error|Exception|rpc error|ERROR|\bE\d{{4}} ).*?(?P<library>UNAVAILABLE): .{{0,80}}?{_CLOSED}",
        "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: recvmsg:Connection reset by peer",
    ),
)

_BEGUN: tuple[Row, ...] = (  # the title of a benchmark of MPI, behind an MPI_Init that worked
    ("# OSU ", r"^# OSU \w+.* Test\b", "# OSU MPI Broadcast Latency Test v5.8"),
    ("#bytes #repetitions", r"^\s*#bytes #repetitions\b", "       #bytes #repetitions  t_min[usec]  t_max[usec]"),
)

PATTERNS = (
    *rows("benchmark-begun", _BEGUN),
    *rows("store-failed", _UNRESOLVED),
    *rows("name-unresolved", _ASKED),
    *rows("process-killed", _NO_MEMORY),
    *rows("remote-gone", _GONE),
    *rows("launcher-failure", _CONTAINERS, names_text=True),
)
