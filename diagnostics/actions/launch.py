"""How ranks find each other: interfaces, reachability, one launch, one version, one environment, limits."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import ENV, NCCL, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "why-cancelled": [
        {
            "text": "Ask the scheduler why the job ended. If its time was over: was it as fast as before? Compare its "
            "first steps with an earlier job's, and measure the network, before raising the limit.",
            "commands": [
                "sacct -j <job> --format=JobID,State,ExitCode,Elapsed,Timelimit",
                "kubectl describe job <job>",
                "raybench run --suite all_reduce",
            ],
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
            "link": ENV,
        }
    ],
    "choose-interface": [
        {
            "text": (
                "Name an interface that exists on every node and reaches the others (prefix, `=` exact, `^` excluded)."
            ),
            "commands": ["ip -br addr", "export NCCL_SOCKET_IFNAME=<interface>", "ping -I <interface> <other node>"],
            "link": ENV + "#nccl-socket-ifname",
        }
    ],
    "check-reachability": [
        {
            "text": (
                "Can the nodes reach each other on the chosen interface, on any port? Firewalls and "
                "security groups must allow it."
            ),
            "commands": ["ip route get <peer address>", "nc -zv <peer address> <port>", "iptables -S | head"],
            "link": TROUBLE + "#networking-issues",
        }
    ],
    "one-launch": [
        {
            "text": (
                "Make sure that one launch owns the address: same world size, distinct ranks, no "
                "left-over processes, a free port."
            ),
            "commands": ["ps aux | grep -E 'torchrun|mpirun|python' | head", "ss -ltnp | grep <port>"],
            "link": NCCL + "usage/communicators.html",
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
            "link": TROUBLE,
        }
    ],
    "one-device-per-rank": [
        {
            "text": "Bind each rank to its own device before the first collective.",
            "commands": ["torch.cuda.set_device(int(os.environ['LOCAL_RANK']))", "echo $CUDA_VISIBLE_DEVICES"],
            "link": NCCL + "usage/communicators.html",
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
    "other-ras-port": [
        {
            "text": "Harmless. Several jobs on one machine need different addresses for this service.",
            "commands": ["export NCCL_RAS_ADDR=localhost:<port>"],
            "link": ENV + "#nccl-ras-addr",
        }
    ],
    "raise-nofile": [
        {
            "text": "Raise the number of open files.",
            "commands": ["ulimit -n", "ulimit -n 131072"],
            "link": TROUBLE,
        }
    ],
    "raise-nproc": [
        {
            "text": "Raise the number of processes, which counts threads; see what the container or job allows.",
            "commands": [
                "ulimit -u; cat /sys/fs/cgroup/pids.max",
                "ps -eLf | wc -l",
                "docker run --pids-limit=-1 <image> <command>",
                "export OMP_NUM_THREADS=1   # fewer threads of each rank",
            ],
            "link": "https://man7.org/linux/man-pages/man3/pthread_create.3.html",
        }
    ],
    "matching-library": [
        {
            "text": "See which libnccl the program loads, and put the one that it was built with first.",
            "commands": [
                "LD_DEBUG=libs <command> 2>&1 | grep libnccl",
                "ldd <program or library> | grep libnccl",
                "pip list | grep -i nccl",
            ],
            "link": TROUBLE,
        }
    ],
    "newer-library": [
        {
            "text": "Run with the newest NCCL that the driver takes; see whether its maximum is higher.",
            "commands": ["pip index versions nvidia-nccl-cu12", "CUDA_VISIBLE_DEVICES=0,1,2,3 <command>"],
            "link": "https://docs.nvidia.com/deeplearning/nccl/release-notes/index.html",
        }
    ],
    "unset-misread": [
        {
            "text": (
                "Write the value as NCCL reads it: whole numbers without suffix, 0 or 1 for switches, "
                "names as in the manual."
            ),
            "commands": ["env | grep NCCL_"],
            "link": ENV,
        }
    ],
}
