"""Which devices NCCL found and which network it chose.

``NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.0.0.1<0>``: the name IB covers InfiniBand and RoCE,
the link layer stands behind the port. ``NET/IB : No device found.`` is followed from 2.24.3 on by a Using line with
an *empty* list, which is no success. ``Using network IB`` (2.6.4+) is what was chosen.
"""

from diagnostics.parsers.base import Pattern

DEVICE = r"(?P<name>[A-Za-z_][\w.+\-]*):(?P<port>\d+)/(?P<layer>IB|RoCE)"

PATTERNS = (
    Pattern(
        kind="network",
        literal="Using network ",
        expression=r"Using network (?P<name>.+?)\s*$",
        samples=("Using network AWS Libfabric", "Using network InfiniBand"),
    ),
    Pattern(
        kind="network",
        literal="Using internal Network",
        expression=r"Using internal Network (?P<name>\w+)",
        samples=("Using internal Network IB",),
    ),
    Pattern(
        kind="network-assigned",
        literal="Assigned NET plugin",
        expression=r"Assigned NET plugin (?P<name>.+) to comm",
        samples=("Assigned NET plugin Socket to comm",),
    ),
    Pattern(
        kind="ib-devices",
        literal="NET/IB : Using",
        expression=(
            r"NET/IB : Using ?(?P<devices>.*?)(?:\[RO\])?\s*(?:; ?OOB (?P<interface>[^:\s]+):(?P<address>\S+))?$"
        ),
        samples=(
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.10.98.12<0>",
            "NET/IB : Using ; OOB enp6s0:10.0.0.1<0>",
            "NET/IB : Using mlx5_* RoCE devices",
        ),
    ),
    Pattern(
        kind="ib-no-device",
        literal="No device found",
        expression=r"NET/IB ?: No device found",
        samples=("NET/IB : No device found.",),
    ),
    Pattern(
        kind="ib-open-failed",
        literal="nable to ",
        expression=(
            r"NET/IB ?: Unable to (?P<what>open|query) (?P<of>device|port)(?:_num \d+)? ?(?P<device>(?:[A-Za-z]\S*)?)"
        ),
        samples=("NET/IB : Unable to open device mlx5_9", "NET/IB : Unable to query port_num 1"),
    ),
    Pattern(
        kind="libibverbs-missing",
        literal="open libibverbs",
        # 2.30 and newer ("Count not", so) name each file that they try; ".so.1" is the last
        expression=r"(?:Failed to|Could not) open libibverbs\S*|Count not open libibverbs\.so\.1",
        samples=("Failed to open libibverbs.so[.1]", "Count not open libibverbs.so.1"),
    ),
    Pattern(
        kind="ib-speed",
        literal="speed=",
        expression=(
            r"(?:\[\d+\] (?P<name>[\w.+\-]+):\S+ .*?|virtual device \[\d+\] name=(?P<virtual>\S+) "
            r")speed=(?P<mbps>\d+)"
        ),
        samples=(
            "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x55 pciPath=/sys/devices/x ar=1",
            "NET/IB : Made virtual device [0] name=mlx5_0 speed=400000 ndevs=1",
        ),
    ),
    Pattern(
        kind="ib-connection",
        literal=" qpn ",
        expression=(
            r"Port (?P<port>\d+) qpn \d+ mtu (?P<mtu>\d) (?:query_ece=\{[^}]*\} )?"
            r"(?:LID (?P<lid>\d+)|GID (?P<gid_index>\d+) \((?P<gid>[^)]*)\))"
        ),
        samples=(
            "NET/IB: Dev 0 Port 1 qpn 312 mtu 5 LID 17",
            "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 312 mtu 3 GID 3 (0/8A6D0A0AFFFF0000)",
            "NET/IB: IbDev 0 Port 1 qpn 42 mtu 3 query_ece={supported=0, vendor_id=0x0} GID 1 (0/19001EACFFFF0000)",
        ),
    ),
    Pattern(
        kind="ib-device",
        literal="NET/IB: [",
        expression=rf"^NET/IB: \[\d+\] {DEVICE}",
        samples=("NET/IB: [0] mlx5_1:1/IB",),
    ),
    Pattern(
        kind="nic-distance",
        literal="CUDA Dev ",
        expression=r"CUDA Dev \d+(?:\[\d+\])?, (?P<name>[\w ]+?) (?:NIC distance|Ports|Interfaces) ?:",
        samples=(
            "CUDA Dev 1[1], AWS Libfabric NIC distance :  SYS",
            "CUDA Dev 0, IP Interfaces : lo(SOC) eth0(SOC)",
            "CUDA Dev 2, IB Ports : mlx5_0/1(PHB)",
        ),
    ),
    Pattern(
        kind="roce-sign",
        literal="RoCE",
        expression=r"\b(?P<sign>RoCE ?v[12])\b",
        samples=("GID[  3]: ::ffff:200.1.209.6, RoCE v2",),
    ),
    Pattern(
        kind="socket-devices",
        literal="NET/Socket : Using",
        expression=r"NET/Socket : Using (?P<interfaces>\[0\].*)",
        samples=("NET/Socket : Using [0]ib0:10.31.183.43<0>",),
    ),
    Pattern(
        kind="socket-connection",
        literal="sockets per thread",
        expression=r"NET/Socket: Using (?P<threads>\d+) threads and (?P<sockets>\d+) sockets per thread",
        samples=("NET/Socket: Using 1 threads and 1 sockets per thread",),
    ),
    Pattern(
        kind="bootstrap-interface",
        literal="Bootstrap",
        expression=r"Bootstrap ?: Using (?:\[0\])?(?P<interface>[^:\s\[]+):(?P<address>[^<\s]+)<",
        samples=("Bootstrap : Using [0]ib0:10.148.0.76<0> [1]ib1:10.149.0.76<0>", "Bootstrap: Using eth0:10.0.0.1<0>"),
    ),
    Pattern(
        kind="bootstrap-interface",
        literal="NET : Using interface",
        expression=r"^NET : Using interface (?P<interface>[^:\s]+):(?P<address>[^<\s]+)<",
        samples=("NET : Using interface eth0:10.6.6.12<0>",),
    ),
    Pattern(
        kind="net-device-count",
        literal="Net devices",
        expression=(
            r"Rank (?P<rank>\d+)(?:: (?P<count>\d+) Net devices| has (?P<local>\d+) local Net devices "
            r"\(max (?P<max>\d+)\))"
        ),
        samples=("Rank 3: 8 Net devices", "Rank 3 has 7 local Net devices (max 8)."),
    ),
    Pattern(
        kind="net-device-mismatch",
        literal="Net device counts",
        expression=(
            r"Detected mixed local (?:Coll)?Net device counts across ranks \(min (?P<min>\d+), max (?P<max>\d+)\)"
        ),
        samples=("Detected mixed local Net device counts across ranks (min 7, max 8). Set NCCL_IGNORE_NET_MISMATCH=1",),
    ),
)
