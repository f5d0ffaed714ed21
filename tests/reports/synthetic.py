"""Results of clusters that nobody here has: any number of nodes and GPUs, seeded, with what goes wrong on real ones.

One rank with other OMP threads, three nodes with an older NCCL, one slow node, nodes that were lost, findings that name
thousands of ranks: what a report has to group, and must not lose.
"""

import random
from collections.abc import Iterator
from typing import Any

from diagnostics.findings import Finding
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.part import document_as
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import ClusterInfo, DroppedNode, NodeInfo
from raybench.documents.run.point import Expected, Point
from raybench.documents.run.result import RunResult
from raybench.rounds import disjoint_rounds
from tests.found import found

SIZES = tuple(8 * 2**power for power in range(25))
FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "broadcast": 1.0}
NICS = tuple(f"mlx5_{index}:1" for index in range(8))
PAIR_ROUNDS = 7  # of the point-to-point matrix of a large cluster: all of them would be 64 million pairs of 8000 ranks
PAIR_BYTES = 4 * 2**20


def synthetic_result(nodes: int, per_node: int = 8, *, seed: int = 10) -> RunResult:
    """A run of five collectives over 25 sizes and of pairs, on ``nodes`` x ``per_node`` GPUs."""
    source = random.Random(seed)
    cluster = synthetic_cluster(nodes, per_node, source)
    sweeps = tuple(_sweep(name, cluster.world_size, source) for name in FACTORS)
    return RunResult(
        run_id="20261122-064155-5ca1",
        status="partial",
        started_at="2026-11-22T06:41:55+00:00",
        finished_at="2026-11-22T06:59:12+00:00",
        cluster=cluster,
        versions={"raybench": "0.1.0", "python": "3.11.7", "ray": "2.60.0", "torch": "2.9.0", "nccl": "2.28.3"},
        variables={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH"},
        config={"sizes": "8:128M:2", "suite": "collectives,p2p_matrix", "nodes": nodes},
        benchmarks=(*sweeps, _pairs(cluster, per_node, source)),
        findings=tuple(_findings(cluster, per_node)),
        timings={"total": 1037.2, "start": 21.4, "join": 3.2, "place": 6.1},
    )


def synthetic_diagnosis(nodes: int, per_node: int = 8) -> Diagnosis:
    """The diagnosis of the logs of such a run (raybench.diagnosis/1): a rank a row, and findings over many of them."""
    ranks = range(nodes * per_node)
    finding = {
        "rule": "gdr-missing",
        "severity": "warning",
        "confidence": "certain",
        "summary": f"GPUDirect RDMA is off on {len(ranks) // 2} of {len(ranks)} ranks",
        "explanation": "Every message passes through host memory.",
        "ranks": list(ranks[1::2]),
        "hosts": [f"node-{node:04}" for node in range(nodes)],
        "evidence": [
            {"file": f"nccl-rank-{rank}.log", "line": 41, "text": f"NCCL INFO Channel 00/0 : {rank} via NET/IB/0"}
            for rank in ranks[1::2]
        ],
        "recommendations": [{"action": "load-module", "text": "Load nvidia_peermem on each node.", "commands": []}],
    }
    content = {
        "schema": "raybench.diagnosis/1",
        "verdict": "warning",
        "network": "ib",
        "gdr": False,
        "tcp_fallback": False,
        "nccl_versions": ["2.28.3"],
        "world_size": len(ranks),
        "nodes": nodes,
        "ranks": [{"rank": rank, "host": f"node-{rank // per_node:04}", "network": "ib"} for rank in ranks],
        "findings": [finding],
        "rules_clear": [],
        "rules_cannot_tell": [],
        "lines": {"read": 900 * len(ranks), "nccl": 900 * len(ranks), "unreadable": 0},
    }
    return document_as(Diagnosis, content, "the diagnosis")


def synthetic_cluster(nodes: int, per_node: int, source: random.Random) -> ClusterInfo:
    """Nodes with the facts that a real one says of itself: some differ by design, a few by mistake."""
    lost = range(min(nodes, 100) // 20)
    dropped = (
        *(
            DroppedNode(node=f"node-{node * 7 + 1:04}", reason="its node actor did not answer for 15 s")
            for node in lost
        ),
        *(DroppedNode(node=f"spare-{node}", reason="it offers 4 GPUs of the 8 that were asked for") for node in lost),
    )
    return ClusterInfo(
        nodes=tuple(_node(number, per_node, source) for number in range(nodes)),
        world_size=nodes * per_node,
        backend="nccl",
        emulated=False,
        dropped=dropped,
    )


def _node(number: int, per_node: int, source: random.Random) -> NodeInfo:
    ranks = tuple(range(number * per_node, (number + 1) * per_node))
    address = f"10.1.{number // 250}.{number % 250 + 1}"
    gpus = [
        {
            "index": str(index),
            "uuid": f"GPU-{number:08x}-{index}",
            "name": "NVIDIA H100 80GB HBM3",
            "pci_bus_id": f"00000000:{index:02x}:00.0",
            "driver_version": "580.95.05",
            "memory_total": "81559",
        }
        for index in range(per_node)
    ]
    moved = int(4e11 * source.uniform(0.97, 1.03))
    facts: dict[str, Any] = {
        "hostname": f"node-{number:04}",
        "python": "3.11.7",
        "torch": "2.9.0",
        "nccl": "2.27.5" if number % 400 == 3 else "2.28.3",
        "driver": "580.95.05",
        "kernel": "5.15.0-130-generic",
        "cpu_count": 96 if number == 5 else 192,
        "niceness": 0,
        "tcp_congestion_control": "cubic",
        "interfaces": {"127.0.0.1": "lo", address: "eth0", f"fe80::{number:x}%eth0": "eth0"},
        "rdma_ports": [{"device": nic[:-2], "port": "1", "gbit": 400.0, "state": "ACTIVE"} for nic in NICS],
        "settings": {"NCCL_IB_HCA": "mlx5"},
        "gpus": gpus,
        "gpu_ids": list(range(per_node)),
        "node_id": f"{number:056x}",
        "traffic": {
            nic: {"sent_bytes": moved + index * 977, "received_bytes": moved - index * 977}
            for index, nic in enumerate(NICS)
        }
        | {
            "eth0": {"sent_bytes": 91_000, "received_bytes": 90_000},
            "lo": {"sent_bytes": 7_000_000, "received_bytes": 7_000_000},
        },
        "ranks": {str(rank): _rank(rank, rank % per_node, number, address) for rank in ranks},
    }  # fmt: skip
    return NodeInfo(name=f"node-{number:04}", address=address, ranks=ranks, gpu_count=per_node, facts=facts)


def _rank(rank: int, local_rank: int, node: int, address: str) -> dict[str, str]:
    return {
        "pid": str(20_000 + 13 * rank),
        "torch": "2.9.0",
        "niceness": "0",
        "omp_threads": "4" if rank == 17 else "1",
        "affinity": "24",
        "tcp_congestion_control": "cubic",
        "device": f"cuda:{local_rank}",
        "memlock": "65536" if rank % 1000 == 42 else "unlimited",
        "env.NCCL_DEBUG": "INFO",
        "env.NCCL_DEBUG_FILE": f"/tmp/raybench-{node:08x}/nccl-rank-{rank}.log",
        "env.NCCL_SOCKET_IFNAME": "=eth0",
        "env.OMP_NUM_THREADS": "1",
        "gpu": "NVIDIA H100 80GB HBM3",
        "gpu_memory_bytes": "85029158912",
        "gpu_uuid": f"{node:08x}-{local_rank}",
        "visible_gpus": "8",
        "nccl": "2.28.3",
        "cuda": "13.0",
    }


def _sweep(name: str, world_size: int, source: random.Random) -> BenchmarkResult:
    factor = FACTORS[name] * (world_size - 1) / world_size
    points = []
    for size in SIZES:
        seconds = 40e-6 + size / 380e9
        launches = ((tuple(tuple(seconds * source.lognormvariate(0, 0.02) for _ in range(20)) for _ in range(5))),)
        points.append(
            Point(
                message_bytes=size,
                element_count=size // 4,
                bus_factor=factor,
                launches=launches,
                rank_seconds=tuple(seconds * source.uniform(0.98, 1.0) for _ in range(world_size)),
                verified=True,
                wrong_elements=0,
                expected=Expected(bus_gb_per_s=370.0, limit=0.8, basis="8 ports of 400 Gb/s a node, ring"),
            )
        )
    parameters = {"dtype": "float32", "reduce_op": "sum", "root": None, "in_place": False}
    return BenchmarkResult(name=name, kind="collective", parameters=parameters, status="complete", points=tuple(points))


def _pairs(cluster: ClusterInfo, per_node: int, source: random.Random) -> BenchmarkResult:
    """Every pair of up to 80 ranks; of more the first rounds, as a run that was stopped leaves them."""
    count = cluster.world_size
    whole = count <= 80
    rounds = disjoint_rounds(count) if whole else first_rounds(count, PAIR_ROUNDS)
    pairs = [ends for one in rounds for pair in one for ends in (pair, pair[::-1])]
    return BenchmarkResult(
        name="p2p_matrix",
        kind="p2p",
        parameters={"dtype": "float32"},
        status="complete" if whole else "partial",
        reason=None if whole else "the time limit of the run is over",
        points=tuple(_pair(ends, per_node, source) for ends in pairs),
    )


def first_rounds(count: int, rounds: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """The first rounds of ``disjoint_rounds`` of an even count, without making them all."""
    seats = list(range(count))
    for _ in range(rounds):
        half = count // 2
        yield tuple((min(ends), max(ends)) for ends in zip(seats[:half], reversed(seats[half:]), strict=True))
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _pair(ends: tuple[int, int], per_node: int, source: random.Random) -> Point:
    one, other = (rank // per_node for rank in ends)
    seconds = 12e-6 + PAIR_BYTES / (300e9 if one == other else 45e9 * (0.4 if 6 in {one, other} else 1.0))
    samples = ((tuple(seconds * source.lognormvariate(0, 0.02) for _ in range(5)),),)
    return Point(
        message_bytes=PAIR_BYTES,
        element_count=PAIR_BYTES // 4,
        bus_factor=1.0,
        launches=samples,
        rank_seconds=(seconds, seconds),
        ranks=ends,
        verified=True,
        wrong_elements=0,
        source_rank=ends[0],
        destination_rank=ends[1],
    )


def _findings(cluster: ClusterInfo, per_node: int) -> Iterator[Finding]:
    names = [node.name for node in cluster.nodes]
    yield found(
        rule="slow-node",
        severity="critical",
        confidence="likely",
        summary=f"{names[6 % len(names)]} reaches 0.40 x the median of pairs between nodes",
        ranks=list(cluster.nodes[6 % len(names)].ranks),
        hosts=[names[6 % len(names)]],
        recommendations=[{"action": "fabric", "text": "Test its NICs alone.", "commands": ["raybench fabric"]}],
    )
    yield found(
        rule="slow-ranks",
        severity="warning",
        summary=f"{cluster.world_size // 2} ranks took longer than the median by 10 %",
        ranks=list(range(0, cluster.world_size, 2)),
        hosts=names,
    )
    for number in range(0, cluster.world_size, 4):
        yield found(
            rule="memlock-limit",
            severity="info",
            summary=f"rank {number} may pin 64 KiB only",
            explanation="RDMA registers its buffers within this limit.",
            ranks=[number],
            hosts=[names[number // per_node]],
            recommendations=[{"action": "memlock", "text": "Raise memlock.", "commands": ["ulimit -l unlimited"]}],
        )
