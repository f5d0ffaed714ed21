"""Nothing is wrong: no finding above info."""

from tests.lab.nccl.scenario import GPUDIRECT, IB, NO_ADAPTER, ROCE, Scenario, Verdict, machine

SCENARIOS = (
    Scenario(
        name="ib-healthy",
        broken="nothing: two nodes over InfiniBand with GPUDirect RDMA",
        verdict=Verdict(
            network="ib",
            gdr=True,
            tcp_fallback=False,
            silent=(
                "log-too-quiet",
                "log-truncated",
                "unclassified-warning",
            ),
        ),
        hardware=IB,
        environment=GPUDIRECT,
        proof="Init COMPLETE",
    ),
    Scenario(
        name="roce-healthy",
        broken="nothing: two nodes over RoCE with GPUDirect RDMA",
        verdict=Verdict(network="roce", gdr=True, tcp_fallback=False),
        hardware=ROCE,
        environment=GPUDIRECT,
        proof="Init COMPLETE",
    ),
    Scenario(
        name="one-node-healthy",
        broken="nothing: two GPUs of one node, no NIC",
        verdict=Verdict(never=("tcp-fallback",), tcp_fallback=False),
        nodes=1,
        ranks_per_node=2,
        hardware=machine(gpus=2),
        proof="Init COMPLETE",
    ),
    Scenario(
        name="tcp-on-purpose",
        broken="NCCL_IB_DISABLE=1 on nodes without NICs",
        verdict=Verdict(network="socket", gdr=False, tcp_fallback=False, never=("rdma-device-missing",)),
        hardware=NO_ADAPTER,
        environment={"NCCL_IB_DISABLE": "1"},
        proof="Init COMPLETE",
    ),
)
