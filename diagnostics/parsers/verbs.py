"""Errors of RDMA verbs.

``NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)`` (to 2.19);
``with status=12 opcode=0 len=0 vendor err 129 (Recv) ... hca mlx5_0`` (2.20 to 2.28.3); ``with
status=IBV_WC_RETRY_EXC_ERR(12) opcode=... vendor_err=129 ... hca mlx5_0`` (2.28.7+).
"""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="completion-error",
        literal="Got completion",
        expression=(
            r"Got completion(?: from peer(?: (?P<peer>\S+))?)? with (?:error "
            r"(?P<error>\d+)|status=(?:\w+\()?(?P<status>\d+)\)?)"
            r"(?:.*?vendor[ _]err[ =](?P<vendor>\d+))?(?:.*?remoteGids? ?(?P<remote_gid>\S+))?(?:.*?\bhca "
            r"(?P<device>\S+))?"
        ),
        samples=(
            "NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)",
            (
                "NET/IB: Got completion from peer 10.0.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
                "opcode=IBV_WC_SEND(0) "
                "vendor_err=129 req_type=Send localGid ::1 remoteGids ::2 hca mlx5_0"
            ),
        ),
    ),
    Pattern(
        kind="verbs-failed",
        literal="Call to ibv_",
        expression=(
            r"Call to (?P<call>ibv_\w+) failed(?: with (?:error )?(?:(?P<number>\d+)\b ?)?(?P<reason>[A-Z][^,'\"]*?)?"
            r"(?: errno (?P<errno>\d+))?)?"
            r"(?:, (?:on dev (?P<device>[^,]+), )?(?P<detail>.*)|['\"].*)?$"  # quotes: XLA hands on NCCL's last error
        ),
        samples=(
            "Call to ibv_open_device failed",
            "Call to ibv_reg_mr failed with error Cannot allocate memory",
            "Call to ibv_create_qp failed with error Cannot allocate memory errno 12",
            "Call to ibv_modify_qp failed with error 19",
            "log entry (may be unrelated) 'Call to ibv_set_ece failed with error Invalid argument errno 22'.",
            (
                "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, "
                "next state RTR, "
                "local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2"
            ),
        ),
    ),
    Pattern(  # of transfers, in NCCL's own header
        kind="verbs-failed",
        literal="ibv_po",
        expression=(
            r"(?:Call to )?(?P<call>ibv_(?:post_send|post_recv|poll_cq))\(\) "
            r"(?:failed with error (?P<reason>[A-Z][^,'\"]*)|returned -?\d+)"
        ),
        samples=(
            "ibv_post_send() failed with error Cannot allocate memory, Bad WR 0x7f3c, First WR 0x7f3c",
            "Call to ibv_poll_cq() returned -5",
        ),
    ),
    Pattern(  # mlx5dv_create_qp, which no table of calls names
        kind="verbs-failed",
        literal="mlx5dv_create_qp failed",
        expression=r"(?P<call>mlx5dv_create_qp) failed to create QP: (?P<reason>[A-Z].*)",
        samples=("NET/IB: mlx5dv_create_qp failed to create QP: Cannot allocate memory",),
    ),
    Pattern(  # NCCL 2.27 and newer call the driver's own library too
        kind="verbs-failed",
        literal="Call to mlx5dv_reg",
        expression=r"Call to (?P<call>mlx5dv_reg\w+) failed with error (?P<reason>[A-Z][^,'\"]*)",
        samples=("NET/MLX5: Call to mlx5dv_reg_dmabuf_mr failed with error Operation not supported",),
    ),
    Pattern(
        kind="async-event",
        literal="async ",
        expression=(
            r"NET/IB : (?:(?P<device>\S+?):(?P<port>\d+) )?(?:Got async event : |Got async error event: "
            r"|(?P<fatal>async fatal event)[^:]*: |Got non-fatal async event: )(?P<event>.+?)(?:\(\d+\))?$"
        ),
        samples=(
            "NET/IB : Got async event : GID table change",
            "NET/IB : mlx5_0:1 Got async event : port error",
            "NET/IB : mlx5_0:1 async fatal event on QP (0x55): local work queue catastrophic error",
        ),
    ),
    Pattern(
        kind="async-event",
        literal="NET/IB : ",
        expression=r"NET/IB : (?P<device>\S+?):(?P<port>\d+) (?P<event>GID table changed|unknown event type \(\d+\))",
        samples=("NET/IB : mlx5_0:1 GID table changed", "NET/IB : mlx5_0:1 unknown event type (18)"),
    ),
    Pattern(
        kind="gid-unreadable",
        literal="ncclIbRoce",
        expression=r"(?P<what>\w+) failed in ncclIbRoce\w+: (?P<reason>.*)",
        samples=("NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",),
    ),
    Pattern(
        kind="communicator-fatal",
        literal="encountered a fatal error",
        expression=r"communicator encountered a fatal error \(detected in (?P<where>\w+)\)",
        samples=("NET/IB: communicator encountered a fatal error (detected in ncclIbTest)",),
    ),
    Pattern(
        kind="link-layer-mismatch",
        literal="incompatible",
        expression=(
            r"Attempted to (?:merge|connect) incompatible devices: (?P<devices>.*?)\. Try"
            r"|Can't merge net devices with different (?P<field>link_layer)"
            r"|Remote (?P<layer>IB|RoCE) device is incompatible with the local \[\d+\](?P<device>\S+)"
        ),
        samples=(
            (
                "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try "
                "selecting NICs of "
                "only one link type using NCCL_IB_HCA"
            ),
            "NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB. Try selecting NICs of only one",
        ),
    ),
    Pattern(
        kind="hint",
        literal="HINT:",
        expression=r"HINT: (?P<text>.*)",
        samples=("HINT: this can be caused by ACS being enabled",),
    ),
)
