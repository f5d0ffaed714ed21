"""How the network is reached at all: NICs, device files, verbs library, filters, plugins."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import EFA, ENV, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "show-network": [
        {
            "text": ("Run again with these variables on every rank; the log then shows the network, the NICs and why."),
            "commands": ["export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH"],
            "link": ENV + "#nccl-debug",
        }
    ],
    "list-rdma-devices": [
        {
            "text": "On each node: are there NICs, is the port ACTIVE, and at which rate? No device here "
            "means driver or "
            "hardware, not NCCL.",
            "commands": ["ibv_devinfo", "rdma link show", "ls -l /dev/infiniband /sys/class/infiniband"],
            "link": TROUBLE + "#infiniband",
            "never": ["efa"],
        },
        {
            "text": "On each node: does libfabric list the EFA devices?",
            "commands": ["fi_info -p efa -t FI_EP_RDM", "ls /sys/class/infiniband"],
            "link": EFA,
            "only": ["efa"],
        },
    ],
    "give-devices": [
        {
            "text": "Give the container the NICs and unlimited locked memory.",
            "commands": [
                (
                    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 --network=host "
                    "<image> <command>"
                )
            ],
            "link": TROUBLE + "#docker",
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
            "link": TROUBLE + "#infiniband",
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
            "link": ENV + "#nccl-ib-disable",
        }
    ],
    "fix-hca-filter": [
        {
            "text": (
                "Compare the filter with the real names; `=` makes it exact, `^` excludes, `mlx5_1` also "
                "matches mlx5_10."
            ),
            "commands": ["ibv_devinfo -l", "export NCCL_IB_HCA==mlx5_0,mlx5_1   # names of this machine"],
            "link": ENV + "#nccl-ib-hca",
        }
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
            "link": ENV + "#nccl-net-plugin",
        }
    ],
    "open-provider": [
        {
            "text": "Can a process of this user, in this container, open the provider at all? The log of libfabric "
            "names the call that is refused.",
            "commands": ["fi_info -v | head -40", "export FI_LOG_LEVEL=warn", "ls -l /dev/infiniband; ulimit -l"],
            "link": "https://ofiwg.github.io/libfabric/main/man/fi_info.1.html",
        }
    ],
    "plugin-path": [
        {
            "text": "Did the receiver's process or host end? Look there first; then at drops on the path.",
            "commands": ["dmesg -T | tail -50", "rdma statistic show"],
            "link": "https://github.com/aws/aws-ofi-nccl",
            "never": ["efa"],
        },
        {
            "text": "Did the receiver's process or host end? Look there first. The security group must allow all "
            "traffic from and to itself, outbound too.",
            "commands": ["dmesg -T | tail -50", "rdma -p statistic show", "fi_pingpong -p efa <other host>"],
            "link": EFA,
            "only": ["efa"],
        },
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
            "link": ENV + "#nccl-net-plugin",
        }
    ],
    "provider-efa": [
        {
            "text": "Make libfabric's EFA provider available: driver on the host, device in the container, "
            "library of the EFA "
            "installer first on the path.",
            "commands": ["fi_info -p efa", "export FI_PROVIDER=efa", "ls /dev/infiniband"],
            "link": EFA,
        }
    ],
    "count-adapters": [
        {
            "text": (
                "Compare the NICs of the nodes; the one that is missing has a port that is down or is "
                "not given to the job."
            ),
            "commands": ["rdma link show", "cat /sys/class/infiniband/*/ports/1/rate", "lspci | grep -ci mellanox"],
            "link": TROUBLE + "#infiniband",
            "never": ["efa"],
        },
        {
            "text": "Compare the EFA devices of the nodes; in Kubernetes the pod must request all of them.",
            "commands": [
                "fi_info -p efa | grep -c domain",
                "kubectl get pod <pod> -o yaml | grep vpc.amazonaws.com/efa",
            ],
            "link": EFA,
            "only": ["efa"],
        },
    ],
    "select-adapters": [
        {
            "text": "Name the data NICs of one link type and speed exactly, on every node.",
            "commands": [
                "for d in /sys/class/infiniband/*; do echo $d $(cat $d/ports/1/link_layer $d/ports/1/rate); done",
                "export NCCL_IB_HCA==<device>,<device>",
            ],
            "link": ENV + "#nccl-ib-hca",
        }
    ],
}
