"""GPUs, CUDA and shared memory of a node."""

from collections.abc import Mapping

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, RUN, Scenario, Verdict, machine

_TWO = machine(gpus=2)
_SHARED_MEMORY: Mapping[str, str] = {"NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "0"}


def _shm(size: str) -> Mapping[int, str]:
    return {0: f"mount -o remount,size={size} /dev/shm"}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="shm-1m",
        broken="/dev/shm holds 1 MiB",
        verdict=Verdict(top="shm-too-small", never=("shm-attach-failed",)),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        prepare=_shm("1m"),
        environment=_SHARED_MEMORY,
        proof=r"No space left|[Ss]hm.* failed|Bus error",
    ),
    Scenario(
        name="shm-1g",
        broken="nothing: NCCL_P2P_DISABLE=1, and /dev/shm holds 1 GiB",
        verdict=Verdict(top="p2p-disabled", never=("shm-too-small",)),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        prepare=_shm("1g"),
        environment=_SHARED_MEMORY,
        daily=False,
    ),
    Scenario(
        name="p2p-not-possible",
        broken="nothing: GPUs without peer access to each other",
        verdict=Verdict(never=("p2p-disabled", "p2p-ipc-failed")),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment={"FAKEGPU_P2P": "0"},
    ),
    Scenario(
        name="duplicate-gpu",
        broken="two ranks of a node on GPU 0",
        verdict=Verdict(top="duplicate-gpu"),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment={"RANK_DEVICE": "0"},
        steps=INIT,
    ),
    Scenario(
        name="same-gpu-number-on-two-nodes",
        broken="nothing: GPU 0 of each of two nodes",
        verdict=Verdict(network="ib", never=("duplicate-gpu",)),
        hardware=IB,
        environment={**GPUDIRECT, "RANK_DEVICE": "0"},
        daily=False,
    ),
    Scenario(
        name="oom",
        broken="rank 1's second allocation finds no memory",
        verdict=Verdict(
            top="gpu-out-of-memory",
            never=(
                "cuda-error",
                "host-memory-exhausted",
            ),
        ),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:2=2,cuMemCreate:2=2"}},
        steps=INIT,
        proof="out of memory",
    ),
    Scenario(
        name="illegal-access",
        broken="an earlier kernel of the application on rank 1 wrote where it must not",
        verdict=Verdict(top="cuda-error"),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:3=700,cuMemCreate:3=700"}},
        steps=RUN,
        proof="illegal memory access",
    ),
    Scenario(
        name="system-not-ready",
        broken="the Fabric Manager is not running: CUDA error 802",
        verdict=Verdict(top="cuda-error"),
        environment={"FAKEGPU_FAULT": "cuMemAlloc:2=802,cuMemCreate:2=802"},
        steps=INIT,
        proof="system not yet initialized",
    ),
    Scenario(
        name="host-memory-refused",
        broken="the driver refuses to register rank 1's host memory",
        verdict=Verdict(top="cuda-error"),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemHostRegister:1=1,cuMemHostAlloc:1=1"}},
        proof="invalid argument",
        daily=False,
    ),
    Scenario(
        name="ecc-error",
        broken="rank 1's GPU has an uncorrectable ECC error",
        verdict=Verdict(top="cuda-error", never=("gpu-out-of-memory",)),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:2=214,cuMemCreate:2=214"}},
        steps=INIT,
        proof="ECC",
        daily=False,
    ),
    Scenario(
        name="topology-file-missing",
        broken="NCCL_TOPO_FILE names a file that is not there",
        verdict=Verdict(top="topology-degraded"),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_TOPO_FILE": "/etc/nccl/topo.xml"},
        proof="topo.xml",
    ),
    Scenario(
        name="host-identities-differ",
        broken="two ranks of one host have other NCCL_HOSTIDs: they take TCP",
        verdict=Verdict(top="host-identity-mismatch", network="socket", never=("tcp-fallback",)),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment_of={0: {"NCCL_HOSTID": "pod-a"}, 1: {"NCCL_HOSTID": "pod-b"}},
    ),
    Scenario(
        name="host-identities-alike",
        broken="nothing: two ranks of one host have the same NCCL_HOSTID",
        verdict=Verdict(never=("host-identity-mismatch", "tcp-fallback"), tcp_fallback=False),
        nodes=1,
        ranks_per_node=2,
        hardware=_TWO,
        environment={"NCCL_HOSTID": "pod-a"},
        daily=False,
    ),
)
