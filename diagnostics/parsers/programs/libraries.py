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
        "oo many open files",
        (
            r"^(?!.*(?i:\b(?:if|avoid|prevents?|may|might|could|can|inotify|watch\w*)\b.*too many open files))"
            r".*?(?P<reason>[Tt]oo many open files(?: in system)?)"
            r"(?!.*\b(?i:reducing|retrying|falling back|switching|ignor\w+|skipp\w+|instead)\b)"
        ),
        "RuntimeError: Too many open files. Communication with the workers is no longer possible.",
    ),
    (
        "EMFILE",
        r"(?P<reason>\bEMFILE\b)(?!.*oo many open files)",
        "Error: spawn /usr/bin/python EMFILE",
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
        "btl_tcp_endpoint",
        r"btl_tcp_endpoint_\w+\] connect\(\) to (?P<peer>[^\s\]]+) failed: (?P<reason>.*)",
        "[btl_tcp_endpoint.c:8:mca_btl_tcp_endpoint_complete_connect] connect() to 10.0.0.2 failed: No route to host",
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
    (
        "UCX",
        (
            r"UCX +ERROR +"
            r"(?P<call>(?:ibv_(?!reg_|create_|open_device)|mlx5dv_)\w+)\([^)]*\) failed(?: on (?P<device>\w+))?"
            r"(?:[:,] .*?)??[:,] (?P<reason>[A-Z][^:,]*)$"
        ),
        "ib_device.c:670  UCX  ERROR ibv_query_gid(dev=mlx5_an0 port=1 index=0) failed: Invalid argument",
    ),
)
_UCX_ERRORS = (  # any other of its errors, and what Open MPI makes of it
    (
        "UCX",
        r"UCX +(?:ERROR|FATAL) +(?!ibv_(?:open|query)_device|uct_md_open)\S.*",
        "ib_iface.c:623  UCX  ERROR iface=0x2: failed to create UD QP TX wr:256 sge:2 inl:64: Invalid argument",
    ),
    ("pml_ucx.c:", r"pml_ucx\.c:\d+ +Error: .*", "[n1:4117] pml_ucx.c:273  Error: Failed to create UCP worker"),
)
_MPI = (
    (
        "in the pml framework",
        r"No components were able to be opened in the pml framework.*",
        "No components were able to be opened in the pml framework.",
    ),
    (
        "pair of MPI processes",
        r"At least one pair of MPI processes are unable to reach each other.*",
        "At least one pair of MPI processes are unable to reach each other for",
    ),
    (
        "btl_tcp_endpoint",
        r"btl_tcp_endpoint_\w+\] received unexpected process identifier.*",
        "[btl_tcp_endpoint.c:6:mca_btl_tcp_endpoint_recv] received unexpected process identifier [[1,1],5]",
    ),
    (
        "addrinfo() failed",
        r"OFI (?:fi_get|addr)\w*\(\) failed.*",
        "MPIDI_OFI_mpi_init_hook(1545): OFI addrinfo() failed (ofi_init.c:1545:No data available)",
    ),
    ("PSM", r"PSM[23]? can't open (?:hfi|nic) unit.*", "PSM2 can't open hfi unit: -1 (err=23)"),
)
_IPC = (  # of Open MPI, which ends the program then; where it does without, it says that the protocol cannot be used
    (
        "unrecoverable error",
        r"The call to (?P<call>cuIpc\w+) failed\. This is an unrecoverable error",
        "The call to cuIpcOpenMemHandle failed. This is an unrecoverable error",
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
        (
            r"libfabric:\d+:\d+:.*<warn> Unable to (?:create|register) (?:extended )?(?:CQ|QP|MR): "
            r"(?P<insert>Cannot allocate memory)"
        ),
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
    (  # as perror prints it
        "ibv_",
        (
            r"(?<!Call to )(?<![\w/.])\[?(?P<call>ibv_\w+)(?:\(\))?\]?(?: failed)?[:,] "
            r"(?P<reason>(?:Connection|No|Invalid|Cannot|Operation|Network|Permission|Input|Device|Bad)\b[\w /]*)"
        ),
        "Couldn't modify QP: ibv_modify_qp: Connection timed out",
    ),
)
_NUMBERED = (  # of programs with a logger of their own
    (
        "ibv_",
        (
            r"(?<!Call to )(?P<call>ibv_\w+)(?:\(\))? failed(?: with)?[:,]? \(?(?:errno|error|error_code|ret)[ =:]+-?"
            r"(?P<number>\d+)(?:[ ,:(]+(?P<reason>[A-Za-z][\w ]*))?"
        ),
        "ibv_reg_mr() failed error_code=14 bad address",
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
        ": NULL value ",
        r"\S+\.(?:cpp|cu|cc|h):(?:\w+:)?\d+: NULL value \S.*",
        "/src/nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.",
    ),
    (
        ": error status: ",
        r"\S+\.(?:cpp|cu|cc|h):(?:\w+:)?\d+: error status: \d+ \S.*",
        "/src/nvshmem/src/host/mem/mem.cpp:300: error status: 2 cuMemCreate failed",
    ),
    (
        "initialize any transports",
        r"Unable to initialize any transports.*",
        "transport.cpp:nvshmemi_transport_init:287: Unable to initialize any transports. returning error.",
    ),
    (
        "nvshmem",
        r"(?i:nvshmem) (?:initialization failed|setup connections failed|bootstrap\w* failed|setup heap failed).*",
        "/nvshmem/src/host/init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
    ),
    (
        "NVSHMEM API called before",
        r"NVSHMEM API called before NVSHMEM initialization has completed",
        "NVSHMEM API called before NVSHMEM initialization has completed",
    ),
    ("connect EPS failed", r"connect EPS failed", "connect EPS failed"),
    (
        "got completion with error",
        r"\bmlx[45]: \S+: got completion with error\b",
        "mlx5: gpu07: got completion with error:",
    ),
    (
        "gloo/transport/tcp",
        r"^(?!.*(?:Error|Exception): ).*gloo/transport/tcp/\S+\] (?:Timed out waiting|Connection closed by peer)",
        "06/05 12:08:28 [/opt/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 30000ms for recv operation",
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
        # each NIC is probed with a UD queue pair, which one that cannot do it answers with EINVAL
        r"(?:[Ff]ailed|[Uu]nable) to modify (?!UD QP to INIT on \w+: Invalid argument)(?:\w+ )?QP.*",
        "Failed to modify QP to RTR: Connection timed out",
    ),
    (
        "DeepEP ",
        r"DeepEP (?:error|timeout).*",
        "RuntimeError: DeepEP error: CPU recv timeout",
    ),
)

_SHARP = (  # which NCCL's plugin calls for CollNet, and does without
    (
        "] ERROR sharp_",
        r"\] ERROR (?P<reason>sharp_\w+.*)",
        "[n1:1:2857 - context.c:415] ERROR sharp_get_job_data_len failed: Failed to connect to SHArP AM",
    ),
    (
        "] ERROR SHArP",
        r"\] ERROR (?P<reason>SHArP.*)",
        "[n1:0:71 unique id 33] ERROR SHArPd job request failed",
    ),
    (
        "] ERROR collect_ports_data",
        r"\] ERROR (?P<reason>collect_ports_data: .*)",
        "[n1:1:2857 unique id 1201] ERROR collect_ports_data: failed to find valid ports",
    ),
)

PATTERNS = (
    *rows("sharp-unavailable", _SHARP),
    *rows("verbs-failed", _VERBS, _NUMBERED, _UCX_VERBS, _NVSHMEM_VERBS),
    *rows("store-failed", _UCX_REACH),
    *rows("gid-unreadable", _UCX_ROWS),
    *rows("run-error", _NVSHMEM, _TRANSFERS, _UCX_ERRORS, _MPI, names_text=True),
    *rows("ipc-failed", _IPC),
    *rows("peer-closed", _LOST),
    *rows("shm-extend-failed", _SEGMENTS),
    *rows("files-exhausted", _DESCRIPTORS),
    *rows("plugin-request-failed", _LIBFABRIC),
    *rows("plugin-queue-failed", _QUEUES),
    Pattern(  # a program of nccl-tests on its ranks, before it measures
        kind="tests-rank",
        literal=" Pid ",
        expression=r"\bRank +(?P<rank>\d+) (?:Group +\d+ +)?Pid +(?P<pid>\d+) on +(?P<where>\S+) +device",
        samples=(
            "#   Rank  0 Pid   1320 on ip-172-31-20-228 device  0 [0x00] Tesla V100-SXM2-16GB",
            "#  Rank  7 Group  0 Pid  92834 on    node1 device  7 [0xdf] NVIDIA H100 80GB HBM3",
            "Rank  0 Group  0 Pid 544816 on    dgx01 device  0 [0x1a] NVIDIA H100 80GB HBM3",
        ),
    ),
    Pattern(  # which sizes, in bytes
        kind="tests-range",
        literal="maxBytes",
        expression=(
            r"minBytes \d+ maxBytes (?P<largest>\d{1,18}) step: (?:(?P<factor>\d{1,18})\(factor\)"
            r"|(?P<increment>\d{1,18})\(bytes\))"
        ),
        samples=(
            "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1",
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 1048576(bytes) warmup iters: 0 iters: 1",
        ),
    ),
    Pattern(  # the title of its table: what follows is measured
        kind="tests-title",
        literal="out-of-place",
        expression=r"^(?:\[[\d,]+\]<\w+>: ?)?# +out-of-place +in-place\s*$",
        samples=(
            "#                                                       out-of-place                       in-place",
        ),
    ),
    Pattern(
        kind="tests-ended",
        literal="Avg bus bandwidth",
        expression=r"# Avg bus bandwidth *: *[\d.]+",
        samples=("# Avg bus bandwidth    : 595.81",),
    ),
)
