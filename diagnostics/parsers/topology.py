"""How the GPUs and NICs of a node hang together, as NCCL sees them (subsystem GRAPH)."""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="search-result",
        literal="Pattern ",
        expression=(
            r"Pattern (?P<pattern>\d), crossNic \d+, nChannels (?P<channels>\d+), (?:speed|bw) (?P<bw>[\d.]+)/[\d.]+, "
            r"type (?P<intra>[A-Z0-9]{3})/(?P<inter>[A-Z0-9]{3})"
        ),
        samples=("Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",),
    ),
    Pattern(
        kind="search-failed",
        literal="Could not find a path for pattern",
        expression=r"Could not find a path for pattern (?P<pattern>\d+), falling back to simple order",
        samples=("Could not find a path for pattern 4, falling back to simple order",),
    ),
    Pattern(
        kind="topology-file",
        literal="topology file",
        expression=r"Loading (?:unnamed )?topology file (?P<file>\S+)",
        samples=("Loading topology file /home/user/topo.xml",),
    ),
    Pattern(
        kind="topology-file-bad",
        literal=" of node ",
        expression=r"(?P<fatal>Attribute \w+ of node \w+ not found)",
        samples=("Attribute busid of node nic not found",),
    ),
    Pattern(
        kind="topology-file-bad",
        literal="XML",
        expression=(
            r"Could not open XML topology file (?P<file>[^ :]+)|(?P<fatal>Could not open XML graph file"
            r"|XML (?:Topology|Graph) has wrong version|XML Mismatch|XML Parse(?: error)? :|XML parser is limited to"
            r"|XML (?:Import|Export) Channel :)"
        ),
        samples=(
            "Could not open XML topology file /etc/topo.xml : No such file or directory",
            "Could not open XML graph file /etc/graph.xml : No such file or directory",
            "XML Graph has wrong version 2, 1 needed",
            "XML Parse error : expecting '<', got 'x'",
            "XML Parse : Unexpected EOF",
        ),
    ),
    Pattern(
        kind="topology-claimed",
        literal="Topology detection failed",
        expression=r"Topology detection failed, performance may be degraded",
        samples=("Topology detection failed, performance may be degraded",),
    ),
    Pattern(
        kind="pci-link",
        literal="+ PCI[",
        expression=r"\+ PCI\[(?P<gb_per_s>[\d.]+)\] - (?P<kind>GPU|NIC)/(?P<id>\S+)",
        samples=("+ PCI[24.0] - GPU/0-17000 (0)",),
    ),
    Pattern(
        kind="p2p-refused",
        literal="2P",
        expression=(
            r"P2P is disabled between (?P<link>NVLINK |NVLink )?connected GPUs (?P<gpu>\d+) and (?P<other>\d+)"
            r"|Could not enable P2P between dev (?P<dev>\d+)\S* and dev (?P<other_dev>\d+)|P2P not supported "
            r"between GPU"
        ),
        samples=(
            "P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case",
            (
                "P2P is disabled between connected GPUs 1 and 0. You can repress this message with "
                "NCCL_IGNORE_DISABLED_P2P=1."
            ),
            "Could not enable P2P between dev 0(=1000) and dev 1(=2000)",
        ),
    ),
    Pattern(
        kind="host-setting",
        literal='issing "',
        expression=r"Missing \"(?P<setting>[\w=]+)\" from (?:kernel command line|environment)",
        samples=(
            'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
            'Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low RCCL performance',
        ),
    ),
    Pattern(
        kind="host-setting",
        literal="NUMA auto balancing",
        expression=r"(?P<balancing>NUMA auto balancing) enabled",
        samples=("NUMA auto balancing enabled which can lead to variability in the RCCL performance!",),
    ),
    Pattern(
        kind="notice",
        literal="MSCCL",
        expression=r"MSCCL\+\+: Cannot enable MSCCL\+\+",
        samples=("MSCCL++: Cannot enable MSCCL++; environment is not MSCCL compatible",),
    ),
    Pattern(
        kind="p2p-support",
        literal="intraNodeP2pSupport",
        expression=r"intraNodeP2pSupport (?P<supported>[01])",
        samples=("Check P2P Type intraNodeP2pSupport 0 directMode 0",),
    ),
    Pattern(
        kind="nvls-support",
        literal="NVLS multicast support",
        expression=r"NVLS multicast support is (?P<not>not )?available",
        samples=("NVLS multicast support is not available on dev 0",),
    ),
    Pattern(
        kind="nvls-failed",
        literal="NVLS",
        expression=(
            r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory of size "
            r"(?P<size>\d+)(?P<proceeds>.*Proceeding without NVLS)?"
            r"|NVLS.*(?:requested|NCCL_NVLS_ENABLE=1).*(?:not (?:supported|available)|fail)"
        ),
        samples=(
            (
                "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the "
                "operation cannot be "
                "performed'"
            ),
            (
                "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 209 : CUDA error 2. Proceeding "
                "without NVLS support."
            ),
        ),
    ),
    Pattern(
        kind="nvls-failed",
        literal="MNNVL",
        expression=(
            r"MNNVL \(cliqueSize \d+\) is available but not (?:supported|working)|MNNVL is not "
            r"supported on this system"
        ),
        samples=(
            "MNNVL (cliqueSize 72) is available but not working on this system. Check the IMEX channel configuration",
        ),
    ),
)
