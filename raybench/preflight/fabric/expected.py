"""What a pair should reach, from the links and PCIe slots of both ends, with the reason in words. Pure.

Link: the share of the wire's rate that is payload in full packets. InfiniBand adds LRH 8, BTH 12, ICRC 4 and VCRC 2
bytes; RoCE v2 adds preamble and gap 20, Ethernet 14 + 4, IPv4 20, UDP 8, BTH 12 and ICRC 4; TCP over IPv4 with
timestamps takes 52 bytes of the MTU and adds 38 of Ethernet.

PCIe: GT/s x lanes x encoding (8b/10b up to 5 GT/s, 128b/130b up to 32, 236 of 256 bytes of a flit at 64; PCI Express
Base 6.0), times payload over payload + 24 bytes a packet: 4 of framing and sequence, 16 of header, 4 of LCRC.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.preflight.fabric.ends import PciLink, Port

_IB_BYTES = 8 + 12 + 4 + 2
_ROCE_BYTES = 20 + 14 + 4 + 20 + 8 + 12 + 4
_TCP_INSIDE, _TCP_OUTSIDE = 52, 38
_PCI_PACKET_BYTES = 24
_ASSUMED_PAYLOAD_BYTES = 256
_ENCODING = ((5.0, 0.8), (32.0, 128 / 130), (float("inf"), 236 / 256))
_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
TCP_JUDGED_UP_TO_GBIT = 25.0  # beyond, one host's CPUs decide over TCP, not the link


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Gb/s of payload that a pair should reach. None where it is unknown; ``basis`` says from what, or why not."""

    gbit_per_s: float | None
    basis: str


def expected_bandwidth(source: Port, destination: Port) -> Expected:
    """What one direction between two ports can carry: the least of both links and both slots."""
    ports = (source, destination)
    if not all(port.rate_is_real for port in ports):
        return Expected(gbit_per_s=None, basis="virtual devices have no rate of their own: pairs are only compared")
    links = [_link(port) for port in ports]
    if any(link is None for link in links):
        return Expected(gbit_per_s=None, basis="the kernel gives no link rate: pairs are only compared")
    parts = [part for part in (*links, *(_slot(port.pci) for port in ports)) if part is not None]
    value, reason = min(parts)
    unknown = [port.name for port in ports if port.pci is None]
    note = f"; PCIe of {' and '.join(dict.fromkeys(unknown))} unknown" if unknown else ""
    others = "; ".join(text for _, text in sorted(parts) if text != reason)
    return Expected(gbit_per_s=value, basis=f"{reason}{f' (beside it: {_once(others)})' if others else ''}{note}")


def judged_by_expected(ports: Sequence[Port]) -> bool:
    """Whether falling short of what is expected is a fault: not for TCP over links that outrun a CPU."""
    return all(port.verbs or (port.rate_gbit_per_s or 0) <= TCP_JUDGED_UP_TO_GBIT for port in ports)


def pci_gbit_per_s(link: PciLink) -> float:
    """What a slot carries of payload in one direction."""
    encoding = next(share for fastest, share in _ENCODING if link.gt_per_s <= fastest)
    payload = link.max_payload_bytes or _ASSUMED_PAYLOAD_BYTES
    return link.gt_per_s * link.width * encoding * payload / (payload + _PCI_PACKET_BYTES)


def payload_share(port: Port) -> float:
    """Payload over wire bytes of a full packet. Where the MTU is unknown: 4096 over verbs, 1500 over TCP."""
    if not port.verbs:
        mtu = port.mtu or 1500
        return (mtu - _TCP_INSIDE) / (mtu + _TCP_OUTSIDE)
    mtu = port.mtu or 4096
    return mtu / (mtu + (_ROCE_BYTES if port.ethernet else _IB_BYTES))


def _link(port: Port) -> tuple[float, str] | None:
    if port.rate_gbit_per_s is None:
        return None
    mtu = f"MTU {port.mtu}" if port.mtu else "MTU unknown"
    value = port.rate_gbit_per_s * payload_share(port)
    return value, f"link of {port.name}, {port.rate_text}, {mtu}: {value:.1f} Gb/s of payload"


def _slot(link: PciLink | None) -> tuple[float, str] | None:
    if link is None:
        return None
    value = pci_gbit_per_s(link)
    generation = _GENERATION.get(link.gt_per_s)
    name = f"PCIe {generation}.0" if generation else f"PCIe {link.gt_per_s:g} GT/s"
    payload = f"{link.max_payload_bytes} B" if link.max_payload_bytes else f"{_ASSUMED_PAYLOAD_BYTES} B assumed"
    return value, f"{name} x{link.width} at {link.address}, max payload {payload}: {value:.1f} Gb/s"


def _once(text: str) -> str:
    return "; ".join(dict.fromkeys(text.split("; ")))
