"""What UCX, libfabric, NVSHMEM and verbs call an error, and which of our kinds of event the word stands for.

One row a word or a form in which a library prints it. A status that names no cause ("Input/output error", "Out of
memory") has no row: such a line only says that the run failed (``libraries``). All rows have the field ``library``:
these libraries try several ways, so that their errors count only where the run does not go on.
Read in UCX's status.c, ib_mlx5_log.c and mm_posix.c, libfabric's fi_errno.h and EFA's efa_errno.h, NVSHMEM's
ibgda.cpp and rdma-core's verbs.c.
"""

from diagnostics.parsers.programs.rows import Row, rows

# who gives a status of UCX: its own lines at ERROR and FATAL, Open MPI, Python's and Java's exceptions, NIXL
_BY_UCX = (
    r"(?P<library>UCX +(?:ERROR|FATAL)\b|UCXX?\w*(?:Error|Exception|Unreachable|Timeout)|pml_ucx\.c|"
    r"\buc[pts]_\w+).*?"
)
_UNREACHABLE = (
    "Destination is unreachable",
    "Failed to connect some of the requested endpoints",
    "Operation rejected by remote peer",
    "Operation timed out",
    "Endpoint timeout",
)
_STATUSES = tuple(
    (words, rf"{_BY_UCX}[:(>] ?(?P<reason>{words})", f"ucp._libs.exceptions.UCXError: <stream_recv>: {words}")
    for words in _UNREACHABLE
)
_CALLBACKS = tuple(  # of an endpoint, which is tried again: by ucx-py at DEBUG, by NIXL
    (
        words,
        rf"(?P<library>called|invoked) with status -\d+(?:: | \()(?P<reason>{words})",
        f"UCXPY  DEBUG Error callback for endpoint 0x2b492843d3c8 called with status -6: {words}",
    )
    for words in _UNREACHABLE
)
_SEGMENTS: tuple[Row, ...] = (
    (
        "file_name=/",
        (
            r"(?P<library>UCX) +ERROR +open\(file_name=(?P<segment>/(?:proc/\d+/fd/|dev/shm/)\S+) .*?failed: "
            r"(?P<reason>.*)"
        ),
        "mm_posix.c:194  UCX  ERROR open(file_name=/proc/109541/fd/33 flags=0x0) failed: No such file or directory",
    ),
    (
        "shmat(shmid=",
        r"(?P<library>UCX) +ERROR +(?P<segment>shmat\(shmid=\d+\)) failed: (?P<reason>.*)",
        "mm_sysv.c:61   UCX  ERROR shmat(shmid=98312) failed: Invalid argument",
    ),
    (
        "connect to remote FIFO",
        r"(?P<library>mm ep) failed to connect to remote FIFO id (?P<segment>\w+): (?P<reason>.*)",
        "mm_ep.c:154  UCX  ERROR mm ep failed to connect to remote FIFO id 0xc00000084001abe5: Shared memory error",
    ),
    (
        "Shared memory error",
        r"(?P<library>uc[pt]_\w+|UCXX?\w*(?:Error|Exception))(?P<segment>.*?)[:>] ?(?P<reason>Shared memory error)",
        "[n1:109544] pml_ucx.c:419  Error: ucp_ep_create(proc=0) failed: Shared memory error",
    ),
)
_FULL: tuple[Row, ...] = (
    (
        "Not enough memory to write total",
        r"(?P<library>UCX) +ERROR +Not enough memory to write total of \d+ bytes\. Please check that (?P<segment>\S+)",
        "mm_posix.c:206  UCX  ERROR Not enough memory to write total of 4292720 bytes. Please check that /dev/shm or",
    ),
)
# of a completion, as UCX and rdma-core word the statuses of verbs
_OF_UCX = (
    r"Local (?:length|QP operation|protection|access) error|WR flushed because QP in error state|"
    r"Memory window bind error|Bad response|Invalid request|Remote (?:access|operation) error|"
    r"Transport retry count exceeded|Receive-no-ready retry count exceeded|Remote side aborted"
)
_OF_VERBS = tuple(
    (
        words,
        rf"(?i:fail\w*|error|status|bad)\b.*?[ :'\"(](?P<library>)(?P<words>{words})",
        f"worker_pool.cpp:294] Worker: Process failed for slice (opcode: 1, peer_nic: n1@mlx5_0): {words}",
    )
    for words in (
        "local length error",
        "local QP operation error",
        "local protection error",
        "local access error",
        "remote invalid request error",
        "remote access error",
        "remote operation error",
        "transport retry counter exceeded",
        "RNR retry counter exceeded",
    )
)
_COMPLETIONS: tuple[Row, ...] = (
    (
        "ib_mlx5_log.c",
        rf"ib_mlx5_log\.c:\d+ +(?P<library>)(?P<words>{_OF_UCX}) on (?P<device>\w+):\d+/(?:IB|RoCE)\b",
        "[n1:33   :0:33]  ib_mlx5_log.c:177  Remote access error on mlx5_0:1/IB (synd 0x13 vend 0x88 hw_synd 0/1)",
    ),
    (
        "UCX",
        rf"UCX +(?:ERROR|error|FATAL) +(?P<library>)(?P<words>{_OF_UCX}) on (?P<device>\w+):\d+/(?:IB|RoCE)\b",
        "[n1:33   :0]  ib_mlx5_log.c:179  UCX  ERROR Local protection error on mlx5_0:1/RoCE (synd 0x4 vend 0x51",
    ),
    (
        "Failed status ",
        r"(?P<library>Failed status) (?P<status>\d+): wr_id \d+",
        " Failed status 12: wr_id 0 syndrom 0x81",
    ),
)
_QUEUE_PAIRS: tuple[Row, ...] = (
    (
        "mlx5dv_devx_obj_modify",
        r"(?:status: (?P<number>\d+) .{0,60}?)?(?P<library>Error in) (?P<call>mlx5dv_devx_obj_modify) for \w+2\w+_QP\b",
        "ibgda.cpp:1345: non-zero status: 121 Error in mlx5dv_devx_obj_modify for INIT2RTR_QP with syndrome 29e0df",
    ),
    (
        "ibgda_",
        r"(?P<call>(?P<library>ibgda)_(?:rc|dci|qp)_(?:rst2init|init2rtr|rtr2rts)) failed on",
        "/src/modules/transport/ibgda/ibgda.cpp:3005: non-zero status: 7 ibgda_rc_init2rtr failed on RC #0.",
    ),
)
_QUEUES: tuple[Row, ...] = (
    (
        "Libfabric error: (-",
        r"(?P<library>Libfabric) error: \(-12\) (?P<insert>Cannot allocate memory)",
        "Libfabric error: (-12) Cannot allocate memory",
    ),
    (
        "post internal receive buffers",
        r"(?P<library>EFA) internal error: \(4112\) Failure to post internal receive buffers",
        "EFA internal error: (4112) Failure to post internal receive buffers",
    ),
    (
        ", ret=-",
        r"(?P<call>fi_(?P<library>endpoint|enable|mr_reg\w*|cq_open|recv|tsend|trecv|send)\(\)): \S+, ret=-12 \(Cannot",
        "fi_mr_reg(): common/shared.c:620, ret=-12 (Cannot allocate memory)",
    ),
    (
        "Error: Cannot allocate memory",
        r"^\s*(?P<library>Error): Cannot allocate memory \(12\)$",  # of Open MPI, behind the call that failed
        "  Error: Cannot allocate memory (12)",
    ),
)
_TRANSFERS: tuple[Row, ...] = (
    (
        "Libfabric error: (-",
        r"(?P<library>Libfabric) error: \((?P<code>-(?!12\))\d+)\) (?P<reason>.*)",
        "Libfabric error: (-113) No route to host",
    ),
    (
        ", ret=-",
        r"fi_(?P<library>\w+)\(\): \S+, ret=(?P<code>-(?!12 )\d+) \((?P<reason>[^)]*)\)",
        "fi_cq_readerr(): common/shared.c:2541, ret=-107 (Transport endpoint is not connected)",
    ),
)
_CALLS: tuple[Row, ...] = (  # why, says a line below
    (
        "OFI Libfabric library call",
        r"Open MPI failed an (?P<library>OFI Libfabric) library call \(\w+\)",
        "Open MPI failed an OFI Libfabric library call (fi_domain).  This is highly",
    ),
)

PATTERNS = (
    *rows("store-failed", _STATUSES),
    *rows("store-tried", _CALLBACKS),
    *rows("shm-attach-failed", _SEGMENTS),
    *rows("shm-extend-failed", _FULL),
    *rows("completion-error", _COMPLETIONS, _OF_VERBS),
    *rows("verbs-failed", _QUEUE_PAIRS),
    *rows("plugin-queue-failed", _QUEUES),
    *rows("plugin-request-failed", _TRANSFERS),
    *rows("run-error", _CALLS, names_text=True),
)
