"""InfiniBand and RoCE: devices, memory, queue pairs, completions, events, GPUDirect RDMA."""

from collections.abc import Mapping

from tests.lab.nccl.scenario import GPUDIRECT, IB, PLAY, ROCE, Scenario, Steps, Verdict, machine

_WATCH: Steps = ("init", "allreduce", "sleep=2.5", "meet")


def _fault(call: str) -> Mapping[str, str]:
    """Environment of a node whose NIC fails: ``reg_mr:3=12``, from the third call on errno 12."""
    return {**GPUDIRECT, "FAKEIB_FAULT": call}


def _event(number: int) -> Mapping[str, str]:
    """Environment of a node whose NIC reports an asynchronous event after a second."""
    return {**GPUDIRECT, "FAKEIB_EVENT": f"1={number}"}


SCENARIOS: tuple[Scenario, ...] = (
    # devices
    Scenario(
        name="hca-filter-fits",
        broken="nothing: NCCL_IB_HCA names the NIC",
        verdict=Verdict(network="ib", gdr=True, never=("hca-filter-excludes-all",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_HCA": "=mlx5_0"},
        daily=False,
    ),
    Scenario(
        name="net-ib-forced-without-adapter",
        broken="NCCL_NET=IB and no NIC",
        verdict=Verdict(top="rdma-device-missing"),
        hardware=machine(),
        environment={"NCCL_NET": "IB"},
        since=(2, 12, 0),
        steps=("init",),
    ),
    Scenario(
        name="net-ib-forced-without-verbs",
        broken="NCCL_NET=IB and no libibverbs",
        verdict=Verdict(top="libibverbs-missing"),
        environment={"NCCL_NET": "IB"},
        since=(2, 12, 0),
        steps=("init",),
    ),
    Scenario(
        name="adapter-on-one-node-only",
        broken="the second node has no NIC",
        verdict=Verdict(top="ranks-disagree-on-transport", network="mixed"),
        hardware=IB,
        hardware_of={2: machine()},
        environment=GPUDIRECT,
    ),
    Scenario(
        name="ib-disabled-on-rank1",
        broken="NCCL_IB_DISABLE=1 on rank 1 only",
        verdict=Verdict(top="ranks-disagree-on-transport", network="mixed"),
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={1: {"NCCL_IB_DISABLE": "1"}},
    ),
    Scenario(
        name="two-adapters-and-one",
        broken="the second node has one NIC, the first two",
        verdict=Verdict(top="nic-count-mismatch", network="ib"),
        ranks_per_node=2,
        hardware=machine("mlx5_0:ib:400,mlx5_1:ib:400", gpus=2),
        hardware_of={2: machine("mlx5_0:ib:400", gpus=2)},
        environment=GPUDIRECT,
    ),
    Scenario(
        name="two-adapters-each",
        broken="nothing: two NICs in each of two nodes",
        verdict=Verdict(network="ib", gdr=True, never=("nic-count-mismatch", "hca-wrong-included")),
        ranks_per_node=2,
        hardware=machine("mlx5_0:ib:400,mlx5_1:ib:400", gpus=2),
        until=(2, 29, 99),  # later ones also take the NIC behind the other switch, without GPUDirect RDMA
        environment=GPUDIRECT,
        daily=False,
    ),
    Scenario(
        name="one-of-two-ports-down",
        broken="the second NIC of the second node is down",
        verdict=Verdict(top="nic-count-mismatch", network="ib"),
        ranks_per_node=2,
        hardware=machine("mlx5_0:ib:400,mlx5_1:ib:400", gpus=2),
        hardware_of={2: machine("mlx5_0:ib:400,mlx5_1:ib:400:down", gpus=2)},
        environment=GPUDIRECT,
        daily=False,
    ),
    Scenario(
        name="ib-and-roce-in-a-node",
        broken="each node has an InfiniBand and a RoCE NIC",
        verdict=Verdict(gdr=True, never=("hca-mixed-link-layers",)),
        ranks_per_node=2,
        hardware=machine("mlx5_0:ib:400,mlx5_1:roce:400", gpus=2),
        until=(2, 29, 99),  # later ones also take the NIC behind the other switch, without GPUDirect RDMA
        environment=GPUDIRECT,
        daily=False,
    ),
    Scenario(
        name="ib-here-roce-there",
        broken="the first node's NIC is InfiniBand, the second's RoCE",
        verdict=Verdict(top="hca-mixed-link-layers"),
        hardware=IB,
        hardware_of={2: machine("mlx5_0:roce:400")},
        environment=GPUDIRECT,
        since=(2, 26, 2),
    ),
    # GPUDirect RDMA
    Scenario(
        name="ib-no-peermem",
        broken="nvidia-peermem is not loaded, and there is no DMA-BUF",
        verdict=Verdict(
            top="gdr-missing",
            network="ib",
            gdr=False,
            never=("gdr-partial",),
        ),
        hardware=machine("mlx5_0:ib:400", peermem=False),
    ),
    Scenario(
        name="roce-no-peermem",
        broken="nvidia-peermem is not loaded, and there is no DMA-BUF",
        verdict=Verdict(top="gdr-missing", network="roce", gdr=False),
        hardware=machine("mlx5_0:roce:200", peermem=False),
        daily=False,
    ),
    Scenario(
        name="ib-gdr-level",
        broken="NCCL_NET_GDR_LEVEL=LOC",
        verdict=Verdict(
            top="gdr-level-lowered",
            network="ib",
            gdr=False,
            never=(
                "gdr-missing",
                "gdr-module-missing",
            ),
        ),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_NET_GDR_LEVEL": "LOC"},
    ),
    Scenario(
        name="ib-gdr-level-high",
        broken="nothing: NCCL_NET_GDR_LEVEL=SYS allows more, not less",
        verdict=Verdict(network="ib", gdr=True, never=("gdr-level-lowered",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_NET_GDR_LEVEL": "SYS"},
        daily=False,
    ),
    Scenario(
        name="gdr-on-one-node",
        broken="nvidia-peermem is loaded on the first node only",
        verdict=Verdict(top="gdr-partial", network="ib"),
        hardware=IB,
        hardware_of={2: machine("mlx5_0:ib:400", peermem=False)},
        environment_of={0: GPUDIRECT},
    ),
    # connecting
    Scenario(
        name="roce-rtr-unreachable",
        broken="ibv_modify_qp to RTR gives ENETUNREACH: the GIDs have no route to each other",
        verdict=Verdict(top="ib-connect-failed", network="roce"),
        hardware=ROCE,
        environment=_fault("modify_qp.RTR:1=101"),
    ),
    Scenario(
        name="ib-rtr-invalid",
        broken="ibv_modify_qp to RTR gives EINVAL",
        verdict=Verdict(top="ib-connect-failed", network="ib"),
        hardware=IB,
        environment=_fault("modify_qp.RTR:1=22"),
    ),
    Scenario(
        name="ib-rts-no-device",
        broken="ibv_modify_qp to RTS gives ENODEV: the NIC went away",
        verdict=Verdict(top="ib-connect-failed", network="ib"),
        hardware=IB,
        environment=_fault("modify_qp.RTS:1=19"),
    ),
    Scenario(
        name="roce-gid-index-empty",
        broken="NCCL_IB_GID_INDEX names an empty entry, which the NIC refuses",
        verdict=Verdict(top="roce-gid-invalid", network="roce"),
        hardware=ROCE,
        environment={**_fault("modify_qp.RTR:1=22"), "NCCL_IB_GID_INDEX": "7", "FAKEIB_GIDS": "8"},
    ),
    # memory
    Scenario(
        name="ib-memlock",
        broken="ibv_reg_mr gives ENOMEM: the limit of locked memory",
        verdict=Verdict(top="memlock-limit", network="ib"),
        hardware=IB,
        environment=_fault("reg_mr:3=12"),
        proof="annot allocate memory",
    ),
    Scenario(
        name="ib-memlock-cq",
        broken="ibv_create_cq gives ENOMEM",
        verdict=Verdict(
            top="memlock-limit",
            network="ib",
            never=(
                "memory-registration-failed",
                "ib-connect-failed",
            ),
        ),
        hardware=IB,
        environment=_fault("create_cq:1=12"),
        proof="annot allocate memory|ibv_create_cq failed",
        daily=False,
    ),
    Scenario(
        name="ib-memlock-qp",
        broken="ibv_create_qp gives ENOMEM",
        verdict=Verdict(top="memlock-limit", network="ib"),
        hardware=IB,
        environment=_fault("create_qp:1=12"),
        proof="annot allocate memory|ibv_create_qp failed",
        daily=False,
    ),
    Scenario(
        name="ib-reg-efault",
        broken="ibv_reg_mr gives EFAULT",
        verdict=Verdict(top="memory-registration-failed", network="ib", never=("memlock-limit",)),
        hardware=IB,
        environment=_fault("reg_mr:5=14"),
        proof="ibv_reg_mr",
    ),
    # completions
    Scenario(
        name="ib-retry-exceeded",
        broken="the first completion is status 12",
        verdict=Verdict(top="ib-retry-exceeded", network="ib", never=("ib-protection-error",)),
        hardware=IB,
        environment={**PLAY, **_fault("completion:1=12")},
        since=(2, 21, 0),
        seconds=10,
        proof="Got completion",
    ),
    Scenario(
        name="roce-retry-exceeded",
        broken="the first completion is status 12, on RoCE",
        verdict=Verdict(top="ib-retry-exceeded", network="roce"),
        hardware=ROCE,
        environment={**PLAY, **_fault("completion:1=12")},
        since=(2, 21, 0),
        seconds=10,
        proof="Got completion",
        daily=False,
    ),
    Scenario(
        name="ib-remote-access",
        broken="the first completion is status 10, a remote access error",
        verdict=Verdict(top="ib-protection-error", network="ib"),
        hardware=IB,
        environment={**PLAY, **_fault("completion:1=10")},
        since=(2, 21, 0),
        seconds=10,
        proof="Got completion",
    ),
    Scenario(
        name="ib-local-protection",
        broken="the first completion is status 4, a local protection error",
        verdict=Verdict(top="ib-protection-error", network="ib"),
        hardware=IB,
        environment={**PLAY, **_fault("completion:1=4")},
        since=(2, 21, 0),
        seconds=10,
        proof="Got completion",
        daily=False,
    ),
    # events
    Scenario(
        name="ib-device-fatal-event",
        broken="the NIC reports a fatal error",
        verdict=Verdict(top="ib-async-event", network="ib"),
        hardware=IB,
        environment=_event(8),
        steps=_WATCH,
        proof="event",
    ),
    Scenario(
        name="ib-port-error-event",
        broken="the port goes down while the job runs",
        verdict=Verdict(top="ib-port-down", network="ib"),
        hardware=IB,
        environment=_event(10),
        steps=_WATCH,
        proof="event",
    ),
    Scenario(
        name="ib-port-active-event",
        broken="nothing: the port says that it is active",
        verdict=Verdict(network="ib", gdr=True, never=("ib-port-down",)),
        hardware=IB,
        environment=_event(9),
        steps=_WATCH,
        proof="event",
        daily=False,
    ),
    Scenario(
        name="ib-gid-change-event",
        broken="nothing: the GID table changed, and the run goes on",
        verdict=Verdict(network="ib", gdr=True),
        hardware=IB,
        environment=_event(18),
        steps=_WATCH,
        proof="event",
        daily=False,
    ),
    Scenario(
        name="ib-not-openable",
        broken="the device files cannot be opened: EACCES",
        verdict=Verdict(top="rdma-device-not-openable", network="socket", gdr=False, tcp_fallback=True),
        hardware=IB,
        environment=_fault("open_device:1=13"),
    ),
    Scenario(
        name="ib-not-openable-on-one",
        broken="the device files cannot be opened on the second node: EACCES",
        verdict=Verdict(top="rdma-device-not-openable", network="mixed", never=("peer-died", "bootstrap-unreachable")),
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={1: _fault("open_device:1=13")},
        daily=False,
    ),
    Scenario(
        name="verbs-missing-on-one-of-two",
        broken="the second node has no libibverbs",
        verdict=Verdict(top="libibverbs-missing", network="mixed", never=("peer-died", "bootstrap-unreachable")),
        hardware=IB,
        hardware_of={2: None},
        environment=GPUDIRECT,
        daily=False,
    ),
    Scenario(
        name="hca-filter-excludes-all",
        broken="NCCL_IB_HCA names a NIC that no node has",
        verdict=Verdict(top="hca-filter-excludes-all", network="socket", gdr=False),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_HCA": "mlx5_9"},
        since=(2, 18, 0),  # 2.12 does not print it
    ),
    Scenario(
        name="roce-rtr-timed-out",
        broken="ibv_modify_qp to RTR gives ETIMEDOUT, which NCCL tries again without a word: the job hangs",
        verdict=Verdict(unknown=True, network="roce"),
        hardware=ROCE,
        since=(2, 22, 0),
        seconds=8,
        environment=_fault("modify_qp.RTR:1=110"),
        daily=False,
    ),
)
