"""Whose a listening port of this machine is, from the kernel's tables of TCP sockets."""

import contextlib
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from raybench.metadata import interfaces

_LISTEN = "0A"


def foreign_listener(address: str) -> int | None:
    """The user id of whoever listens at HOST:PORT of this machine and is neither this user nor root.

    None where nobody else does, and for an address of another machine, which cannot be looked at from here.
    """
    host, _, port = address.rpartition(":")
    own = _own_addresses(host.strip("[]"), int(port))
    owners = {uid for place, uid in _listening(int(port)) if own and (place in own or place.is_unspecified)}
    return next(iter(sorted(owners - {0, os.geteuid()})), None)


def _own_addresses(host: str, port: int) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses that a name or address means, as far as they are of this machine."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()
    parsed = {_plain(ipaddress.ip_address(str(one).partition("%")[0])) for one in found}
    here = {_plain(ipaddress.ip_address(one.partition("%")[0])) for one in interfaces()}
    return {one for one in parsed if one.is_loopback or one in here}


def _listening(port: int) -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Address and user id of every socket that listens on a port.

    A line of /proc/net/tcp: ``0: 0100007F:18EB 00000000:0000 0A ... UID``, addresses as words of the machine's order.
    """
    return [(_plain(_address(fields[1].rpartition(":")[0])), int(fields[7])) for fields in _sockets(port)]


def listening_inodes(port: int) -> set[int]:
    """The inodes of the sockets that listen on a port of this machine: their owners have them as ``socket:[INODE]``."""
    return {int(fields[9]) for fields in _sockets(port)}


def _sockets(port: int) -> Iterator[list[str]]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    words = (int(text[start : start + 8], 16) for start in range(0, len(text), 8))
    return ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
