"""Addresses of this host, its routes, and what its own name stands for."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

_SIOCGIFADDR = 0x8915
_GLOBAL_SCOPE = "00"
_UP, _GATEWAY = 0x1, 0x2


def default_interface() -> str | None:
    """The interface of the default route, IPv4's before IPv6's; None where there is none."""
    rows = _rows("/proc/net/route")[1:]
    found = next((row[0] for row in rows if len(row) > 7 and row[1] == "00000000"), None)
    if found is None and os.path.exists("/proc/net/ipv6_route"):
        rows = [row for row in _rows("/proc/net/ipv6_route") if len(row) > 9]
        found = next((row[9] for row in rows if row[0] == "0" * 32 and row[1] == "00" and row[9] != "lo"), None)
    return found


def routes() -> list[dict[str, str]]:
    """IPv4 routes that are up: {"interface", "network", "gateway", "metric"}; no gateway where hosts are neighbours.

    Sample of /proc/net/route, numbers in the host's byte order: ``eth0 00000000 0100000A 0003 0 0 100 00000000 0 0 0``.
    """
    found = []
    for row in _rows("/proc/net/route")[1:]:
        if len(row) > 7 and int(row[3], 16) & _UP:
            length = bin(int(row[7], 16)).count("1")
            gateway = _dotted(row[2]) if int(row[3], 16) & _GATEWAY else ""
            network = f"{_dotted(row[1])}/{length}"
            found.append({"interface": row[0], "network": network, "gateway": gateway, "metric": row[6]})
    return found


def _dotted(number: str) -> str:
    return socket.inet_ntoa(struct.pack("=I", int(number, 16)))


def own_name() -> dict[str, object]:
    """This host's name and the addresses that it stands for here; none where nothing knows it."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    return {"name": name, "addresses": sorted({str(one[4][0]).partition("%")[0] for one in found})}


def addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one, else a global IPv6 address."""
    found = _global_addresses()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name[:15].encode()))
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def _global_addresses() -> dict[str, str]:
    """A global IPv6 address of each interface that has one."""
    found: dict[str, str] = {}
    try:
        rows = _rows("/proc/net/if_inet6")
    except OSError:
        return {}
    for row in rows:
        if len(row) == 6 and row[3] == _GLOBAL_SCOPE:
            found.setdefault(row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])))
    return found


def _rows(path: str) -> list[list[str]]:
    with open(path, encoding="ascii", errors="replace") as file:
        return [line.split() for line in file]
