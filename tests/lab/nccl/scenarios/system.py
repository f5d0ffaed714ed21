"""Limits and refusals of a node's system: descriptors, threads, memory, ports, libraries."""

from collections.abc import Mapping

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, Scenario, Verdict, machine

_TWO = machine(gpus=2)
_FOUR = machine(gpus=4)
_SHARED_MEMORY: Mapping[str, str] = {"NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "0"}
_NVSWITCH: Mapping[str, str] = {"FAKEGPU_COUNT": "4", "FAKEGPU_NVLINKS": "18", "FAKEGPU_MULTICAST": "1"}
_TAKE_PORT = (
    "setsid python3 -c 'import socket, time; s = socket.create_server((\"10.88.0.1\", 23456)); time.sleep(600)' "
    ">/dev/null 2>&1 & sleep 0.5"
)


def _rank1(fault: str) -> Mapping[int, Mapping[str, str]]:
    """Environment in which calls of rank 1 into the system fail: ``socket:3=24``, from the third on errno 24."""
    return {1: {"FAKESYS_FAULT": fault}}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="files-exhausted",
        broken="rank 1 gets no more descriptors: socket() gives EMFILE",
        verdict=Verdict(top="file-limit", never=("thread-limit",)),
        environment_of=_rank1("socket:4=24"),
        steps=INIT,
        proof="Too many open files",
        grace=1.0,
    ),
    Scenario(
        name="interfaces-without-descriptors",
        broken="rank 1 gets no more descriptors as it lists its interfaces",
        verdict=Verdict(top="file-limit", never=("no-socket-interface", "net-plugin-missing")),
        environment_of=_rank1("getifaddrs:2=24"),
        steps=INIT,
        proof="getifaddrs failed ?: Too many open files",
        daily=False,
    ),
    Scenario(
        name="connects-again-and-again",
        broken="rank 1 cannot connect, for which the system gives EAGAIN; the job is ended meanwhile",
        verdict=Verdict(top="bootstrap-unreachable"),
        environment_of=_rank1("connect:4=11"),
        since=(2, 24, 0),
        proof=r"retrying \(5/34\)",
        daily=False,
    ),
    Scenario(
        name="segment-interrupted-again-and-again",
        broken="each attempt of rank 1 to extend a segment is interrupted: EINTR",
        verdict=Verdict(unknown=True, network="ib"),
        hardware=IB,
        environment=GPUDIRECT,
        environment_of=_rank1("fallocate:1=4"),
        since=(2, 22, 0),
        proof="- retrying",
        daily=False,
    ),
    Scenario(
        name="files-enough",
        broken="nothing: the limit of descriptors is 512",
        verdict=Verdict(network="ib", gdr=True, never=("file-limit",)),
        hardware=IB,
        environment=GPUDIRECT,
        steps=("files=512", "init", "allreduce", "meet"),
        daily=False,
    ),
    Scenario(
        name="threads-exhausted",
        broken="rank 1 cannot start a thread: pthread_create() gives EAGAIN",
        verdict=Verdict(top="thread-limit"),
        environment_of=_rank1("pthread_create:1=11"),
        steps=INIT,
        proof="pthread_create.*Resource temporarily unavailable|Resource temporarily unavailable",
    ),
    Scenario(
        name="malloc-fails",
        broken="rank 1's node has no memory left: malloc() gives nothing",
        verdict=Verdict(top="host-memory-exhausted", never=("gpu-out-of-memory",)),
        environment_of=_rank1("malloc:60=12"),
        steps=INIT,
        proof="Failed to malloc",
    ),
    Scenario(
        name="shm-refused",
        broken="/dev/shm may not be written to: EACCES. It is not too small",
        verdict=Verdict(top="shm-attach-failed", never=("shm-too-small",)),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment={**_SHARED_MEMORY, "FAKESYS_FAULT": "mkstemp:1=13"},
        proof="Permission denied",
    ),
    Scenario(
        name="interfaces-unreadable",
        broken="getifaddrs() fails on rank 1: it finds no network",
        verdict=Verdict(top="no-socket-interface"),
        environment_of=_rank1("getifaddrs:1=13"),
        steps=INIT,
        proof="getifaddrs",
        daily=False,
    ),
    Scenario(
        name="comm-id-port-taken",
        broken="another program has the port that NCCL_COMM_ID names",
        verdict=Verdict(top="bootstrap-unreachable"),
        environment={"NCCL_COMM_ID": "10.88.0.1:23456", "RANK_OWN_ID": "1"},
        prepare={1: _TAKE_PORT},
        steps=INIT,
        proof="Address already in use",
        daily=False,
    ),
    Scenario(
        name="gdrcopy-missing",
        broken="NCCL_GDRCOPY_ENABLE=1, and its library is not installed: NCCL goes on without",
        verdict=Verdict(network="ib", gdr=True, never=("gdrcopy-failed",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_GDRCOPY_ENABLE": "1"},
        proof="gdrapi",
        daily=False,
    ),
    Scenario(
        name="gdrcopy-map-fails",
        broken="GDRCopy cannot map GPU memory",
        verdict=Verdict(top="gdrcopy-failed", network="ib"),
        hardware=IB,
        environment={
            **GPUDIRECT,
            "NCCL_GDRCOPY_ENABLE": "1",
            "FAKEGDR_FAULT": "map",
            "RANK_LIBRARIES": "{build}/gdrcopy",
        },
        proof="gdr_map",
        daily=False,
    ),
    Scenario(
        name="gdrcopy-works",
        broken="nothing: GDRCopy is there and works",
        verdict=Verdict(network="ib", gdr=True, never=("gdrcopy-failed",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_GDRCOPY_ENABLE": "1", "RANK_LIBRARIES": "{build}/gdrcopy"},
        daily=False,
    ),
    Scenario(
        name="nvls-forced-bind-fails",
        broken="NCCL_NVLS_ENABLE=1, and memory cannot be bound to a multicast object: the Fabric Manager is broken",
        verdict=Verdict(top="nvls-failed"),
        nodes=1,
        ranks_per_node=4,
        hardware=_FOUR,
        environment={**_NVSWITCH, "NCCL_NVLS_ENABLE": "1", "FAKEGPU_FAULT": "cuMulticastBindMem:1=401"},
        since=(2, 24, 0),
        proof="Failed to bind|[Cc]uda failure",
        daily=False,
    ),
    Scenario(
        name="nvls-bind-fails",
        broken="memory cannot be bound to a multicast object; NCCL goes on without NVLS",
        verdict=Verdict(also=("nvls-failed",)),
        nodes=1,
        ranks_per_node=4,
        hardware=_FOUR,
        environment={**_NVSWITCH, "FAKEGPU_FAULT": "cuMulticastBindMem:1=401"},
        since=(2, 26, 0),
        proof="Proceeding without NVLS",
        daily=False,
    ),
    Scenario(
        name="nvls-works",
        broken="nothing: four GPUs behind an NVSwitch, with NVLS",
        verdict=Verdict(never=("nvls-failed",), tcp_fallback=False),
        nodes=1,
        ranks_per_node=4,
        hardware=_FOUR,
        environment=_NVSWITCH,
        since=(2, 24, 0),
        proof="Init COMPLETE",
        daily=False,
    ),
    Scenario(
        name="launch-failed",
        broken="an earlier kernel of rank 1 failed: CUDA error 719 where NCCL's is launched",
        verdict=Verdict(top="cuda-error", never=("gpu-out-of-memory",)),
        environment_of={1: {"FAKEGPU_FAULT": "cuLaunchKernelEx:1=719,cuLaunchKernel:1=719,cuMemcpyHtoDAsync:5=719"}},
        proof="unspecified launch failure",
        daily=False,
    ),
    Scenario(
        name="devices-busy",
        broken="rank 1's GPU is in exclusive mode and taken: CUDA error 46",
        verdict=Verdict(top="cuda-error", never=("duplicate-gpu",)),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:1=46,cuMemCreate:1=46"}},
        steps=INIT,
        proof="busy or unavailable",
        daily=False,
    ),
    Scenario(
        name="ipc-refused",
        broken="CUDA memory cannot be shared between the processes: cuIpcOpenMemHandle gives 217",
        verdict=Verdict(top="p2p-ipc-failed"),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment={"NCCL_CUMEM_ENABLE": "0", "FAKEGPU_FAULT": "cuIpcOpenMemHandle:1=217"},
        proof="217|peer access is not supported",
        daily=False,
    ),
)
