"""``lspci -D -nn -vvv``, cut down to links, access control, read requests and drivers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_HEAD = re.compile(r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.+)$")
_CODES = re.compile(r"\[([0-9a-f]{4})\]: (.*?)\[([0-9a-f]{4}):([0-9a-f]{4})\]")

# MI100, MI250X, MI250, MI210: display controllers by their class, as the graphics of AMD's CPUs are.
_INSTINCT = frozenset({"738c", "738e", "7408", "740c", "740f"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """A device. ``*_gts`` is the transfer rate in GT/s a lane; None where lspci could not read it (not root).

    ``answers`` is False where every read gives ones: ``(rev ff)``, ``!!! Unknown header type 7f``.
    """

    address: str
    description: str
    class_code: str = ""
    vendor: str = ""
    product: str = ""
    driver: str = ""
    width: int | None = None
    width_capable: int | None = None
    speed_gts: float | None = None
    speed_capable_gts: float | None = None
    max_read_request: int | None = None
    acs_on: tuple[str, ...] | None = None
    ats_on: bool | None = None
    answers: bool = True

    @property
    def is_bridge(self) -> bool:
        """Whether it is a PCI bridge (class 06): a root port or a switch."""
        return self.class_code.startswith("06")

    @property
    def is_gpu(self) -> bool:
        """An NVIDIA GPU, or an AMD one for computing: the graphics in AMD's CPUs are a display and no more."""
        if self.vendor == "1002":
            return self.class_code.startswith("12") or self.product in _INSTINCT or "Instinct" in self.description
        return self.vendor == "10de" and self.class_code[:2] in {"03", "12"}

    @property
    def is_nvswitch(self) -> bool:
        """An NVSwitch: a bridge of NVIDIA's that is none of PCI (class 0680)."""
        return self.vendor == "10de" and self.class_code == "0680"

    @property
    def is_virtual_function(self) -> bool:
        """Whether it is a share of a NIC, whose link and read requests are those of the whole and not shown."""
        return "Virtual Function" in self.description or (self.is_rdma_nic and self.width == 0)

    @property
    def is_rdma_nic(self) -> bool:
        """A network controller (class 02) of a vendor that makes RDMA NICs: NVIDIA, Broadcom, Intel, Amazon."""
        return self.class_code.startswith("02") and self.vendor in {"15b3", "14e4", "8086", "1d0f"}


def parse_lspci(text: str) -> tuple[PciDevice, ...]:
    """Sample (ConnectX-6)::

    0000:b1:00.0 Infiniband controller [0207]: Mellanox Technologies MT28908 Family [ConnectX-6] [15b3:101b]
                    MaxPayload 512 bytes, MaxReadReq 4096 bytes
            LnkCap: Port #0, Speed 16GT/s, Width x16, ASPM not supported
            LnkSta: Speed 8GT/s (downgraded), Width x8 (downgraded)
            ACSCtl: SrcValid- TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd- EgressCtrl- DirectTrans-
    """
    devices = []
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            lines.append(line)
        elif lines:
            device = _device(lines)
            lines = []
            if device is not None:
                devices.append(device)
    return tuple(devices)


def with_links_of_sysfs(devices: tuple[PciDevice, ...], values: Mapping[str, str | None]) -> tuple[PciDevice, ...]:
    """Devices whose links lspci may not read (not root), with what sysfs says: ``16.0 GT/s PCIe``, ``16``."""
    return tuple(device if device.width is not None else _from_sysfs(device, values) for device in devices)


def _from_sysfs(device: PciDevice, values: Mapping[str, str | None]) -> PciDevice:
    def number(name: str) -> str | None:
        return _first(r"^([\d.]+)", values.get(f"/sys/bus/pci/devices/{device.address}/{name}") or "")

    return replace(
        device,
        width=_integer(number("current_link_width")),
        width_capable=_integer(number("max_link_width")),
        speed_gts=_float(number("current_link_speed")),
        speed_capable_gts=_float(number("max_link_speed")),
    )


def _device(lines: list[str]) -> PciDevice | None:
    head = _HEAD.match(lines[0])
    if head is None:
        return None
    address = head[1] if head[1].count(":") == 2 else f"0000:{head[1]}"
    codes = _CODES.search(head[2])
    body = "\n".join(lines[1:])
    acs = re.search(r"ACSCtl:\s*(.*)", body)
    ats = re.search(r"ATSCtl:\s*Enable([+-])", body)
    return PciDevice(
        address=address,
        description=(codes[2] if codes else head[2]).strip(" ,"),
        class_code=codes[1] if codes else "",
        vendor=codes[3] if codes else "",
        product=codes[4] if codes else "",
        driver=_first(r"Kernel driver in use: (\S+)", body) or "",
        width=_integer(_first(r"LnkSta:.*?Width x(\d+)", body)),
        width_capable=_integer(_first(r"LnkCap:.*?Width x(\d+)", body)),
        speed_gts=_float(_first(r"LnkSta:\s*Speed ([\d.]+)GT/s", body)),
        speed_capable_gts=_float(_first(r"LnkCap:.*?Speed ([\d.]+)GT/s", body)),
        max_read_request=_integer(_first(r"MaxReadReq (\d+) bytes", body)),
        acs_on=tuple(re.findall(r"(\w+)\+", acs[1])) if acs else None,
        ats_on=ats[1] == "+" if ats else None,
        answers="(rev ff)" not in head[2] and "Unknown header type" not in body,
    )


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)
