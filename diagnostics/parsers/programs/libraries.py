"""What libraries and tools beside NCCL say of a failure: UCX, libfabric, Gloo, shared memory, nccl-tests.

Lines without NCCL's own mark.
"""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.programs.rows import rows

_SEGMENTS = (  # of PyTorch, beside NCCL's own
    (
        "unable to write to file <",
        r"unable to write to file </(?P<segment>torch_\w+)>: (?P<reason>No space left on device.*)",
        "RuntimeError: unable to write to file </torch_123_456>: No space left on device (28)",
    ),
    (  # Open MPI's own transport in shared memory
        "not enough space for /dev/shm",
        r"not enough (?P<reason>space) for (?P<segment>/dev/shm/\S+)",
        "It appears as if there is not enough space for /dev/shm/vader_segment.n1.1.0 (the shared-memory backing",
    ),
    (  # Python's multiprocessing
        "No space left on device: '/",
        r"(?P<reason>No space left on device): '(?P<segment>/(?:psm|sem|torch|pym)[-_]\w+)'",
        "OSError: [Errno 28] No space left on device: '/psm_4f3a10b2'",
    ),
    (
        "insufficient shared memory",
        r"Unexpected bus error encountered in worker.*insufficient shared memory",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    ),
    (
        "out of shared memory",
        r"^(?!.*killed by signal).*workers are (?P<text>out of shared memory).*",
        "It is possible that dataloader's workers are out of shared memory. Please try to raise your limit.",
    ),
)
_DESCRIPTORS = (
    (
        "Too many open files",
        r"(?:Error|error|failed)\b.*?(?P<reason>Too many open files)",
        "RuntimeError: Too many open files. Communication with the workers is no longer possible.",
    ),
)
_UCX = (
    (
        "Transport retry count exceeded",
        r"UCX +(?:ERROR|error) (?P<reason>Transport retry count exceeded.*)",
        "[1650000000.1] [n1:33 :0] ib_mlx5_log.c:177  UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB",
    ),
)
_UCX_REACH = (  # Open MPI over UCX, before the program starts
    (
        "dest_addr=",
        r"UCX +ERROR +connect\(fd=\d+, dest_addr=(?P<peer>[\d.]+):\d+\) failed: (?P<reason>.*)",
        "sock.c:323  UCX  ERROR   connect(fd=48, dest_addr=10.0.0.1:42887) failed: Connection refused",
    ),
    (
        "ucp_ep_create(",
        r"ucp_ep_create\(proc=\d+\) failed: (?P<reason>(?:Destination is unreachable|Connection|No route).*)",
        "[n1:07356] pml_ucx.c:424  Error: ucp_ep_create(proc=3) failed: Destination is unreachable",
    ),
    (
        "resolve UCX endpoint",
        r"(?P<reason>Failed to resolve UCX endpoint for rank \d+)",
        "[n1:07356] pml_ucx.c:477  Error: Failed to resolve UCX endpoint for rank 3",
    ),
)
_UCX_VERBS = (
    (
        "ibv_create_ah(",
        r"UCX +ERROR +(?P<call>ibv_create_ah)\(.*?(?: on (?P<device>\w+))? failed: (?P<reason>.*)",
        "ib_device.c:1171 UCX  ERROR   ibv_create_ah(dlid=1) for RC connect on mlx5_0 failed: Connection timed out",
    ),
)
_UCX_ROWS = (
    (
        "Invalid gid[",
        r"UCX +ERROR +Invalid gid\[(?P<index>\d+)\] on (?P<device>\w+)",
        "[15858.1] [n1:63427:0]      ib_device.c:918  UCX  ERROR Invalid gid[0] on mlx5_6:1",
    ),
)
_LIBFABRIC = (
    (
        "libfabric:",
        r"libfabric:\d+:\d+:.*<warn> err: ?(?P<code>\d+),? (?:message: )?(?P<reason>[^()]*?)(?: My \w+ addr.*)?$",
        "libfabric:4117:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid address",
    ),
)
_QUEUES = (
    (
        "libfabric:",
        r"libfabric:\d+:\d+:.*<warn> Unable to create (?:extended )?(?:CQ|QP): (?P<insert>Cannot allocate memory)",
        "libfabric:17:17327797::efa:cq:efa_rdm_cq_open():92<warn> Unable to create extended CQ: Cannot allocate memory",
    ),
)
_LOST = (
    (
        "gloo/transport/tcp",
        r"gloo/transport/tcp/\S+\] (?:Connection \w+ by peer|Socket .*?closed|\w+ error|writev) ?\[(?P<peer>[^]]+)",
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4117",
    ),
)

_VERBS = (  # of MSCCL++ and others that open connections themselves
    (
        "failed (errno ",
        r"(?P<call>ibv_\w+) failed \(errno (?P<number>\d+)\)(?: \(.*?: (?P<reason>[^)]+)\))?",
        'C++ exception with description "ibv_modify_qp failed (errno 19) (Ib failure: No such device)"',
    ),
)
_NVSHMEM_VERBS = (
    (
        "non-zero status: ",
        r"non-zero status: (?P<number>\d+):? ?(?P<call>ibv_\w+)\b",
        "/nvshmem/src/modules/transport/ibrc/ibrc.cpp:418: non-zero status: 110 ibv_modify_qp failed",
    ),
)
_NVSHMEM = (
    (
        "non-zero status: ",
        r"\S+\.(?:cpp|cu|cc|h):(?:\w+:)?\d+: non-zero status: \d+:? ?(?!ibv_)\S.*",
        "/nvshmem/src/modules/transport/ibrc/ibrc.cpp:1433: non-zero status: 7 ep_connect failed",
    ),
    (
        "nvshmem",
        r"(?i:nvshmem) (?:initialization failed|setup connections failed|bootstrap\w* failed|setup heap failed).*",
        "/nvshmem/src/host/init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
    ),
    (
        "aborting due to error",
        r"\S+:\d+: (?i:nvshmem): aborting due to error.*",
        "/nvshmem/src/host/mem/mem.cpp:331: NVSHMEM: aborting due to error in nvshmemi_setup_heap",
    ),
)
_TRANSFERS = (
    (
        "to modify ",
        r"(?:[Ff]ailed|[Uu]nable) to modify (?:\w+ )?QP.*",
        "Failed to modify QP to RTR: Connection timed out",
    ),
    (
        "DeepEP ",
        r"DeepEP (?:error|timeout).*",
        "RuntimeError: DeepEP error: CPU recv timeout",
    ),
)

PATTERNS = (
    *rows("verbs-failed", _VERBS, _UCX_VERBS, _NVSHMEM_VERBS),
    *rows("store-failed", _UCX_REACH),
    *rows("gid-unreadable", _UCX_ROWS),
    *rows("run-error", _NVSHMEM, _TRANSFERS, names_text=True),
    *rows("peer-closed", _LOST),
    *rows("shm-extend-failed", _SEGMENTS),
    *rows("files-exhausted", _DESCRIPTORS),
    *rows("plugin-request-failed", _LIBFABRIC, _UCX),
    *rows("plugin-queue-failed", _QUEUES),
    Pattern(  # a program of nccl-tests on its ranks, before it measures
        kind="tests-rank",
        literal=" Pid ",
        expression=r"#\s+Rank +(?P<rank>\d+) (?:Group +\d+ +)?Pid +(?P<pid>\d+) on +(?P<where>\S+) +device",
        samples=(
            "#   Rank  0 Pid   1320 on ip-172-31-20-228 device  0 [0x00] Tesla V100-SXM2-16GB",
            "#  Rank  7 Group  0 Pid  92834 on    node1 device  7 [0xdf] NVIDIA H100 80GB HBM3",
        ),
    ),
    Pattern(
        kind="tests-ended",
        literal="Avg bus bandwidth",
        expression=r"# Avg bus bandwidth *: *[\d.]+",
        samples=("# Avg bus bandwidth    : 595.81",),
    ),
)
