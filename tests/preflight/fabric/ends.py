"""Hosts made up for tests, in the form in which the module describes a real one."""

from typing import Any

from raybench.preflight.fabric.conduct import Reply


def verbs_device(name: str, **changes: Any) -> dict[str, Any]:
    """An NDR port of a ConnectX-7 in a PCIe 5.0 x16 slot."""
    links = [{"address": "0000:17:00.0", "speed": "32.0 GT/s PCIe", "width": "16"}]
    return {
        "name": name,
        "port": 1,
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "driver": "mlx5_core",
        "info": "\t\t\tactive_mtu:\t\t4096 (5)\n",
        "gids": [{"index": 0, "gid": "fe80:0000:0000:0000:b859:9f03:00aa:0001", "type": None, "netdev": None}],
        "pci": {"path": "/sys/devices/pci0000:15/0000:17:00.0", "links": links, "max_payload_bytes": 256},
        "counters": [f"/sys/class/infiniband/{name}/ports/1/counters"],
    } | changes


def found(
    *devices: dict[str, Any],
    address: str = "10.0.0.1",
    tools: tuple[str, ...] = ("ib_write_bw", "ib_write_lat", "iperf3"),
) -> dict[str, Any]:
    """What the module returns of a host."""
    return {
        "hostname": "somewhere",
        "devices": list(devices),
        "interfaces": [{"name": "eth0", "state": "up", "speed_mbit": 25000, "mtu": 9000, "driver": "mlx5_core",
                        "pci": {"path": "/p", "links": [{"address": "a", "speed": "8.0 GT/s PCIe", "width": "8"}]},
                        "counters": ["/sys/class/net/eth0/statistics"]}],
        "addresses": [{"interface": "docker0", "family": "inet", "address": "172.17.0.1"},
                      {"interface": "eth0", "family": "inet", "address": address}],
        "gpus": [],
        "tools": {tool: {"path": f"/usr/bin/{tool}", "version": "6.22", "help": ""} for tool in tools},
        "control_port": 18500,
    }  # fmt: skip


def reply(name: str, end: dict[str, Any] | None, **options: Any) -> Reply:
    """A host's answer."""
    return Reply(name=name, end=end, problem="" if end else "unreachable", options=options)
