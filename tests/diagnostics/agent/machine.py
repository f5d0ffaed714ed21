"""A machine's /sys and /proc as files in a folder: RDMA ports, interfaces, and what the kernel says of the host."""

from pathlib import Path

PORT = {
    "state": "4: ACTIVE",
    "rate": "400 Gb/sec (4X NDR)",
    "counters/port_xmit_data": "1000",
    "counters/port_rcv_data": "250",
    "counters/symbol_error": "0",
    "counters/link_downed": "1",
    "counters/link_error_recovery": "0",
    "counters/port_rcv_errors": "0",
    "counters/port_xmit_discards": "0",
    "counters/port_xmit_wait": "77",
    "hw_counters/local_ack_timeout_err": "0",
    "hw_counters/out_of_sequence": "0",
    "hw_counters/packet_seq_err": "0",
    "hw_counters/rnr_nak_retry_err": "0",
    "hw_counters/np_cnp_sent": "5",
    "hw_counters/rp_cnp_handled": "6",
}
NIC = {
    "device/vendor": "0x15b3",
    "operstate": "up",
    "speed": "100000",
    "carrier_changes": "2",
    **{
        f"statistics/{name}": "0"
        for name in ("tx_errors", "rx_errors", "rx_crc_errors", "tx_dropped", "rx_dropped", "rx_missed_errors")
    },
    "statistics/tx_bytes": "100",
    "statistics/rx_bytes": "7",
}
PROC = {
    "stat": "cpu  100 0 50 1000 25 0 0 5 0 0\ncpu0 50 0 25 500 12 0 0 2 0 0\ncpu1 50 0 25 500 13 0 0 3 0 0\nintr 1 2\n",
    "loadavg": "0.50 0.40 0.30 1/100 4242\n",
    "meminfo": "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 100 kB\nSwapFree: 90 kB\n",
    "vmstat": "nr_free_pages 1\npswpin 3\npswpout 4\noom_kill 1\n",
    "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "diskstats": " 259 0 nvme0n1 1 0 10 1 2 0 20 1 0 1500 1\n"
    " 259 1 nvme0n1p1 1 0 8 1 1 0 8 1 0 1 1\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n",
    "net/snmp": "Ip: Forwarding\nIp: 1\nTcp: OutSegs RetransSegs\nTcp: 1000 7\n",
    "net/netstat": "TcpExt: SyncookiesSent TCPDSACKRecvSegs\nTcpExt: 0 5\nIpExt: InNoRoutes\nIpExt: 1\n",
}


def write(root: Path, path: str, text: object) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"{text}\n")


def port(root: Path, device: str, **changed: object) -> Path:
    """An RDMA device with one port, below root/sys; ``changed`` by the last part of the file's name."""
    folder = root / "sys/class/infiniband" / device / "ports/1"
    for name, text in PORT.items():
        write(folder, name, changed.get(name.rsplit("/", maxsplit=1)[-1], text))
    return folder


def nic(root: Path, device: str) -> Path:
    folder = root / "sys/class/net" / device
    for name, text in NIC.items():
        write(folder, name, text)
    return folder


def machine(root: Path, ports: int = 1) -> Path:
    """A whole machine."""
    for number in range(ports):
        port(root, f"mlx5_{number}")
    nic(root, "eth0")
    write(root / "sys/class/net/lo", "statistics/tx_bytes", 1)
    for name, text in PROC.items():
        write(root / "proc", name, text.rstrip("\n"))
    return root
