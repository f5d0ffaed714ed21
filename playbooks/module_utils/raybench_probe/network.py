"""Addresses of this host and the interface of its default route."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

_SIOCGIFADDR = 0x8915
_GLOBAL_SCOPE = "00"


def default_interface() -> str | None:
    """The interface of the default route, IPv4's before IPv6's; None where there is none."""
    rows = _rows("/proc/net/route")[1:]
    found = next((row[0] for row in rows if len(row) > 7 and row[1] == "00000000"), None)
    if found is None and os.path.exists("/proc/net/ipv6_route"):
        rows = [row for row in _rows("/proc/net/ipv6_route") if len(row) > 9]
        found = next((row[9] for row in rows if row[0] == "0" * 32 and row[1] == "00" and row[9] != "lo"), None)
    return found


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
