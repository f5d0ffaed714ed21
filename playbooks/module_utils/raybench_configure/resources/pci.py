"""PCI Express access control services (ACS), read from configuration space."""

from __future__ import annotations

import struct

from ..errors import HostError
from ..host import Host
from .resource import Resource, State

_ACS = 0x000D  # PCI Express extended capability id
_FIRST_EXTENDED = 0x100
_BRIDGE = "0x0604"
# Bits of the ACS control register that send peer-to-peer traffic up to the root complex (PCIe 5.0, 7.7.11.3):
# source validation, translation blocking, request redirect, completion redirect, upstream forwarding.
REDIRECTING = 0b0001_1111


class AccessControlResource(Resource):
    """The ACS control register of a bridge, by its address. State: control, an integer."""

    kind = "acs"

    def read(self, host: Host) -> State:
        """The register; None where the bridge has no such capability or it cannot be read."""
        try:
            space = host.path(f"/sys/bus/pci/devices/{self.target}/config").read_bytes()
        except OSError:
            return None
        offset = access_control_offset(space)
        return None if offset is None else {"control": struct.unpack_from("<H", space, offset + 6)[0]}

    def write(self, host: Host, state: State) -> None:
        """Write it with setpci, which is what the unit for later boots does too. Raises HostError."""
        control = (state or {}).get("control", 0)
        answer = host.run("setpci", "-s", self.target, f"ECAP_ACS+0x6.w={control:04x}")
        if answer.status:
            raise HostError(f"setpci -s {self.target}: {answer.reason}")


def access_control_offset(space: bytes) -> int | None:
    """Where the ACS capability lies in a configuration space of 4096 bytes, or None.

    The list of extended capabilities begins at 0x100; each header holds the id (16 bits), a version (4 bits) and where
    the next one lies (12 bits). Only the first 64 bytes are there for a reader who is not root.
    """
    offset, seen = _FIRST_EXTENDED, set()
    while _FIRST_EXTENDED <= offset <= len(space) - 8 and offset not in seen:
        seen.add(offset)
        header = struct.unpack_from("<I", space, offset)[0]
        if header & 0xFFFF == _ACS:
            return offset
        offset = header >> 20 & 0xFFC
    return None


def redirecting_bridges(host: Host) -> dict[str, int]:
    """Bridges whose ACS sends peer-to-peer traffic through the root complex: control register by address."""
    found = {}
    for path in host.glob("/sys/bus/pci/devices/*"):
        if host.word(f"{path}/class").startswith(_BRIDGE):
            address = path.rsplit("/", 1)[1]
            control = (AccessControlResource(address).read(host) or {"control": 0})["control"]
            if control & REDIRECTING:
                found[address] = control
    return found
