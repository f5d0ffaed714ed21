"""The path between NICs and what breaks it: GIDs, ports, switches, access control, locked memory."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import EFA, ENV, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "measure-link": [
        {
            "text": "Measure the path itself between the two hosts, without NCCL.",
            "commands": [
                "ib_write_bw -d <device> --report_gbits            # on one host",
                "ib_write_bw -d <device> --report_gbits <first host>",
            ],
            "link": "https://github.com/linux-rdma/perftest",
            "never": ["efa"],
        },
        {
            "text": "Measure the path between the two hosts over EFA, without NCCL.",
            "commands": ["fi_pingpong -p efa            # on one host", "fi_pingpong -p efa <first host>"],
            "link": EFA,
            "only": ["efa"],
        },
    ],
    "fix-gid": [
        {
            "text": (
                "Show the GID table: the index must be a RoCE v2 entry with an IPv4 address, the same on all nodes."
            ),
            "commands": [
                "show_gids",
                (
                    "for g in /sys/class/infiniband/*/ports/1/gids/*; do echo $g $(cat $g); done | grep -v "
                    "0000:0000:0000:0000:0000:0000"
                ),
            ],
            "link": ENV + "#nccl-ib-gid-index",
            "never": ["efa", "omnipath"],
        },
        {
            "text": (
                "From NCCL 2.21 on the index is chosen automatically; remove a forced one. Older versions "
                "commonly need 3."
            ),
            "commands": ["unset NCCL_IB_GID_INDEX   # 2.21 and newer", "export NCCL_IB_GID_INDEX=3   # older"],
            "link": ENV + "#nccl-ib-gid-index",
            "never": ["efa", "omnipath"],
        },
    ],
    "check-route": [
        {
            "text": "Which interface owns the local RoCE address, and do a route and a neighbour lead to the peer's? "
            "Run this where the rank runs, in its container.",
            "commands": [
                "rdma link show",
                "ip route get <peer's address> from <local address>",
                "ip neigh show dev <interface>",
                "ping -I <interface> <peer's address>",
            ],
            "link": TROUBLE + "#rdma-over-converged-ethernet-roce",
            "never": ["infiniband", "efa"],
        }
    ],
    "check-fabric": [
        {
            "text": "Check the ports, counters and cables on the way to the named peer.",
            "commands": ["ibstat", "perfquery -x", "ibdiagnet -r", "mlxlink -d <device> -c"],
            "link": TROUBLE + "#infiniband",
            "only": ["infiniband"],
            "never": ["omnipath"],
        },
        {
            "text": "Check the ports, counters and cables of Omni-Path on the way to the named peer.",
            "commands": ["opainfo", "opafabricinfo", "opaextractperf"],
            "only": ["omnipath"],
        },
        {
            "text": (
                "The log does not show whether the NICs run InfiniBand or RoCE; look, then check port and cable "
                "on the way to the named peer."
            ),
            "commands": ["cat /sys/class/infiniband/*/ports/*/link_layer", "rdma link show", "mlxlink -d <device> -c"],
            "link": TROUBLE + "#infiniband",
            "never": ["infiniband", "roce", "efa", "omnipath"],
        },
        {
            "text": (
                "Check link, drops and pause frames on the way to the named peer; RoCE needs PFC or ECN "
                "configured identically on hosts and switches."
            ),
            "commands": [
                "ethtool -S <interface> | grep -E 'discard|pause|error'",
                "mlnx_qos -i <interface>",
                "rdma statistic show",
            ],
            "link": TROUBLE + "#rdma-over-converged-ethernet-roce",
            "only": ["roce"],
        },
    ],
    "longer-timeout": [
        {
            "text": (
                "Where the fabric is healthy but very large or busy, a longer timeout helps; it hides a "
                "broken link for longer too."
            ),
            "commands": ["export NCCL_IB_TIMEOUT=22"],
            "link": ENV + "#nccl-ib-timeout",
            "never": ["efa"],
        }
    ],
    "check-acs": [
        {
            "text": (
                "On bare metal, PCIe access control services and the IOMMU break direct transfers; in "
                "virtual machines ATS is needed."
            ),
            "commands": ["lspci -vvv | grep -i acsctl", "cat /proc/cmdline", "dmesg | grep -i -E 'iommu|dmar'"],
            "link": TROUBLE + "#pci-access-control-services-acs",
        }
    ],
    "check-port": [
        {
            "text": (
                "Look at the port and at the kernel's log around the time; a flapping port is a cable, a "
                "transceiver or a switch."
            ),
            "commands": ["rdma link show <device>", "dmesg -T | grep -i -E 'mlx5|link'", "mlxlink -d <device> -m -c"],
            "link": TROUBLE + "#infiniband",
            "never": ["efa", "omnipath"],
        },
        {
            "text": "Look at the port and at the kernel's log around the time; a flapping port is a cable or a switch.",
            "commands": ["opainfo", "dmesg -T | grep -i -E 'hfi1|link'"],
            "only": ["omnipath"],
        },
        {
            "text": "Look at the NIC and at the kernel's log around the time; the cable is the cloud's affair.",
            "commands": ["rdma link show", "rdma statistic show", "dmesg -T | grep -i efa"],
            "link": EFA,
            "only": ["efa"],
        },
    ],
    "memlock": [
        {
            "text": "Containers: start with unlimited locked memory.",
            "commands": ["docker run --ulimit memlock=-1 --ulimit stack=67108864 <image> <command>"],
            "link": TROUBLE + "#docker",
            "only": ["container", "kubernetes"],
        },
        {
            "text": "Slurm: raise the limit of the daemon, and do not pass on the limit of the login shell.",
            "commands": [
                "systemctl edit slurmd   # [Service] LimitMEMLOCK=infinity",
                "scontrol show config | grep PropagateResourceLimits",
                "srun sh -c 'ulimit -l'",
            ],
            "link": "https://slurm.schedmd.com/faq.html#memlock",
        },
        {
            "text": (
                "Elsewhere: raise the limit for the user and for the service that starts the job, then log in again."
            ),
            "commands": ["ulimit -l", "echo '* - memlock unlimited' > /etc/security/limits.d/rdma.conf"],
            "link": TROUBLE + "#infiniband",
        },
    ],
}
