"""GPUDirect RDMA: peer memory, DMA-BUF, distance, levels."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import EFA, ENV, GDR, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "load-peer-memory": [
        {
            "text": "Load the peer-memory module on every host (containers use the host's). Expected: `GPU "
            "Direct RDMA Enabled for "
            "HCA` and `/GDRDMA` on the channels, up to twice the bandwidth and less CPU load.",
            "commands": [
                "lsmod | grep nvidia_peermem",
                "modprobe nvidia-peermem",
                "echo nvidia-peermem > /etc/modules-load.d/nvidia-peermem.conf",
            ],
            "link": "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html",
            "never": ["amd", "efa", "omnipath", "no-gdr"],
        },
        {
            "text": "These GPUs (GB10 of DGX Spark, GeForce) offer no GPUDirect RDMA: no module or setting adds it, "
            "and data goes through host memory.",
            "commands": ["nvidia-smi -L"],
            "link": "https://forums.developer.nvidia.com/t/dgx-spark-gpudirect-rdma/348787",
            "only": ["no-gdr"],
        },
        {
            "text": (
                "On AMD the kernel driver itself offers peer memory; check that it is there and that large BAR is on."
            ),
            "commands": [
                "ls /sys/kernel/mm/memory_peers/amdkfd",
                "dmesg | grep -i -E 'peer|p2p|bar'",
                "cat /proc/cmdline | grep iommu=pt",
            ],
            "link": "https://rocm.docs.amd.com/projects/rccl/en/latest/how-to/rccl-usage-tips.html",
            "only": ["amd"],
        },
    ],
    "enable-gin": [
        {
            "text": "Check the NICs, the driver and what NCCL may use; without them, switch the feature off in the "
            "program.",
            "commands": [
                "ibv_devinfo -v | grep -e hca_id -e fw_ver",
                "nvidia-smi --query-gpu=driver_version --format=csv",
                "env | grep -e NCCL_GIN -e NCCL_NET_PLUGIN",
            ],
            "link": ENV,
            "never": ["amd"],
        }
    ],
    "without-gdrcopy": [
        {
            "text": "Run without GDRCopy, or load its kernel module and give its device to the container.",
            "commands": ["unset NCCL_GDRCOPY_ENABLE", "lsmod | grep gdrdrv", "ls -l /dev/gdrdrv"],
            "link": "https://github.com/NVIDIA/gdrcopy",
        }
    ],
    "use-dmabuf": [
        {
            "text": "Or use DMA-BUF: open kernel modules of the driver, Linux 5.12 or newer, CUDA 11.7 or newer.",
            "commands": [
                "cat /proc/driver/nvidia/version   # says 'Open Kernel Module'",
                "uname -r",
                "export NCCL_DMABUF_ENABLE=1",
            ],
            "link": GDR,
            "never": ["amd", "omnipath", "no-gdr"],
        }
    ],
    "check-distance": [
        {
            "text": (
                "Look at which GPU and NIC share a PCIe switch. PIX and PXB are near; PHB, NODE and "
                "SYS cross the processor."
            ),
            "commands": ["nvidia-smi topo -m", "lspci -tv"],
            "link": TROUBLE + "#gpu-to-nic-communication",
            "never": ["amd"],
        },
        {
            "text": "Look at which GPU and NIC are near each other.",
            "commands": ["rocm-smi --showtopo", "lspci -tv"],
            "link": TROUBLE,
            "only": ["amd"],
        },
    ],
    "raise-gdr-level": [
        {
            "text": "Allow the longer path, then measure: it may be faster or slower than copying through host memory.",
            "commands": ["export NCCL_NET_GDR_LEVEL=PHB   # SYS allows any path"],
            "link": ENV + "#nccl-net-gdr-level",
        }
    ],
    "unset-gdr-level": [
        {
            "text": "Remove the lowered level; the default allows GPUs and NICs behind common PCIe switches.",
            "commands": ["unset NCCL_NET_GDR_LEVEL"],
            "link": ENV + "#nccl-net-gdr-level",
        }
    ],
    "show-gdr": [
        {
            "text": "Show what NCCL knows about each NIC and GPU.",
            "commands": ["export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV"],
            "link": ENV + "#nccl-debug-subsys",
        }
    ],
    "ofi-gdr": [
        {
            "text": (
                "The plugin gave up GPUDirect: check that the instance type supports it, and use a "
                "current plugin and libfabric."
            ),
            "commands": ["fi_info --version", "export FI_EFA_USE_DEVICE_RDMA=1", "export FI_LOG_LEVEL=warn"],
            "link": EFA,
        }
    ],
}
