"""Inside a machine: direct transfers, shared memory, GPUs, NVLink, topology, host settings."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import ENV, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "enable-p2p": [
        {
            "text": "Let the GPUs talk directly: check what the driver allows and remove a leftover switch.",
            "commands": ["nvidia-smi topo -p2p r", "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL"],
            "link": TROUBLE + "#gpu-to-gpu-communication",
            "never": ["amd"],
        },
        {
            "text": "Let the GPUs talk directly: check what the driver allows and remove a leftover switch.",
            "commands": ["rocm-smi --showtopoaccess", "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL"],
            "link": TROUBLE,
            "only": ["amd"],
        },
    ],
    "share-ipc": [
        {
            "text": (
                "Ranks of one machine need a common IPC and process namespace: one container for all of "
                "them, or shared ones."
            ),
            "commands": ["docker run --ipc=host --pid=host <image> <command>", "kubectl explain pod.spec.hostIPC"],
            "link": TROUBLE + "#docker",
        }
    ],
    "same-host-id": [
        {
            "text": (
                "Tell NCCL that these containers share one machine: the same identity in each, and a common /dev/shm."
            ),
            "commands": ["export NCCL_HOSTID=<name of the machine>"],
            "link": ENV + "#nccl-hostid",
        }
    ],
    "more-shm": [
        {
            "text": "Enlarge /dev/shm; several GiB for eight GPUs. NCCL_SHM_DISABLE=1 works around it, slowly.",
            "commands": ["df -h /dev/shm", "docker run --shm-size=16g <image> <command>"],
            "link": TROUBLE + "#shared-memory",
            "never": ["kubernetes"],
        },
        {
            "text": "Mount a memory-backed volume on /dev/shm in the pod.",
            "commands": [
                "kubectl exec <pod> -- df -h /dev/shm",
                "kubectl patch ...   # volumes: emptyDir: {medium: Memory, sizeLimit: 16Gi}",
            ],
            "link": TROUBLE + "#shared-memory",
            "only": ["kubernetes"],
        },
    ],
    "keep-shm": [
        {
            "text": (
                "systemd may remove shared memory of a user who logs out; switch that off, and share "
                "/dev/shm between containers."
            ),
            "commands": ["grep RemoveIPC /etc/systemd/logind.conf", "ls -l /dev/shm | grep nccl"],
            "link": TROUBLE + "#shared-memory",
        }
    ],
    "free-host-memory": [
        {
            "text": "See who holds the host's memory and what the container or job may take; raise it, or use less.",
            "commands": [
                "free -h; cat /sys/fs/cgroup/memory.max",
                "ulimit -v",
                "dmesg -T | grep -i 'out of memory'",
            ],
            "link": TROUBLE,
        }
    ],
    "free-gpu-memory": [
        {
            "text": "See who holds the memory; leave memory for NCCL's buffers, or lower its share.",
            "commands": [
                "nvidia-smi",
                "export NCCL_BUFFSIZE=1048576 NCCL_MAX_CTAS=8   # smaller buffers, less bandwidth",
            ],
            "link": ENV + "#nccl-buffsize",
            "never": ["amd"],
        },
        {
            "text": "See who holds the memory, and leave memory for the library's buffers.",
            "commands": ["rocm-smi --showmeminfo vram"],
            "link": ENV + "#nccl-buffsize",
            "only": ["amd"],
        },
    ],
    "join-memory": [
        {
            "text": (
                "Let the allocator join its pieces; then lower what varies from step to step: one length of samples, a "
                "smaller batch, activations computed anew."
            ),
            "commands": ["export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"],
            "link": "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        }
    ],
    "debug-cuda": [
        {
            "text": (
                "An asynchronous error belongs to an earlier kernel: run once with blocking launches, or "
                "under the sanitizer."
            ),
            "commands": [
                "CUDA_LAUNCH_BLOCKING=1 <command>",
                "compute-sanitizer <command>",
                "nvidia-smi -q | grep -i -A3 xid; dmesg | grep -i xid",
            ],
            "link": "https://docs.nvidia.com/deploy/xid-errors/",
            "never": ["amd"],
        },
        {
            "text": "An asynchronous error belongs to an earlier kernel: run once with blocking launches.",
            "commands": ["HIP_LAUNCH_BLOCKING=1 <command>", "dmesg | grep -i amdgpu"],
            "link": "https://rocm.docs.amd.com/",
            "only": ["amd"],
        },
    ],
    "test-gpu": [
        {
            "text": "Take the node out of service, and test its GPUs and NVLink before it gets another job.",
            "commands": [
                "dmesg -T | grep -iE 'xid|nvlink'",
                "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
                "dcgmi diag -r 3",
            ],
            "link": "https://docs.nvidia.com/deploy/xid-errors/",
            "never": ["amd"],
        },
        {
            "text": "Take the node out of service, and test its GPUs before it gets another job.",
            "commands": ["dmesg -T | grep -i amdgpu", "amd-smi metric --ecc"],
            "link": "https://rocm.docs.amd.com/",
            "only": ["amd"],
        },
    ],
    "give-gpu": [
        {
            "text": "Does the driver answer on the host, and then in a container of its own?",
            "commands": ["nvidia-smi", "nvidia-container-cli info", "docker run --rm --gpus all ubuntu nvidia-smi"],
            "link": "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
            "never": ["amd"],
        },
        {
            "text": "Does the driver answer on the host, and then in a container that is given its devices?",
            "commands": [
                "amd-smi list",
                "docker run --rm --device /dev/kfd --device /dev/dri --group-add video rocm/rocm-terminal rocminfo",
            ],
            "link": "https://rocm.docs.amd.com/",
            "only": ["amd"],
        },
    ],
    "check-fabric-manager": [
        {
            "text": (
                "NVLink multicast is set up by the Fabric Manager (and IMEX across nodes); it must run "
                "and match the driver."
            ),
            "commands": [
                "systemctl status nvidia-fabricmanager",
                "nvidia-smi -q | grep -A2 Fabric",
                "export NCCL_NVLS_ENABLE=0   # to run without it meanwhile",
            ],
            "link": ENV + "#nccl-nvls-enable",
            "never": ["amd"],
        }
    ],
    "check-sharp": [
        {
            "text": (
                "SHARP needs its aggregation manager in the fabric; without it nothing is broken, "
                "collectives run on the hosts."
            ),
            "commands": [
                "systemctl status sharp_am   # on the subnet manager's host",
                "export NCCL_COLLNET_ENABLE=0   # silences the attempt",
            ],
            "link": "https://docs.nvidia.com/networking/display/sharpv300",
        }
    ],
    "set-host-settings": [
        {
            "text": (
                "On each host: add iommu=pt to the kernel's command line, switch NUMA balancing off, and start again."
            ),
            "commands": [
                "cat /proc/cmdline",
                "sysctl kernel.numa_balancing=0",
                "export HSA_FORCE_FINE_GRAIN_PCIE=1   # every rank",
            ],
            "link": "https://rocm.docs.amd.com/projects/rccl/en/latest/how-to/rccl-usage-tips.html",
        }
    ],
    "fix-topology-file": [
        {
            "text": (
                "Run without the file and compare the bandwidth; keep a file only for the machine type it was made for."
            ),
            "commands": ["unset NCCL_TOPO_FILE NCCL_GRAPH_FILE", "NCCL_TOPO_DUMP_FILE=topo.xml <command>"],
            "link": ENV + "#nccl-topo-file",
        }
    ],
}
