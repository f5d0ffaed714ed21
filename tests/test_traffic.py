"""Byte counters of network devices, and what they say was moved."""

import socket
import threading
from pathlib import Path

from raybench.traffic import read_counters, traffic_between


def write(root: Path, path: str, value: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(value)


def machine(root: Path) -> Path:
    write(root, "net/eth0/statistics/tx_bytes", "100\n")
    write(root, "net/eth0/statistics/rx_bytes", "7\n")
    write(root, "infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000\n")
    write(root, "infiniband/mlx5_0/ports/1/counters/port_rcv_data", "250\n")
    write(root, "infiniband/rdmap0s6/ports/1/hw_counters/tx_bytes", "64\n")
    write(root, "infiniband/rdmap0s6/ports/1/hw_counters/rx_bytes", "32\n")
    write(root, "infiniband/rxe0/ports/1/hw_counters/sent_pkts", "9\n")
    return root


def test_infiniband_counts_words_and_the_others_bytes(tmp_path: Path) -> None:
    assert read_counters(machine(tmp_path)) == {
        "eth0": {"sent_bytes": 100, "received_bytes": 7},
        "mlx5_0:1": {"sent_bytes": 4000, "received_bytes": 1000},
        "rdmap0s6:1": {"sent_bytes": 64, "received_bytes": 32},
    }


def test_a_counter_that_cannot_be_read_is_no_zero(tmp_path: Path) -> None:
    write(machine(tmp_path), "net/eth0/statistics/rx_bytes", "N/A\n")
    assert "eth0" not in read_counters(tmp_path)


def test_a_device_that_appeared_or_was_reset_moved_an_unknown_amount() -> None:
    before = {"eth0": {"sent_bytes": 5, "received_bytes": 5}, "eth1": {"sent_bytes": 9, "received_bytes": 9}}
    after = {
        "eth0": {"sent_bytes": 8, "received_bytes": 5},
        "eth1": {"sent_bytes": 1, "received_bytes": 20},
        "eth2": {"sent_bytes": 1, "received_bytes": 1},
    }
    assert traffic_between(before, after) == {"eth0": {"sent_bytes": 3, "received_bytes": 0}}


def test_loopback_counts_what_a_socket_sends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        before = read_counters()
        sender = threading.Thread(target=client.sendall, args=(bytes(300_000),))
        sender.start()
        left = 300_000
        while left:
            left -= len(peer.recv(2**16))
        sender.join()
        peer.close()
        assert traffic_between(before, read_counters())["lo"]["sent_bytes"] >= 300_000
