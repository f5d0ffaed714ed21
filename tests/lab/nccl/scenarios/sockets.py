"""TCP: networks that are wrong, and nodes that do not reach each other."""

from tests.lab.nccl.scenario import GPUDIRECT, IB, INIT, NO_ADAPTER, PLAY, RUN, Scenario, Verdict, machine

_NO_ROUTE = "ip route add unreachable 10.88.0.1/32"
_REJECT = (
    "nft add table inet f; nft 'add chain inet f in { type filter hook input priority 0; }'; "
    "nft add rule inet f in ip saddr 10.88.0.1 tcp flags syn / syn,ack reject with tcp reset"
)
_TAKE_RAS_PORT = (
    "setsid python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 28028)); time.sleep(600)' "
    ">/dev/null 2>&1 & sleep 0.5"
)
_OTHER_SUBNETS = "ip addr flush dev eth1; ip addr add 10.98.$(hostname | tail -c 2).1/24 dev eth1"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="verbs-missing",
        broken="no libibverbs on any node",
        verdict=Verdict(top="libibverbs-missing", network="socket", gdr=False),
    ),
    Scenario(
        name="verbs-missing-one-node",
        broken="no libibverbs, on a job of one node that needs no network",
        verdict=Verdict(never=("tcp-fallback",), tcp_fallback=False),
        nodes=1,
        ranks_per_node=2,
        daily=False,
    ),
    Scenario(
        name="no-adapter",
        broken="libibverbs and no NIC: whether one was wanted is not known",
        verdict=Verdict(
            top="tcp-fallback",
            network="socket",
            gdr=False,
            never=("libibverbs-missing",),
        ),
        hardware=NO_ADAPTER,
    ),
    Scenario(
        name="no-adapter-four-nodes",
        broken="no NIC in four nodes, and a played all-reduce",
        verdict=Verdict(top="tcp-fallback", network="socket", gdr=False),
        nodes=4,
        hardware=NO_ADAPTER,
        environment=PLAY,
        since=(2, 21, 0),
        proof=r"gave \[10\.0",
        daily=False,
    ),
    Scenario(
        name="ib-there-but-disabled",
        broken="NCCL_IB_DISABLE=1 where there are NICs",
        verdict=Verdict(network="socket", gdr=False, tcp_fallback=False, never=("tcp-fallback",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_DISABLE": "1"},
    ),
    Scenario(
        name="ib-disable-is-zero",
        broken="nothing: NCCL_IB_DISABLE=0 disables nothing",
        verdict=Verdict(network="ib", gdr=True, never=("rdma-disabled-by-env",)),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_IB_DISABLE": "0"},
        daily=False,
    ),
    Scenario(
        name="ib-ports-down",
        broken="the only port of each node is down",
        verdict=Verdict(
            top="tcp-fallback",
            network="socket",
            gdr=False,
            never=(
                "rdma-device-not-openable",
                "ranks-disagree-on-transport",
            ),
        ),
        hardware=machine("mlx5_0:ib:400:down"),
        environment=GPUDIRECT,
    ),
    Scenario(
        name="ifname-unknown",
        broken="NCCL_SOCKET_IFNAME names an interface that no node has",
        verdict=Verdict(top="no-socket-interface"),
        environment={"NCCL_SOCKET_IFNAME": "ib0"},
        steps=INIT,
    ),
    Scenario(
        name="ifname-unknown-on-one",
        broken="NCCL_SOCKET_IFNAME names an interface that one of two nodes lacks",
        verdict=Verdict(top="no-socket-interface"),
        environment_of={1: {"NCCL_SOCKET_IFNAME": "ens3"}},
        steps=INIT,
        daily=False,
    ),
    Scenario(
        name="ifname-right",
        broken="nothing: NCCL_SOCKET_IFNAME names the interface that all have",
        verdict=Verdict(network="ib", never=("no-socket-interface", "wrong-interface")),
        hardware=IB,
        environment={**GPUDIRECT, "NCCL_SOCKET_IFNAME": "eth0"},
        daily=False,
    ),
    Scenario(
        name="ifname-lo",
        broken="NCCL_SOCKET_IFNAME=lo on two nodes",
        verdict=Verdict(top="wrong-interface"),
        environment={"NCCL_SOCKET_IFNAME": "lo"},
        steps=INIT,
        seconds=40,
    ),
    Scenario(
        name="ifname-other-net",
        broken="eth1, which NCCL_SOCKET_IFNAME names, is in a subnet of its own on each node",
        verdict=Verdict(top="wrong-interface"),
        rails=2,
        prepare={0: _OTHER_SUBNETS},
        environment={"NCCL_SOCKET_IFNAME": "eth1"},
        steps=INIT,
        seconds=50,
    ),
    Scenario(
        name="no-route",
        broken="the second node has no route to the first",
        verdict=Verdict(top="wrong-interface"),
        prepare={2: _NO_ROUTE},
        steps=INIT,
        proof="No route to host",
        seconds=85,
    ),
    Scenario(
        name="port-refused",
        broken="the second node's firewall answers the first one's connections with a reset",
        verdict=Verdict(top="bootstrap-unreachable"),
        prepare={2: _REJECT},
        steps=INIT,
        proof="Connection refused|reset by peer",
        seconds=85,
    ),
    Scenario(
        name="nobody-listens-at-comm-id",
        broken="NCCL_COMM_ID names a port where nobody listens, on all ranks but rank 0",
        verdict=Verdict(top="bootstrap-unreachable"),
        environment={"NCCL_COMM_ID": "10.88.0.1:23456", "RANK_OWN_ID": "1"},
        environment_of={1: {"NCCL_COMM_ID": "10.88.0.1:9"}},
        steps=INIT,
        proof="Connection refused",
        seconds=85,
    ),
    Scenario(
        name="comm-id-garbage",
        broken="NCCL_COMM_ID is not an address",
        verdict=Verdict(top="bootstrap-unreachable"),
        environment={"NCCL_COMM_ID": "head-node:x", "RANK_OWN_ID": "1"},
        steps=INIT,
        proof="NCCL_COMM_ID",
    ),
    Scenario(
        name="world-size-differs",
        broken="rank 1 was told of three ranks, rank 0 of two",
        verdict=Verdict(top="bootstrap-mismatch"),
        environment_of={1: {"RANK_WORLD_SIZE": "3"}},
        steps=INIT,
        seconds=12,
    ),
    Scenario(
        name="world-of-one-each",
        broken="two processes of a job that each believe to be alone",
        verdict=Verdict(top="single-rank-jobs"),
        environment_of={0: {"RANK_WORLD_SIZE": "1"}, 1: {"RANK_WORLD_SIZE": "1", "RANK_RANK": "0"}},
        steps=INIT,
    ),
    Scenario(
        name="one-rank-on-purpose",
        broken="nothing: one process, one GPU",
        verdict=Verdict(never=("single-rank-jobs",)),
        nodes=1,
        hardware=NO_ADAPTER,
    ),
    Scenario(
        name="ras-port-in-use",
        broken="another program has the port of the RAS thread",
        verdict=Verdict(network="ib", also=("ras-port-in-use",)),
        hardware=IB,
        environment=GPUDIRECT,
        prepare={0: _TAKE_RAS_PORT},
        since=(2, 24, 0),
        proof="RAS.*(Address already in use|failed)",
    ),
    Scenario(
        name="versions-differ-old",
        broken="rank 1 has another release of NCCL",
        verdict=Verdict(top="version-mismatch"),
        mix=("2.18.3", "2.27.5"),
        steps=INIT,
    ),
    Scenario(
        name="versions-differ-middle",
        broken="rank 1 has another release of NCCL",
        verdict=Verdict(top="version-mismatch"),
        mix=("2.21.5", "2.27.5"),
        steps=INIT,
    ),
    Scenario(
        name="versions-differ-new",
        broken="rank 1 has another release of NCCL",
        verdict=Verdict(top="version-mismatch"),
        mix=("2.27.5", "2.30.7"),
        steps=INIT,
    ),
    Scenario(
        name="quiet",
        broken="NCCL_DEBUG=WARN: the log tells nothing of the network",
        verdict=Verdict(unknown=True, also=("log-too-quiet",)),
        hardware=NO_ADAPTER,
        environment={"NCCL_DEBUG": "WARN"},
        steps=RUN,
    ),
)
