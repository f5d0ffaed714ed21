"""The table of actions: id -> variants. A variant may be limited to, or kept out of, settings of the job.

Settings: amd, container, efa, kubernetes, omnipath, roce, slurm (see ``recommendations.setting_of``).
"""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/"
_TROUBLE = _NCCL + "troubleshooting.html"
_ENV = _NCCL + "env.html"
_TORCH = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
_GDR = "https://docs.nvidia.com/cuda/gpudirect-rdma/"
_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"


class Row(TypedDict):
    """One variant of an action."""

    text: str
    commands: NotRequired[Sequence[str]]
    link: NotRequired[str]
    only: NotRequired[Sequence[str]]
    never: NotRequired[Sequence[str]]


ACTIONS: Mapping[str, Sequence[Row]] = {
    "show-network": [
        {
            "text": (
                "Run again with these variables on every rank; the log then shows the network, the adapters and why."
            ),
            "commands": ["export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH"],
            "link": _ENV + "#nccl-debug",
        }
    ],
    "list-rdma-devices": [
        {
            "text": "On each node: are there adapters, is the port ACTIVE, and at which rate? No device here "
            "means driver or "
            "hardware, not NCCL.",
            "commands": ["ibv_devinfo", "ibstat", "ls -l /dev/infiniband /sys/class/infiniband"],
            "link": _TROUBLE + "#infiniband",
            "never": ["efa"],
        },
        {
            "text": "On each node: does libfabric list the EFA devices?",
            "commands": ["fi_info -p efa -t FI_EP_RDM", "ls /sys/class/infiniband"],
            "link": _EFA,
            "only": ["efa"],
        },
    ],
    "give-devices": [
        {
            "text": "Give the container the adapters and unlimited locked memory.",
            "commands": [
                (
                    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 --network=host "
                    "<image> <command>"
                )
            ],
            "link": _TROUBLE + "#docker",
            "never": ["kubernetes"],
        },
        {
            "text": "Request the RDMA device in the pod (the resource name is the cluster's) and allow IPC_LOCK.",
            "commands": [
                "kubectl describe node <node> | grep -iE 'rdma|efa|hca'",
                "kubectl exec <pod> -- ibv_devinfo",
            ],
            "link": "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",
            "only": ["kubernetes"],
        },
    ],
    "open-device-permission": [
        {
            "text": (
                "The user needs read and write access to the uverbs devices; a device cgroup (Slurm, "
                "systemd) may forbid it."
            ),
            "commands": ["ls -l /dev/infiniband/uverbs*", "ibv_devinfo", "getfacl /dev/infiniband/uverbs0"],
            "link": _TROUBLE + "#infiniband",
        }
    ],
    "install-verbs": [
        {
            "text": (
                "Install the user-space verbs library in the image or on the node, then check that it finds a device."
            ),
            "commands": ["apt-get install -y libibverbs1 ibverbs-providers", "ibv_devinfo"],
            "link": "https://github.com/linux-rdma/rdma-core",
        }
    ],
    "unset-tcp-choice": [
        {
            "text": "Where RDMA is there, let NCCL use it again. Expected: `Using network IB` instead of Socket.",
            "commands": ["unset NCCL_IB_DISABLE NCCL_NET NCCL_NET_PLUGIN", "grep -n NCCL_ /etc/nccl.conf ~/.nccl.conf"],
            "link": _ENV + "#nccl-ib-disable",
        }
    ],
    "fix-hca-filter": [
        {
            "text": (
                "Compare the filter with the real names; `=` makes it exact, `^` excludes, `mlx5_1` also "
                "matches mlx5_10."
            ),
            "commands": ["ibv_devinfo -l", "export NCCL_IB_HCA==mlx5_0,mlx5_1   # names of this machine"],
            "link": _ENV + "#nccl-ib-hca",
        }
    ],
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
            "link": _EFA,
            "only": ["efa"],
        },
    ],
    "install-plugin": [
        {
            "text": (
                "This platform reaches its network through a plugin; install it and put it on the library "
                "path of every rank."
            ),
            "commands": [
                "ldconfig -p | grep nccl-net",
                "echo $LD_LIBRARY_PATH",
                "export NCCL_NET_PLUGIN=<name or path>",
            ],
            "link": "https://github.com/aws/aws-ofi-nccl",
        }
    ],
    "check-plugin-libraries": [
        {
            "text": "Which library does the plugin miss? Everything must resolve, with the C library of this image.",
            "commands": [
                "ldd <path>/libnccl-net.so | grep 'not found'",
                "export NCCL_NET_PLUGIN=none   # to run without it meanwhile",
            ],
            "link": _ENV + "#nccl-net-plugin",
        }
    ],
    "check-plugin-registration": [
        {
            "text": "The plugin cannot register GPU memory. Try NCCL's own verbs network, then the plugin "
            "without GPUDirect, to see "
            "which of the two is at fault.",
            "commands": [
                "export NCCL_NET_PLUGIN=none",
                "export NCCL_NET_GDR_LEVEL=LOC   # no GPUDirect RDMA, for the test only",
            ],
            "link": _ENV + "#nccl-net-plugin",
        }
    ],
    "provider-efa": [
        {
            "text": "Make libfabric's EFA provider available: driver on the host, device in the container, "
            "library of the EFA "
            "installer first on the path.",
            "commands": ["fi_info -p efa", "export FI_PROVIDER=efa", "ls /dev/infiniband"],
            "link": _EFA,
        }
    ],
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
            "never": ["amd", "efa", "omnipath"],
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
    "use-dmabuf": [
        {
            "text": "Or use DMA-BUF: open kernel modules of the driver, Linux 5.12 or newer, CUDA 11.7 or newer.",
            "commands": [
                "cat /proc/driver/nvidia/version   # says 'Open Kernel Module'",
                "uname -r",
                "export NCCL_DMABUF_ENABLE=1",
            ],
            "link": _GDR,
            "never": ["amd", "omnipath"],
        }
    ],
    "check-distance": [
        {
            "text": (
                "Look at which GPU and adapter share a PCIe switch. PIX and PXB are near; PHB, NODE and "
                "SYS cross the processor."
            ),
            "commands": ["nvidia-smi topo -m", "lspci -tv"],
            "link": _TROUBLE + "#gpu-to-nic-communication",
            "never": ["amd"],
        },
        {
            "text": "Look at which GPU and adapter are near each other.",
            "commands": ["rocm-smi --showtopo", "lspci -tv"],
            "link": _TROUBLE,
            "only": ["amd"],
        },
    ],
    "raise-gdr-level": [
        {
            "text": "Allow the longer path, then measure: it may be faster or slower than copying through host memory.",
            "commands": ["export NCCL_NET_GDR_LEVEL=PHB   # SYS allows any path"],
            "link": _ENV + "#nccl-net-gdr-level",
        }
    ],
    "unset-gdr-level": [
        {
            "text": "Remove the lowered level; the default allows GPUs and adapters behind common PCIe switches.",
            "commands": ["unset NCCL_NET_GDR_LEVEL"],
            "link": _ENV + "#nccl-net-gdr-level",
        }
    ],
    "show-gdr": [
        {
            "text": "Show what NCCL knows about each adapter and GPU.",
            "commands": ["export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,ENV"],
            "link": _ENV + "#nccl-debug-subsys",
        }
    ],
    "ofi-gdr": [
        {
            "text": (
                "The plugin gave up GPUDirect: check that the instance type supports it, and use a "
                "current plugin and libfabric."
            ),
            "commands": ["fi_info --version", "export FI_EFA_USE_DEVICE_RDMA=1", "export FI_LOG_LEVEL=warn"],
            "link": _EFA,
        }
    ],
    "count-adapters": [
        {
            "text": (
                "Compare the adapters of the nodes; the one that is missing has a port that is down or is "
                "not given to the job."
            ),
            "commands": ['ibstat | grep -E "CA \'|State|Rate"', "lspci | grep -ci mellanox"],
            "link": _TROUBLE + "#infiniband",
            "never": ["efa"],
        },
        {
            "text": "Compare the EFA devices of the nodes; in Kubernetes the pod must request all of them.",
            "commands": [
                "fi_info -p efa | grep -c domain",
                "kubectl get pod <pod> -o yaml | grep vpc.amazonaws.com/efa",
            ],
            "link": _EFA,
            "only": ["efa"],
        },
    ],
    "select-adapters": [
        {
            "text": "Name the data adapters of one link type and speed exactly, on every node.",
            "commands": [
                "for d in /sys/class/infiniband/*; do echo $d $(cat $d/ports/1/link_layer $d/ports/1/rate); done",
                "export NCCL_IB_HCA==<device>,<device>",
            ],
            "link": _ENV + "#nccl-ib-hca",
        }
    ],
    "same-environment": [
        {
            "text": "Give every rank the same variables; an exported variable does not reach other nodes by itself.",
            "commands": [
                "mpirun -x NCCL_DEBUG -x NCCL_IB_HCA -x NCCL_SOCKET_IFNAME ...",
                "srun --export=ALL ...",
                "mpirun -np <nodes> --map-by node sh -c 'hostname; env | grep NCCL_'",
            ],
            "link": _ENV,
        }
    ],
    "choose-interface": [
        {
            "text": (
                "Name an interface that exists on every node and reaches the others (prefix, `=` exact, `^` excluded)."
            ),
            "commands": ["ip -br addr", "export NCCL_SOCKET_IFNAME=<interface>", "ping -I <interface> <other node>"],
            "link": _ENV + "#nccl-socket-ifname",
        }
    ],
    "check-reachability": [
        {
            "text": (
                "Can the nodes reach each other on the chosen interface, on any port? Firewalls and "
                "security groups must allow it."
            ),
            "commands": ["ip route get <peer address>", "nc -zv <peer address> <port>", "iptables -S | head"],
            "link": _TROUBLE + "#networking-issues",
        }
    ],
    "one-launch": [
        {
            "text": (
                "Make sure that one launch owns the address: same world size, distinct ranks, no "
                "left-over processes, a free port."
            ),
            "commands": ["ps aux | grep -E 'torchrun|mpirun|python' | head", "ss -ltnp | grep <port>"],
            "link": _NCCL + "usage/communicators.html",
        }
    ],
    "same-version": [
        {
            "text": "Use one NCCL on all nodes and ranks: one image, or one library path.",
            "commands": [
                "python -c 'import torch; print(torch.cuda.nccl.version())'",
                "ldconfig -p | grep libnccl.so",
                "echo $LD_PRELOAD $LD_LIBRARY_PATH",
            ],
            "link": _TROUBLE,
        }
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
            "link": _ENV + "#nccl-ib-gid-index",
        },
        {
            "text": (
                "From NCCL 2.21 on the index is chosen automatically; remove a forced one. Older versions "
                "commonly need 3."
            ),
            "commands": ["unset NCCL_IB_GID_INDEX   # 2.21 and newer", "export NCCL_IB_GID_INDEX=3   # older"],
            "link": _ENV + "#nccl-ib-gid-index",
        },
    ],
    "check-fabric": [
        {
            "text": "Check the ports, counters and cables on the way to the named peer.",
            "commands": ["ibstat", "perfquery -x", "ibdiagnet -r", "mlxlink -d <device> -c"],
            "link": _TROUBLE + "#infiniband",
            "never": ["roce", "efa"],
        },
        {
            "text": (
                "Check link, drops and pause frames on the way to the named peer; RoCE needs PFC or ECN "
                "set alike on hosts and switches."
            ),
            "commands": [
                "ethtool -S <interface> | grep -E 'discard|pause|error'",
                "mlnx_qos -i <interface>",
                "rdma statistic show",
            ],
            "link": _TROUBLE + "#rdma-over-converged-ethernet-roce",
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
            "link": _ENV + "#nccl-ib-timeout",
        }
    ],
    "check-acs": [
        {
            "text": (
                "On bare metal, PCIe access control services and the IOMMU break direct transfers; in "
                "virtual machines ATS is needed."
            ),
            "commands": ["lspci -vvv | grep -i acsctl", "cat /proc/cmdline", "dmesg | grep -i -E 'iommu|dmar'"],
            "link": _TROUBLE + "#pci-access-control-services-acs",
        }
    ],
    "check-port": [
        {
            "text": (
                "Look at the port and at the kernel's log around the time; a flapping port is a cable, a "
                "transceiver or a switch."
            ),
            "commands": ["ibstat <device>", "dmesg -T | grep -i -E 'mlx5|link'", "mlxlink -d <device> -m -c"],
            "link": _TROUBLE + "#infiniband",
        }
    ],
    "memlock": [
        {
            "text": "Containers: start with unlimited locked memory.",
            "commands": ["docker run --ulimit memlock=-1 --ulimit stack=67108864 <image> <command>"],
            "link": _TROUBLE + "#docker",
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
            "link": _TROUBLE + "#infiniband",
        },
    ],
    "enable-p2p": [
        {
            "text": "Let the GPUs talk directly: check what the driver allows and remove a leftover switch.",
            "commands": ["nvidia-smi topo -p2p r", "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL"],
            "link": _TROUBLE + "#gpu-to-gpu-communication",
            "never": ["amd"],
        },
        {
            "text": "Let the GPUs talk directly: check what the driver allows and remove a leftover switch.",
            "commands": ["rocm-smi --showtopoaccess", "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL"],
            "link": _TROUBLE,
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
            "link": _TROUBLE + "#docker",
        }
    ],
    "same-host-id": [
        {
            "text": (
                "Tell NCCL that these containers share one machine: the same identity in each, and a common /dev/shm."
            ),
            "commands": ["export NCCL_HOSTID=<name of the machine>"],
            "link": _ENV + "#nccl-hostid",
        }
    ],
    "more-shm": [
        {
            "text": "Enlarge /dev/shm; several GiB for eight GPUs. NCCL_SHM_DISABLE=1 is a slow way round.",
            "commands": ["df -h /dev/shm", "docker run --shm-size=16g <image> <command>"],
            "link": _TROUBLE + "#shared-memory",
            "never": ["kubernetes"],
        },
        {
            "text": "Mount a memory-backed volume on /dev/shm in the pod.",
            "commands": [
                "kubectl exec <pod> -- df -h /dev/shm",
                "kubectl patch ...   # volumes: emptyDir: {medium: Memory, sizeLimit: 16Gi}",
            ],
            "link": _TROUBLE + "#shared-memory",
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
            "link": _TROUBLE + "#shared-memory",
        }
    ],
    "one-device-per-rank": [
        {
            "text": "Bind each rank to its own device before the first collective.",
            "commands": ["torch.cuda.set_device(int(os.environ['LOCAL_RANK']))", "echo $CUDA_VISIBLE_DEVICES"],
            "link": _NCCL + "usage/communicators.html",
        }
    ],
    "one-world": [
        {
            "text": (
                "The processes do not know of each other: an MPI build needs the launcher's MPI, torchrun "
                "needs one rendezvous."
            ),
            "commands": [
                "make MPI=1 MPI_HOME=<mpi>   # nccl-tests",
                "torchrun --nnodes <n> --nproc-per-node <g> --rdzv-endpoint <host>:<port> <script>",
            ],
            "link": "https://github.com/NVIDIA/nccl-tests",
        }
    ],
    "free-gpu-memory": [
        {
            "text": "See who holds the memory; leave NCCL room (buffers per channel and peer), or lower its share.",
            "commands": [
                "nvidia-smi",
                "export NCCL_BUFFSIZE=1048576 NCCL_MAX_CTAS=8   # smaller buffers, less bandwidth",
            ],
            "link": _ENV + "#nccl-buffsize",
            "never": ["amd"],
        },
        {
            "text": "See who holds the memory, and leave the library room for its buffers.",
            "commands": ["rocm-smi --showmeminfo vram"],
            "link": _ENV + "#nccl-buffsize",
            "only": ["amd"],
        },
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
            "link": _ENV + "#nccl-nvls-enable",
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
            "link": _ENV + "#nccl-topo-file",
        }
    ],
    "find-divergence": [
        {
            "text": "Which rank does something else? Record the collectives and compare the ranks' stacks.",
            "commands": [
                "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DESYNC_DEBUG=1",
                "py-spy dump --pid <pid of the missing rank>",
                "torchfrtrace --prefix nccl_trace_rank_ <folder>",
            ],
            "link": _TORCH,
        }
    ],
    "look-at-rank": [
        {
            "text": (
                "Read the end of this rank's own output and its host's kernel log first; the other ranks "
                "only wait for it."
            ),
            "commands": ["dmesg -T | tail -50   # out-of-memory killer, Xid, link", "df -h", "nvidia-smi"],
            "link": _TROUBLE,
        }
    ],
    "unset-misread": [
        {
            "text": (
                "Write the value as NCCL reads it: whole numbers without suffix, 0 or 1 for switches, "
                "names as in the manual."
            ),
            "commands": ["env | grep NCCL_"],
            "link": _ENV,
        }
    ],
    "other-ras-port": [
        {
            "text": "Harmless. Several jobs on one machine need different addresses for this service.",
            "commands": ["export NCCL_RAS_ADDR=localhost:<port>"],
            "link": _ENV + "#nccl-ras-addr",
        }
    ],
    "whole-log": [
        {
            "text": "Give the whole output of every rank, one file each.",
            "commands": ["export NCCL_DEBUG_FILE=nccl.%h.%p.log", "raybench diagnose <folder>"],
            "link": _ENV + "#nccl-debug-file",
        }
    ],
    "raise-nofile": [
        {
            "text": "Raise the number of open files.",
            "commands": ["ulimit -n", "ulimit -n 131072"],
            "link": _TROUBLE,
        }
    ],
}
