"""What RDMA tools print: ``ibstat``, ``rdma link``, ``mlnx_qos``."""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of a channel adapter, as ``ibstat`` or sysfs tells it. ``rate_gbits`` is that of the link."""

    device: str
    number: int
    device_type: str = ""
    firmware: str = ""
    state: str = ""
    physical_state: str = ""
    rate_gbits: float | None = None
    lid: int | None = None
    sm_lid: int | None = None
    link_layer: str = ""

    @property
    def name(self) -> str:
        """``mlx5_0/1``, as ``rdma link`` writes it."""
        return f"{self.device}/{self.number}"

    @property
    def is_ethernet(self) -> bool:
        """Whether the port speaks RoCE or iWARP rather than InfiniBand."""
        return self.link_layer == "Ethernet"


def parse_ibstat(text: str) -> tuple[Port, ...]:
    """Ports of ``ibstat``. ibsim says ``Link layer: IB`` where hardware says ``InfiniBand``. Sample (ConnectX-7)::

    CA 'mlx5_0'
            CA type: MT4129
            Firmware version: 28.40.1000
            Port 1:
                    State: Active
                    Physical state: LinkUp
                    Rate: 200
                    Base lid: 48
                    SM lid: 48
                    Link layer: InfiniBand
    """
    ports: list[Port] = []
    device: dict[str, str] = {}
    port: dict[str, str] | None = None
    found: list[tuple[dict[str, str], dict[str, str]]] = []
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        adapter = re.match(r"CA '([^']+)'", line.strip())
        if adapter:
            device, port = {"name": adapter[1]}, None
        elif re.fullmatch(r"Port \d+:?", line.strip(), re.IGNORECASE):
            port = {"number": line.strip().split()[1].rstrip(":")}
            if device:
                found.append((device, port))
        elif value and device:
            (device if port is None else port)[name] = value
    ports.extend(_port(device, port) for device, port in found)
    return tuple(ports)


def _port(device: Mapping[str, str], port: Mapping[str, str]) -> Port:
    layer = port.get("Link layer", "")
    return Port(
        device=device["name"],
        number=int(port["number"]),
        device_type=device.get("CA type", ""),
        firmware=device.get("Firmware version", ""),
        state=port.get("State", ""),
        physical_state=port.get("Physical state", ""),
        rate_gbits=_number(port.get("Rate", "")),
        lid=_integer(port.get("Base lid", "")),
        sm_lid=_integer(port.get("SM lid", "")),
        link_layer="InfiniBand" if layer == "IB" else layer,
    )


def ports_from_sysfs(values: Mapping[str, str | None]) -> tuple[Port, ...]:
    """Ports from files below ``/sys/class/infiniband``: state ``4: ACTIVE``, rate ``400 Gb/sec (4X NDR)``."""
    keys = sorted({tuple(path.split("/")[4:7:2]) for path in values if "/ports/" in path and path.endswith("/state")})
    return tuple(_sysfs_port(values, device, int(number)) for device, number in keys)


def _sysfs_port(values: Mapping[str, str | None], device: str, number: int) -> Port:
    base = f"/sys/class/infiniband/{device}"

    def read(name: str) -> str:
        return values.get(f"{base}/ports/{number}/{name}") or ""

    return Port(
        device=device,
        number=number,
        device_type=values.get(f"{base}/hca_type") or "",
        firmware=values.get(f"{base}/fw_ver") or "",
        state=read("state").partition(":")[2].strip().capitalize(),
        physical_state=read("phys_state").partition(":")[2].strip(),
        rate_gbits=_number(read("rate")),
        lid=_integer(read("lid")),
        sm_lid=_integer(read("sm_lid")),
        link_layer=read("link_layer"),
    )


_RDMA_LINK = re.compile(r"^(?:\d+/\d+: |link )([^\s/]+)/(\d{1,4}):? (.*)$", re.MULTILINE)


def parse_rdma_link(text: str) -> tuple[Port, ...]:
    """Ports of ``rdma link``, which gives no rate. Samples (iproute2 6.1, Soft-RoCE; 5.x, InfiniBand)::

    link rxe0/1 state DOWN physical_state POLLING netdev eth1
    link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP
    """
    return tuple(_linked_port(device, int(number), said.split()) for device, number, said in _RDMA_LINK.findall(text))


def _linked_port(device: str, number: int, words: list[str]) -> Port:
    told = dict(itertools.pairwise(words))
    return Port(
        device=device,
        number=number,
        state=told.get("state", "").capitalize(),
        physical_state="".join(part.capitalize() for part in told.get("physical_state", "").split("_")),
        lid=_integer(told.get("lid", "")),
        sm_lid=_integer(told.get("sm_lid", "")),
        link_layer="InfiniBand" if "subnet_prefix" in told else "Ethernet" if "netdev" in told else "",
    )


def parse_fi_info(text: str) -> dict[str, frozenset[str]]:
    """Devices by provider. Newer libfabric lists each once a fabric (libfabric 2.1, EFA)::

    provider: efa
        fabric: efa-direct
        domain: rdmap0s29-rdm
        type: FI_EP_RDM
    """
    found: dict[str, set[str]] = {}
    provider = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        if name == "provider":
            provider = value
        elif name == "domain" and provider:
            found.setdefault(provider, set()).add(re.sub(r"-(?:rdm|dgrm)$", "", value))
    return {name: frozenset(devices) for name, devices in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """Lossless settings of an interface. ``lossless`` are the priorities with PFC; None where it was not printed."""

    trust: str | None
    lossless: tuple[int, ...] | None
    priority_of_dscp: Mapping[int, int]


def parse_mlnx_qos(text: str) -> Qos:
    """Sample::

    DCBX mode: OS controlled
    Priority trust state: dscp
    dscp2prio mapping:
            prio:3 dscp:31,30,29,28,27,26,25,24,
    PFC configuration:
            priority    0   1   2   3   4   5   6   7
            enabled     0   0   0   1   0   0   0   0
    """
    trust = re.search(r"^Priority trust state:\s*(\w+)", text, re.MULTILINE)
    enabled = re.search(r"^PFC configuration:.*?^\s+enabled:?\s+((?:\d\s*)+)$", text, re.MULTILINE | re.DOTALL)
    mapping = {
        int(dscp): int(priority)
        for priority, values in re.findall(r"^\s+prio:(\d) dscp:([\d,]+)", text, re.MULTILINE)
        for dscp in values.split(",")
        if dscp
    }
    lossless = tuple(n for n, value in enumerate(enabled[1].split()) if value != "0") if enabled else None
    return Qos(trust=trust[1] if trust else None, lossless=lossless, priority_of_dscp=mapping)


def parse_dcb_pfc(text: str) -> tuple[int, ...] | None:
    """Priorities with flow control, of ``dcb -j pfc show``; None where it is not told. iproute2 has written two forms::

    {"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}
    {"pfc-cap":8,"prio-pfc":["off","off","off","on","off","off","off","off"]}
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = found[0] if isinstance(found, list) and found else found
    switches = found.get("prio_pfc", found.get("prio-pfc")) if isinstance(found, dict) else None
    if not isinstance(switches, list):
        return None
    return tuple(number for number, switch in enumerate(switches) if switch in {True, "on"})


def _number(text: str) -> float | None:
    match = re.match(r"[0-9.]+", text)
    return float(match[0]) if match else None


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
