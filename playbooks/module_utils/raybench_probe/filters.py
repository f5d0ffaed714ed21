"""What is kept of long outputs: the lines that a check or the comparison of hosts may want. The rest stays there."""

from __future__ import annotations

import re

_KERNEL_MESSAGES = re.compile(
    r"NVRM|Xid|SXid|nvidia|nouveau|mlx5|mlx4|irdma|bnxt_|efa |ena |\bice |i40e|NETDEV WATCHDOG|amdgpu|kfd|AER|DPC:"
    r"|pciehp|Hardware Error|[Mm]achine [Cc]heck|mce:|EDAC|Memory failure|oom|[Oo]ut of memory|hung task"
    r"|blocked for more than|lockup|LOCKUP|[Kk]ernel panic|Oops: |BUG: |kernel BUG|general protection|: [0-9a-f]{4} \[#"
    r"|rcu|self-detected stall|temperature|I/O|nvme|md/raid|EXT4-fs|XFS|BTRFS|nfs: server|Lustre|LNet|DMAR"
    r"|IO_PAGE_FAULT|file-max|[Ll]ink (?:[Ii]s )?(?:[Uu]p|[Dd]own)|PCIe Bus Error"
)
_PACKAGES = re.compile(
    r"^(?:nvidia-|libnvidia-|cuda-(?:drivers|toolkit|runtime)|libnccl|datacenter-gpu-manager|mlnx-|doca-|rdma-core|ibverbs"
    r"|libibverbs|librdmacm|infiniband-diags|libibumad|perftest|opensm|ucx|openmpi|libfabric|efa|aws-ofi-nccl|openssh-server"
    r"|chrony|ntp|linux-firmware|docker-ce|containerd|slurm|mft|ofed)"
)
_PCI_CLASSES = re.compile(r"\[(?:02|03|06|12)[0-9a-f]{2}\]")
_PCI_LINES = re.compile(
    r"Lnk(?:Cap|Sta|Ctl):|MaxReadReq|ACSC|ATSC|Kernel driver|NUMA node|<access denied>|Unknown header type",
)
_RULES = re.compile(r"^:INPUT |^-A INPUT .*-j (?:DROP|REJECT)|hook input")
_QUEUES = re.compile(r"\s*(?:rx|tx|ch)-?\d+_|\s*\[\d+\]: |\s*queue_\d+_")
_MOST_MESSAGES = 2000


def kernel_messages(text: str) -> str:
    """The newest two thousand messages of drivers, errors and links."""
    return "\n".join([line for line in text.splitlines() if _KERNEL_MESSAGES.search(line)][-_MOST_MESSAGES:])


def packages(text: str) -> str:
    """Packages of drivers, RDMA and the like, of those that are installed."""
    lines = (line.rpartition(" ") for line in text.splitlines() if _PACKAGES.match(line))
    return "\n".join(sorted(line for line, _, state in lines if state == "installed"))


def pci_devices(text: str) -> str:
    """Of each NIC, GPU and bridge the lines on its link, its access control and its driver."""
    kept = []
    for head, *lines in (block.splitlines() for block in text.split("\n\n") if block.strip()):
        if _PCI_CLASSES.search(head):
            kept.append("\n".join([head, *(line for line in lines if _PCI_LINES.search(line))]))
    return "\n\n".join(kept)


def firewall_rules(text: str) -> str:
    """Policies, and the rules of the input chain that refuse: the thousands of a container network are none of ours."""
    return "\n".join(line for line in text.splitlines() if _RULES.search(line))


def interface_counters(text: str) -> str:
    """Counters of the port as a whole: those of its queues are thousands of lines."""
    return "\n".join(line for line in text.splitlines() if not _QUEUES.match(line))


FILTERS = {
    "dmesg": kernel_messages,
    "dpkg": packages,
    "rpm": packages,
    "ethtool_statistics": interface_counters,
    "lspci": pci_devices,
    "iptables": firewall_rules,
    "nft": firewall_rules,
}
