"""GPUDirect RDMA: which NICs can register GPU memory, and which GPU and NIC are near enough.

``NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`` (2.13.4+) is benign for socket interfaces. ``GPU Direct RDMA
Disabled for GPU 17000 / HCA 0 (distance 8 > 5)``: the numbers mean different paths in different versions. The pair
lines belong to the NET subsystem, which is off by default, and are gone from 2.30.3 on.
"""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="gdr-nic",
        literal="GPU Direct RDMA",
        expression=(
            r"NET/(?P<network>[^:]+?) ?: GPU Direct RDMA (?:\((?P<how>nvidia-peermem|DMABUF)\) )?"
            r"(?P<state>[EeD]\w+abled) for (?:GPU \S+ / )?HCA (?P<nic>\d+) '(?P<device>[^']+)'?(?: "
            r"\((?P<why>no module[^)]*)\))?"
        ),
        samples=(
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
            "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
            "NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'mlx5_bond_0",
        ),
    ),
    Pattern(
        kind="gdr-pair",
        literal="istance ",
        expression=(
            r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU[ /](?P<gpu>\S+)(?: \(rank (?P<rank>\d+)\))? "
            r"(?:/ HCA (?P<nic>\w+)|- NET/(?P<net>\S+)) \((?: ?using PXN[^)]*?)?distance (?P<distance>\w+) "
            r"(?P<relation><=?|>=?) (?P<limit>\w+)(?:\)|(?=, read))(?:, read (?P<read>\d))?"
        ),
        samples=(
            "GPU Direct RDMA Disabled for GPU 17000 / HCA 0 (distance 8 > 5)",
            "GPU Direct RDMA Enabled for GPU 3 / HCA 3 (distance 4 <= 7), read 1 mode Default",
            "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 4 >= 2)",
            "GPU Direct RDMA Enabled for GPU/0-110592 (rank 0) - NET/0-0 (distance 4 <= 5, read 1, mode Default)",
            "GPU Direct RDMA Disabled for GPU/0-110592 (rank 0) - NET/0-1 ( using PXN via GPU/0-18, distance 8 > 5)",
        ),
    ),
    Pattern(
        kind="gdr-disabled-by-plugin",
        literal="GDR",
        expression=r"NET/OFI (?P<reason>(?:.*disabling GDR|GDR disabled on GDR-supported instance type.*))",
        samples=("NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR",),
    ),
    Pattern(
        kind="dmabuf-available",
        literal="DMA-BUF is available",
        expression=r"DMA-BUF is available on GPU device (?P<device>\d+)",
        samples=("DMA-BUF is available on GPU device 0",),
    ),
    Pattern(
        kind="gdr-claimed",
        literal="GDR",
        expression=r"NET/IB/GDR (?P<state>enabled|disabled)",
        samples=("NET/IB/GDR enabled",),
    ),
)
