"""Studies over nodes with two networks of known rates: the speedup that the shaping predicts, and lies found out.

Each node has eth0, on which Ray lives, and eth1, on a switch of its own.
"""

import os
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from raybench.studies.scaling import PROJECTED_NODES
from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.lab.network import address_of, burst_bytes, ip
from tests.lab_study import lab_study

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timeout(600)]
PAYLOAD_SHARE = 1448 / 1514  # of an Ethernet frame, with TCP timestamps
SLOW_BITS, FAST_BITS = 20e6, 200e6
TRAINING = (
    "train", "--model", "mlp", "--hidden-dims", "512,256,128", "--steps", "3", "--warmup-steps", "1",
    "--overlap-steps", "2", "--no-verify",
)  # fmt: skip


@pytest.fixture(scope="module")
def two_rails() -> Iterator[Lab]:
    """Nodes with two rails, eth0 ten times slower than eth1: as many as its tests need."""
    require_lab()
    with Lab(nodes=4 if "RAYBENCH_LONG_TESTS" in os.environ else 2, rails=2) as lab:
        lab.start_ray()
        for node in lab.nodes:
            lab.shape(node, f"{SLOW_BITS / 1e6:.0f}mbit", rail=0)
            lab.shape(node, f"{FAST_BITS / 1e6:.0f}mbit", rail=1)
        yield lab


def point_of(result: dict[str, Any]) -> dict[str, Any]:
    point: dict[str, Any] = result["benchmarks"][0]["points"][0]
    return point


def gradient_bytes(result: dict[str, Any]) -> int:
    """Of all gradients in float32."""
    return 4 * int(point_of(result)["facts"]["trainable_parameters"])


def link_seconds(message_bytes: float, bits_per_second: float) -> float:
    return message_bytes / (bits_per_second / 8 * PAYLOAD_SHARE)


@pytest.mark.alone  # its figures are those of links and of what is computed beside them
@pytest.mark.long
def test_the_speedup_is_what_shaping_and_computation_predict(two_rails: Lab) -> None:
    study = lab_study(
        two_rails,
        "network",
        "--networks",
        "slow=eth0,fast=eth1",
        "--repeats",
        "3",
        workload=(*TRAINING, "--nodes", "2", "--keep-warm", "60"),
    )
    assert study.status == 0, study.errors
    answer = study.content["answer"]
    assert {name: proof["verdict"] for name, proof in answer["proofs"].items()} == {"slow": "proved", "fast": "proved"}
    assert "eth1 carried" in answer["proofs"]["fast"]["seen"]
    fast = study.results("fast")  # the computation is the same on both: a tenth of the seconds to find it in
    message = gradient_bytes(fast[0])  # over two ranks all_reduce sends the whole message once each way
    compute = median(map(unsynchronised_seconds, fast))
    predicted = (compute + gradient_seconds(message, SLOW_BITS)) / (compute + gradient_seconds(message, FAST_BITS))
    (speedup,) = answer["speedups"]
    print(f"speedup {speedup['ratio']['value']:.2f}, predicted {predicted:.2f}, compute {compute * 1e3:.1f} ms")
    assert speedup["ratio"]["value"] == pytest.approx(predicted, rel=0.1)
    assert speedup["verdict"].startswith("worth it")
    assert speedup["exposed_ratio"]["value"] > 5
    assert "proved" in study.out
    assert "EMULATED" not in study.out


def gradient_seconds(message_bytes: int, bits_per_second: float) -> float:
    """A message over a shaped link that was idle while the ranks computed: what its bucket holds goes at once."""
    at_once = burst_bytes(round(bits_per_second)) * PAYLOAD_SHARE
    return link_seconds(max(0.0, message_bytes - at_once), bits_per_second)


def unsynchronised_seconds(result: dict[str, Any]) -> float:
    """A step without its communication, measured: the exposed share is the difference to steps under no_sync."""
    point = point_of(result)
    return float(point["seconds"]["median"] - point["communication"]["exposed_seconds"]["differencing"])


def test_runs_on_another_network_than_their_name_says_are_refused(two_rails: Lab) -> None:
    """Each rank is told eth1, and binds to its address; routes send what it says over eth0 all the same."""
    for node in two_rails.nodes[:2]:
        two_rails.shape(node, None, rail=0)
        subnet = f"{address_of(1, 1).rsplit('.', 2)[0]}.0.0/16"
        ip(node.machine.init_pid, f"route replace {subnet} dev eth0 src {address_of(node.number, 1)}")
    try:
        study = lab_study(
            two_rails, "network", "--networks", "good=eth0,bad=eth1,rdma", "--repeats", "1",
            workload=("run", "--suite", "all_reduce", "--sizes", "1M", "--nodes", "2", "--keep-warm", "60"),
        )  # fmt: skip
    finally:
        for node in two_rails.nodes[:2]:
            two_rails.shape(node, f"{SLOW_BITS / 1e6:.0f}mbit", rail=0)
            ip(node.machine.init_pid, f"route replace {subnet} dev eth1 src {address_of(node.number, 1)}")
    assert study.status == 1, study.errors
    answer = study.content["answer"]
    assert answer["refused"] == ["bad", "rdma"]
    assert answer["speedups"] == []
    assert [row["network"] for row in answer["networks"]] == ["good"]
    assert "bad is refused: its runs did not use that network (on node1 eth1 carried 0%, eth0 most" in study.out
    assert "rdma is refused: its runs did not use that network (TCP, by the gloo backend" in study.out


@pytest.mark.alone  # its figures are those of links and of what is computed beside them
@pytest.mark.long
def test_scaling_over_one_two_and_four_nodes(two_rails: Lab) -> None:
    study = lab_study(
        two_rails, "scaling", "--nodes", "1,2,4", "--mode", "weak", "--repeats", "1", "--price", "0.60", "--full",
        workload=TRAINING,
    )  # fmt: skip
    assert study.status == 0, study.errors
    (mode,) = study.content["answer"]["modes"]
    assert [(row["nodes"], row["world_size"]) for row in mode["rows"]] == [(1, 1), (2, 2), (4, 4)]
    for row in mode["rows"]:
        assert row["samples_per_s"] == pytest.approx(
            row["batch_size_per_rank"] * row["world_size"] / row["step_seconds"]
        )
        assert row["efficiency"]["value"] == pytest.approx(row["speedup"]["value"] / row["nodes"])
        assert row["cost"]["per_1k_samples"] == pytest.approx(row["nodes"] * 0.6 * 1000 / row["samples_per_s"] / 3600)
    assert mode["rows"][2]["band"].startswith("poor")
    assert "communication" in " ".join(mode["rows"][2]["causes"])
    message = gradient_bytes(study.results("weak-4")[0])
    assert [one["nodes"] for one in mode["projections"]] == list(PROJECTED_NODES)
    one, _, four = (row["step_seconds"] for row in mode["rows"])
    hop = max(0.0, four - simulated_ring(4, one, message, 0.0)) / 6  # 2(n-1) rounds: a busy machine wakes ranks late
    for projection in mode["projections"][:2]:
        truth = simulated_ring(projection["nodes"], one, message, hop)
        print(f"{projection['nodes']} nodes: projected {projection['step_seconds']:.3f} s, simulated {truth:.3f} s")
        assert projection["step_seconds"] == pytest.approx(truth, rel=0.2)
        assert projection["is_projection"]
    page = (study.folder / "study.html").read_text()
    assert page.count("<svg") >= 4
    assert "PROJECTION" in page
    assert "PROJECTION" in study.out


def simulated_ring(nodes: int, compute_seconds: float, message_bytes: int, hop_seconds: float) -> float:
    """Seconds of a step of so many nodes on links as fast as eth0: a ring all-reduce, chunk after chunk, hop by hop."""
    free = [compute_seconds] * nodes
    for _ in range(2 * (nodes - 1)):
        sent = [start + hop_seconds + link_seconds(message_bytes / nodes, SLOW_BITS) for start in free]
        free = [max(sent[rank], sent[rank - 1]) for rank in range(nodes)]
    return max(free)
