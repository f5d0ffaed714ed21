"""A port that retransmits or meets congestion far more than its peers is named; one that is only busy is not."""

from typing import Any

import pytest

from raybench.preflight.rdma_peers import peer_results

from .hosts import host

HOSTS = [f"h{number}" for number in range(5)]
PORTS = [f"mlx5_{number}" for number in range(4)]


def counters(hw: dict[str, int] | None = None, packets: int = 50_000_000) -> dict[str, int]:
    """What every port counts in a healthy cluster, where this is not said otherwise."""
    usual = {"req_cqe_error": 12, "req_cqe_flush_error": 12, "packet_seq_err": 0, "out_of_sequence": 40}
    usual |= {"local_ack_timeout_err": 3, "np_cnp_sent": 20_000, "rp_cnp_handled": 18_000}
    return {f"hw_counters/{name}": count for name, count in (usual | (hw or {})).items()} | {
        "counters/port_xmit_packets": packets, "counters/port_rcv_packets": packets,
    }  # fmt: skip


def told(changed: dict[tuple[str, str], dict[str, int]], hosts: list[str] = HOSTS) -> dict[str, str]:
    """What is seen of the hosts that are warned of."""
    views = {}
    for name in hosts:
        after = {
            f"{port}/ports/1/{path}": count
            for port in PORTS
            for path, count in (changed.get((name, port)) or counters()).items()
        }
        reading: dict[str, Any] = {"status": "ok", "before": after, "after": after, "seconds": 1.0}
        views[name] = host({"counters": reading})
    found = peer_results(views, dict.fromkeys(hosts, "H100"))
    assert {one.verdict for one in found.values()} <= {"pass", "warn", "skipped"}
    return {name: one.seen for name, one in found.items() if one.verdict == "warn"}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (counters({"out_of_sequence": 60_000}), "mlx5_2/1 out_of_sequence 60000: 1.2e+03 a million"),
        (counters({"local_ack_timeout_err": 4000}), "local_ack_timeout_err 4000"),
        (counters({"np_cnp_sent": 900_000}), "np_cnp_sent 900000"),
        (counters({"req_cqe_error": 9000, "req_cqe_flush_error": 20}), "req_cqe_error 8980"),
        (counters({"np_cnp_sent": 90_000}), ""),  # four times as much congestion as on its peers
        (counters({"out_of_sequence": 900}), ""),  # few
        (counters({"out_of_sequence": 2000}, packets=2_500_000_000), ""),  # a port that was used fifty times as much
        (counters({"req_cqe_error": 9000, "req_cqe_flush_error": 8990}), ""),  # connections that ended
        (counters({"np_cnp_sent": 5000, "out_of_sequence": 5000}, packets=900_000), ""),  # hardly used
    ],
)  # fmt: skip
def test_a_port_unlike_its_rail_on_other_hosts(changed: dict[str, int], says: str) -> None:
    seen = told({("h3", "mlx5_2"): changed})
    assert list(seen) == (["h3"] if says else [])
    assert says in seen.get("h3", "")


def test_a_rail_that_is_worse_everywhere_is_the_network_and_no_host() -> None:
    """Every host's port of a rail meets as much congestion: of one host alone its own ports are the peers."""
    congested = counters({"np_cnp_sent": 9_000_000})
    assert told({(name, "mlx5_1"): congested for name in HOSTS}) == {}
    assert "mlx5_1/1 np_cnp_sent" in told({("h0", "mlx5_1"): congested}, ["h0"])["h0"]


def test_two_hosts_that_are_worse_than_three_are_both_named() -> None:
    worse = counters({"packet_seq_err": 70_000})
    assert list(told({("h1", "mlx5_0"): worse, ("h4", "mlx5_0"): worse})) == ["h1", "h4"]
