"""Which machine and which network a host is, so that two names of one host are told from two hosts."""

from __future__ import annotations

import os

from .files import first_line

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NETWORK = "/proc/self/ns/net"


def boot_id() -> str:
    """The id that the kernel took when it started; empty where it cannot be read. Copied disks do not share it."""
    return first_line(_BOOT_ID) or ""


def network_id() -> str:
    """The boot and the network namespace, the same for all names of a host; empty where either cannot be read.

    Containers of one machine share its boot id but have network namespaces of their own.
    """
    boot = boot_id()
    try:
        namespace = os.readlink(_NETWORK)
    except OSError:
        return ""
    return f"{boot} {namespace}" if boot else ""
