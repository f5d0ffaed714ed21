"""Processes that die, hang or never come; and several faults at once, of which the first cause has to be on top."""

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, PLAY, Scenario, Verdict, machine

_GONE = "losed by remote peer|reset by peer|exceeded error retry|remote process exited|failed : Connection refused"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="peer-killed-in-init",
        broken="rank 1 of 3 is killed while the communicator is made",
        verdict=Verdict(top="peer-died"),
        nodes=3,
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:2=kill,cuMemCreate:2=kill"}},
        steps=INIT,
        proof=_GONE,
        seconds=90,
        grace=80,
    ),
    Scenario(
        name="rank-never-comes",
        broken="rank 2 of 3 was never started",
        verdict=Verdict(top="init-hang"),
        nodes=3,
        absent=(2,),
        since=(2, 22, 0),
        steps=INIT,
        seconds=10,
    ),
    Scenario(
        name="rank-stopped-in-init",
        broken="rank 1 of 2 is stopped, as on a host that hangs, while the communicator is made",
        verdict=Verdict(unknown=True),
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:2=stop,cuMemCreate:2=stop"}},
        steps=INIT,
        seconds=12,
    ),
    Scenario(
        name="ends-without-destroy",
        broken="nothing: ranks end without destroying the communicator",
        verdict=Verdict(network="ib", gdr=True, never=("peer-died",)),
        hardware=IB,
        environment=GPUDIRECT,
        steps=("init", "allreduce"),
    ),
    # several at once
    Scenario(
        name="fallback-and-oom",
        broken="no libibverbs, and rank 1 has no GPU memory: the run dies of the memory",
        verdict=Verdict(top="gpu-out-of-memory"),
        environment_of={1: {"FAKEGPU_FAULT": "cuMemAlloc:2=2,cuMemCreate:2=2"}},
        steps=INIT,
        proof="out of memory",
    ),
    Scenario(
        name="no-gdr-and-retry-exceeded",
        broken="no nvidia-peermem, and the connection breaks: the slow path is not the cause",
        verdict=Verdict(top="ib-retry-exceeded", network="ib", gdr=False),
        hardware=machine("mlx5_0:ib:400", peermem=False),
        environment={**PLAY, "FAKEIB_FAULT": "completion:1=12"},
        since=(2, 23, 0),
        seconds=10,
        proof="Got completion",
    ),
    Scenario(
        name="memlock-on-one-node-peers-die",
        broken="ibv_reg_mr gives ENOMEM on rank 1 of 3; the others lose a peer",
        verdict=Verdict(top="memlock-limit", network="ib"),
        nodes=3,
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={1: {"FAKEIB_FAULT": "reg_mr:2=12"}},
        proof="annot allocate memory",
    ),
    Scenario(
        name="duplicate-gpu-over-tcp",
        broken="two ranks on one GPU of two nodes without adapters",
        verdict=Verdict(top="duplicate-gpu"),
        ranks_per_node=2,
        hardware=machine(gpus=2),
        environment={"RANK_DEVICE": "0"},
        steps=INIT,
    ),
    Scenario(
        name="not-openable-and-forced",
        broken="the adapter cannot be opened and NCCL_NET=IB: the run dies of it",
        verdict=Verdict(top="rdma-device-not-openable"),
        hardware=IB,
        environment={**GPUDIRECT, "FAKEIB_FAULT": "open_device:1=13", "NCCL_NET": "IB"},
        since=(2, 12, 0),
        steps=INIT,
    ),
)
