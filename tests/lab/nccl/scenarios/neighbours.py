"""What is near a fault and none, and faults of few rows: tables that are too small, NICs that are far or slow."""

from collections.abc import Mapping

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, NO_ADAPTER, ROCE, RUN, Scenario, Verdict, machine

_TAKE_RAS_PORT = (
    "setsid python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 28028)); time.sleep(600)' "
    ">/dev/null 2>&1 & sleep 0.5"
)
_TOLD: Mapping[str, str] = {**GPUDIRECT, "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH"}  # GPUDirect RDMA and speeds too
_TOPOLOGY = """printf '<system version="1">\\n</system>\\n' >/tmp/topo.xml"""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="adapter-far-from-gpu",
        broken="each node's NIC is behind another root port than its GPU",
        verdict=Verdict(top="gdr-distance", network="ib", gdr=False),
        hardware=machine("mlx5_0:ib:400:far"),
        environment=_TOLD,
        until=(2, 29, 99),  # later ones do not print the distance
        proof="Init COMPLETE",
    ),
    Scenario(
        name="adapter-far-and-allowed",
        broken="nothing: NCCL_NET_GDR_LEVEL=SYS lets GPUs use the NIC behind another root port",
        verdict=Verdict(network="ib", gdr=True, never=("gdr-distance", "gdr-missing")),
        hardware=machine("mlx5_0:ib:400:far"),
        environment={**_TOLD, "NCCL_NET_GDR_LEVEL": "SYS"},
        proof="Init COMPLETE",
        daily=False,
    ),
    Scenario(
        name="module-missing-and-told",
        broken="nvidia-peermem is not loaded, and the log has the lines of NET that say so",
        verdict=Verdict(top="gdr-module-missing", network="ib", gdr=False),
        hardware=machine("mlx5_0:ib:400", peermem=False),
        environment={"NCCL_DEBUG_SUBSYS": "INIT,ENV,NET"},
        daily=False,
    ),
    Scenario(
        name="slow-adapter-included",
        broken="beside the NIC for data each node has one of 40 Gb/s, and both are used",
        verdict=Verdict(top="hca-wrong-included", network="ib"),
        ranks_per_node=2,
        hardware=machine("mlx5_0:ib:400,mlx5_1:ib:40", gpus=2),
        environment=_TOLD,
        since=(2, 24, 0),
        until=(2, 29, 99),  # later ones also take the NIC behind the other switch, without GPUDirect RDMA
        daily=False,
    ),
    Scenario(
        name="slow-adapter-left-out",
        broken="nothing: NCCL_IB_HCA leaves the NIC of 40 Gb/s out",
        verdict=Verdict(network="ib", never=("hca-wrong-included", "nic-count-mismatch")),
        hardware=machine("mlx5_0:ib:400,mlx5_1:ib:40", gpus=2),
        environment={**_TOLD, "NCCL_IB_HCA": "=mlx5_0"},
        daily=False,
    ),
    Scenario(
        name="one-sided-put-without-rma",
        broken="the program asks for a one-sided put, which the communicator does not offer",
        verdict=Verdict(top="gin-unavailable", network="ib"),
        hardware=machine("mlx5_0:ib:400", peermem=False),
        steps=("init", "allreduce", "put", "meet"),
        since=(2, 29, 0),
        proof="RMA is not supported",
    ),
    Scenario(
        name="no-gin-and-none-wanted",
        broken="nothing: NCCL_GIN_ENABLE=0, and no kernel of the program sends by itself",
        verdict=Verdict(network="ib", gdr=True, silent=("gin-unavailable",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_GIN_ENABLE": "0"},
        since=(2, 28, 0),
        daily=False,
    ),
    Scenario(
        name="forty-gpus",
        broken="the driver tells of 40 GPUs, and NCCL has room for 32",
        verdict=Verdict(top="nccl-limit-exceeded"),
        hardware=NO_ADAPTER,
        environment={"FAKEGPU_COUNT": "40"},
        steps=INIT,
        proof="internal maximum",
        since=(2, 18, 0),  # 2.12 goes on
    ),
    Scenario(
        name="thirty-two-gpus",
        broken="nothing: 32 GPUs, for which there is room",
        verdict=Verdict(network="ib", gdr=True, silent=("nccl-limit-exceeded",)),
        hardware=IB,
        environment={**GPUDIRECT, "FAKEGPU_COUNT": "32"},
        daily=False,
    ),
    Scenario(
        name="root-out-of-range",
        broken="the program broadcasts from rank 9 of 2",
        verdict=Verdict(top="run-failed", network="ib"),
        hardware=IB,
        environment=GPUDIRECT,
        steps=("init", "broadcast-from=9", "meet"),
        proof="invalid root",
    ),
    Scenario(
        name="built-with-another-release",
        broken="nothing: the program tells which release it was built with; all ranks load the same",
        verdict=Verdict(network="ib", gdr=True, silent=("version-mismatch",)),
        hardware=IB,
        environment=GPUDIRECT,
        steps=("say=trainer: torch 2.5.1+cu124, built with NCCL 2.21.5", *RUN),
        daily=False,
    ),
    Scenario(
        name="roce-gid-index-right",
        broken="nothing: NCCL_IB_GID_INDEX names the entry of RoCE v2 with an IPv4 address",
        verdict=Verdict(network="roce", gdr=True, silent=("roce-gid-invalid",)),
        hardware=ROCE,
        environment={**GPUDIRECT, "NCCL_IB_GID_INDEX": "3"},
    ),
    Scenario(
        name="topology-file-right",
        broken="nothing: NCCL_TOPO_FILE names a file, to which NCCL adds what it finds",
        verdict=Verdict(network="ib", silent=("topology-degraded",)),
        hardware=IB,
        prepare={0: _TOPOLOGY},
        environment={**GPUDIRECT, "NCCL_TOPO_FILE": "/tmp/topo.xml"},
        proof="topo.xml",
        daily=False,
    ),
    Scenario(
        name="program-cancels-a-request",
        broken="nothing: the program tells that it cancelled a request of its own, and works on",
        verdict=Verdict(network="ib", gdr=True, silent=("job-cancelled",)),
        hardware=IB,
        environment=GPUDIRECT,
        steps=("init", "allreduce", "say=server: request 17 was cancelled by its client after 0.3 s", "meet"),
    ),
    Scenario(
        name="ras-port-taken-and-ras-off",
        broken="nothing: another program has RAS's port, and NCCL_RAS_ENABLE=0",
        verdict=Verdict(network="ib", gdr=True, silent=("ras-port-in-use",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_RAS_ENABLE": "0"},
        prepare={0: _TAKE_RAS_PORT},
        since=(2, 24, 0),
        daily=False,
    ),
)
