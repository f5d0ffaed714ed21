"""The ends of a fabric: each host's devices, links, addresses and tools, from what the module read on it. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_RATE = re.compile(r"([0-9.]+)\s*Gb/sec(?:\s*\((\d+)X\s*(\w+)\))?")
_SPEED = re.compile(r"([0-9.]+)\s*GT/s")
_MTU = re.compile(r"active_mtu:\s*(\d+)")
_OPTION = re.compile(r"--[a-z][a-z0-9_-]+")
_LEFT_OUT = re.compile(r"(?:lo|docker|virbr|cni|veth|br-|flannel|cali|kube|tun|tap)")
EMULATED_DRIVERS = frozenset({"rdma_rxe", "siw"})
VIRTUAL_DRIVERS = frozenset({"virtio_net", "veth", "vmxnet3", "hv_netvsc", "xen_netfront", "e1000", "8139cp", "tun"})
# What a lane of InfiniBand carries of its signalling rate: 8b/10b up to QDR, 64b/66b in FDR; from EDR on the rate that
# the kernel gives is already that of the data (InfiniBand Architecture, volume 2, chapter 5).
_IB_ENCODING = {"SDR": 0.8, "DDR": 0.8, "QDR": 0.8, "FDR": 64 / 66}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """An entry of a port's GID table."""

    index: int
    gid: str
    kind: str | None
    netdev: str | None

    @property
    def preference(self) -> int:
        """How well it suits RoCE, 0 best: v2 with an IPv4 address, v2 with a global IPv6 one, v2 link-local, v1."""
        if self.kind != "RoCE v2":
            return 3
        if self.gid.startswith("0000:0000:0000:0000:0000:ffff:"):
            return 0
        return 2 if self.gid.startswith("fe80:") else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PciLink:
    """The narrowest link between a NIC and the root: ``gt_per_s`` a lane, ``width`` lanes, where it is."""

    gt_per_s: float
    width: int
    address: str
    max_payload_bytes: int | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One port of an RDMA device, or a network interface (``verbs`` False)."""

    name: str
    number: int
    verbs: bool
    active: bool
    state: str
    rate_gbit_per_s: float | None
    rate_text: str
    ethernet: bool
    driver: str | None
    mtu: int | None
    pci: PciLink | None
    gids: tuple[Gid, ...] = ()
    iwarp: bool = False
    counters: tuple[str, ...] = ()

    @property
    def emulated(self) -> bool:
        """Whether it is software alone, with no NIC behind it."""
        return self.driver in EMULATED_DRIVERS if self.verbs else self.pci is None and self.driver is None

    @property
    def rate_is_real(self) -> bool:
        """Whether the rate that the kernel gives is a link's: virtual and software devices make one up."""
        return not self.emulated and self.driver not in VIRTUAL_DRIVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A test program of a host."""

    path: str
    version: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A host that answered. ``interface`` carries ``address``; ``options`` are the inventory's, for this host.

    ``gpus`` are PCI paths in the order in which test programs number them; all are ``gpu_vendor``'s (nvidia, amd).

    ``boot_id`` is the same for all that runs on one machine, ``network_id`` for all that shares its network too; empty
    where it is not known.
    """

    name: str
    address: str | None
    control_port: int | None
    interface: str | None
    verbs: tuple[Port, ...]
    interfaces: tuple[Port, ...]
    tools: Mapping[str, Tool]
    gpus: tuple[str, ...]
    options: Mapping[str, Any]
    boot_id: str = ""
    network_id: str = ""
    gpu_vendor: str = "nvidia"


def end_from(name: str, found: Mapping[str, Any], options: Mapping[str, Any]) -> End:
    """A host's end from what ``raybench_fabric: state=discovered`` returned and the inventory's variables.

    Variables: ``fabric_address``, ``fabric_interface``, ``fabric_devices``, ``fabric_leaf``, ``ansible_host``.
    """
    address, interface = _address(found.get("addresses") or (), options)
    port = found.get("control_port")
    return End(
        name=name,
        address=address,
        control_port=int(port) if port is not None else None,
        interface=interface,
        verbs=tuple(_verbs_port(entry) for entry in found.get("devices") or ()),
        interfaces=tuple(_network_port(entry) for entry in found.get("interfaces") or ()),
        tools={tool: _tool(entry) for tool, entry in (found.get("tools") or {}).items()},
        gpus=tuple(map(str, found.get("gpus") or ())),
        options=options,
        boot_id=str(found.get("boot_id") or ""),
        network_id=str(found.get("network_id") or ""),
        gpu_vendor="amd" if found.get("gpu_vendor") == "amd" else "nvidia",
    )


def tool_options(help_text: str) -> frozenset[str]:
    """Long options that a tool's ``--help`` names. ``--use_cuda``, ``--use_rocm``: memory of such GPUs is built in."""
    return frozenset(_OPTION.findall(help_text))


def choose_gid(gids: Sequence[Gid]) -> Gid | None:
    """The GID that RoCE traffic should use, the lowest index of the best kind; None where the table has none."""
    return min(gids, key=lambda gid: (gid.preference, gid.index), default=None)


def data_rate(text: str | None, *, ethernet: bool) -> float | None:
    """Gb/s of data of a link from sysfs's ``rate``, such as ``100 Gb/sec (4X EDR)``; None where it says none."""
    match = _RATE.search(text or "")
    if match is None:
        return None
    return float(match[1]) * (1.0 if ethernet else _IB_ENCODING.get(match[3] or "", 1.0))


def pci_link(found: Mapping[str, Any] | None) -> PciLink | None:
    """The narrowest known link of a NIC's path; None where the kernel knows none, as for a virtual function."""
    known = []
    for link in (found or {}).get("links") or ():
        speed, width = _SPEED.search(str(link.get("speed") or "")), str(link.get("width") or "")
        if speed and width.isdecimal() and int(width) > 0:
            known.append((float(speed[1]) * int(width), float(speed[1]), int(width), str(link.get("address"))))
    if found is None or not known:
        return None
    _, speed_gt, lanes, address = min(known)
    payload = found.get("max_payload_bytes")
    return PciLink(
        gt_per_s=speed_gt,
        width=lanes,
        address=address,
        max_payload_bytes=int(payload) if payload else None,
        path=str(found.get("path", "")),
    )


def _verbs_port(entry: Mapping[str, Any]) -> Port:
    ethernet = entry.get("link_layer") == "Ethernet"
    state, physical = str(entry.get("state") or ""), str(entry.get("phys_state") or "")
    mtu = _MTU.search(str(entry.get("info") or ""))
    gids = tuple(
        Gid(index=int(gid["index"]), gid=str(gid["gid"]), kind=gid.get("type"), netdev=gid.get("netdev"))
        for gid in entry.get("gids") or ()
    )
    return Port(
        name=str(entry["name"]),
        number=int(entry["port"]),
        verbs=True,
        active=state.endswith("ACTIVE"),
        state=", ".join(part.partition(": ")[2] or part for part in (state, physical) if part) or "unknown",
        rate_gbit_per_s=data_rate(entry.get("rate"), ethernet=ethernet),
        rate_text=str(entry.get("rate") or "unknown"),
        ethernet=ethernet,
        driver=entry.get("driver"),
        mtu=int(mtu[1]) if mtu else None,
        pci=pci_link(entry.get("pci")),
        gids=gids,
        iwarp="iWARP" in str(entry.get("info") or ""),
        counters=tuple(map(str, entry.get("counters") or ())),
    )


def _network_port(entry: Mapping[str, Any]) -> Port:
    speed = entry.get("speed_mbit")
    return Port(
        name=str(entry["name"]),
        number=1,
        verbs=False,
        active=entry.get("state") in {"up", "unknown"},
        state=str(entry.get("state") or "unknown"),
        rate_gbit_per_s=speed / 1000 if isinstance(speed, int) and speed > 0 else None,
        rate_text=f"{speed} Mb/s" if isinstance(speed, int) and speed > 0 else "unknown",
        ethernet=True,
        driver=entry.get("driver"),
        mtu=entry.get("mtu"),
        pci=pci_link(entry.get("pci")),
        counters=tuple(map(str, entry.get("counters") or ())),
    )


def _tool(entry: Mapping[str, Any]) -> Tool:
    return Tool(
        path=str(entry["path"]),
        version=str(entry.get("version") or ""),
        options=tool_options(str(entry.get("help") or "")),
    )


def _address(addresses: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The address at which other hosts reach this one, and its interface."""
    interface_of = {str(entry["address"]): str(entry["interface"]) for entry in addresses}
    wanted = options.get("fabric_address")
    if wanted:
        return str(wanted), interface_of.get(str(wanted))
    through = options.get("fabric_interface")
    if through:
        return next(
            ((address, name) for address, name in interface_of.items() if name == through), (None, str(through))
        )
    ours = str(options.get("ansible_host") or "")
    if ours in interface_of:
        return ours, interface_of[ours]
    usable = [entry for entry in addresses if not _LEFT_OUT.match(str(entry["interface"]))]
    usable.sort(key=lambda entry: entry.get("family") != "inet")
    return (str(usable[0]["address"]), str(usable[0]["interface"])) if usable else (None, None)
