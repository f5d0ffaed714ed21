"""Network plugins and variables of NCCL."""

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, NO_ADAPTER, Scenario, Verdict

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="net-name-unknown",
        broken="NCCL_NET names a plugin that is not there",
        verdict=Verdict(top="net-plugin-missing"),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_NET": "AWS Libfabric"},
        since=(2, 12, 0),
        steps=INIT,
    ),
    Scenario(
        name="ib-disable-true",
        broken="NCCL_IB_DISABLE=true, which NCCL reads as 0, and says so: nothing is lost",
        verdict=Verdict(network="ib", gdr=True, never=("rdma-disabled-by-env",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_DISABLE": "true"},
        daily=False,
    ),
    Scenario(
        name="buffsize-with-unit",
        broken="NCCL_BUFFSIZE=4M, which NCCL reads as 4",
        verdict=Verdict(top="env-misuse"),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_BUFFSIZE": "4M"},
    ),
    Scenario(
        name="ib-timeouts-differ",
        broken="NCCL_IB_TIMEOUT is 20 on rank 0 and 22 on rank 1",
        verdict=Verdict(top="env-inconsistent", network="ib", gdr=True),
        hardware=IB,
        environment=GPUDIRECT,
        environment_of={0: {"NCCL_IB_TIMEOUT": "20"}, 1: {"NCCL_IB_TIMEOUT": "22"}},
        proof="NCCL_IB_TIMEOUT",
    ),
    Scenario(
        name="ib-timeout-on-all",
        broken="nothing: NCCL_IB_TIMEOUT on all ranks",
        verdict=Verdict(network="ib", gdr=True, never=("env-inconsistent",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_TIMEOUT": "22"},
        proof="NCCL_IB_TIMEOUT",
        daily=False,
    ),
    Scenario(
        name="plugin-named-and-absent",
        broken="NCCL_NET_PLUGIN=aws-ofi, which is not installed; InfiniBand does without",
        verdict=Verdict(also=("net-plugin-missing",), network="ib", gdr=True),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_NET_PLUGIN": "aws-ofi"},
        since=(2, 12, 0),
    ),
    Scenario(
        name="plugin-not-a-library",
        broken="NCCL_NET_PLUGIN names a file that is no library; InfiniBand does without",
        verdict=Verdict(top="net-plugin-broken", network="ib", gdr=True, says="does not load"),
        hardware=IB,
        prepare={0: "printf 'version https://git-lfs' >/tmp/libnccl-net-junk.so"},
        environment={**GPUDIRECT, "NCCL_NET_PLUGIN": "junk", "RANK_LIBRARIES": "/tmp"},
        since=(2, 18, 0),  # 2.12 does not print it
    ),
    Scenario(
        name="plugin-not-a-library-over-tcp",
        broken="NCCL_NET_PLUGIN names a file that is no library, and there is no NIC",
        verdict=Verdict(top="net-plugin-broken", network="socket", gdr=False),
        hardware=NO_ADAPTER,
        prepare={0: "printf 'version https://git-lfs' >/tmp/libnccl-net-junk.so"},
        environment={"NCCL_NET_PLUGIN": "junk", "RANK_LIBRARIES": "/tmp"},
        since=(2, 18, 0),  # 2.12 does not print it
        daily=False,
    ),
    Scenario(
        name="plugin-named-and-absent-over-tcp",
        broken="NCCL_NET_PLUGIN=aws-ofi, which is not installed, and there is no NIC",
        verdict=Verdict(top="net-plugin-missing", network="socket", gdr=False),
        hardware=NO_ADAPTER,
        environment={"NCCL_NET_PLUGIN": "aws-ofi"},
        since=(2, 12, 0),
        daily=False,
    ),
)
