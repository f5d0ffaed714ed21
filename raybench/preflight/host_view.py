"""A host as checks see it: readings of its probe, parsed once, beside what is expected of it."""

import fnmatch
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from raybench.preflight.expectations import Expectations
from raybench.preflight.parsers.nvidia_smi import SmiReport, Topology, parse_nvlink_status, parse_smi, parse_topology
from raybench.preflight.parsers.pci import PciDevice, parse_lspci, with_links_of_sysfs
from raybench.preflight.parsers.rdma import Port, parse_ibstat, parse_rdma_link, ports_from_sysfs
from raybench.preflight.parsers.system import KernelMessage, grouped, parse_dmesg, parse_modules

# Interfaces of containers and virtual machines: their settings are theirs.
VIRTUAL_INTERFACES = (
    "lo",
    "veth",
    "docker",
    "br-",
    "cali",
    "cni",
    "flannel",
    "ifb",
    "virbr",
    "tun",
    "tap",
    "kube",
    "lxc",
)
SOFTWARE_DRIVERS = frozenset({"rdma_rxe", "siw"})  # RDMA made by the CPU
# Colours and underlines: nvidia-smi topo -m underlines its heading into pipes as well.
_COUNT = re.compile(r"[0-9]{1,20}")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class UnavailableError(Exception):
    """A reading that a check needs could not be had. ``status`` is missing, failed, timeout or denied."""

    def __init__(self, reading: str, status: str, why: str) -> None:
        super().__init__(why)
        self.reading, self.status, self.why = reading, status, why


def count_in(text: str, what: str) -> int:
    """The count that a file of the kernel holds. Raises UnavailableError where it is none: nothing is taken for 0."""
    if not _COUNT.fullmatch(text.strip()):
        raise UnavailableError(what, "failed", f"{what} is not a number: {text[:40]!r}")
    return int(text)


class HostView:
    """Readings by name (see ``raybench_probe``) and what is expected. Parsing happens on first use, once."""

    def __init__(self, facts: Mapping[str, Any], expected: Expectations) -> None:
        self.facts, self.expected = facts, expected
        self.readings: Mapping[str, Mapping[str, Any]] = facts.get("readings", {})

    def status(self, name: str) -> str:
        """How a reading went: ok, missing, failed, timeout or denied."""
        return str(self.readings.get(name, {}).get("status", "missing"))

    def text(self, name: str) -> str:
        """What a program printed. Raises UnavailableError where it is not there or did not end well."""
        reading = self.readings.get(name)
        if reading is None:
            raise UnavailableError(name, "missing", f"the probe did not read {name}")
        if reading.get("status") != "ok":
            why = str(reading.get("error") or reading.get("text", "").strip()[-300:] or reading.get("status"))
            raise UnavailableError(name, str(reading.get("status")), why)
        return _ESCAPES.sub("", str(reading.get("text", "")))

    def said(self, name: str) -> str:
        """All that a program printed, on both outputs, however it ended; empty where it did not run."""
        reading = self.readings.get(name, {})
        return _ESCAPES.sub("", "\n".join(filter(None, (reading.get("text"), reading.get("error")))))

    def value(self, name: str) -> Any:
        """A value that the probe read itself. Raises UnavailableError where it could not."""
        reading = self.readings.get(name, {"status": "missing", "error": f"the probe did not read {name}"})
        if reading.get("status") != "ok":
            raise UnavailableError(name, str(reading.get("status")), str(reading.get("error")))
        return reading.get("value")

    def files(self, group: str, pattern: str = "*") -> dict[str, str | None]:
        """Files of a group whose paths match, with their contents; None for one that may not be read."""
        values: Mapping[str, str | None] = self.readings.get(group, {}).get("values", {})
        return {path: value for path, value in values.items() if fnmatch.fnmatchcase(path, pattern)}

    def file(self, group: str, path: str) -> str | None:
        """The contents of a file; None where it is not there."""
        content: str | None = self.readings.get(group, {}).get("values", {}).get(path)
        return content

    @property
    def is_root(self) -> bool:
        """Whether the probe ran as root."""
        return self.facts.get("uid") == 0

    @cached_property
    def uptime_seconds(self) -> float | None:
        """Seconds since the host was booted; None where it does not say."""
        found = re.match(r"\d{1,12}(?:\.\d{1,6})?(?!\S)", self.file("proc", "/proc/uptime") or "", re.ASCII)
        return float(found[0]) if found else None

    @cached_property
    def modules(self) -> frozenset[str]:
        """Loaded kernel modules, and those built in that show below /sys/module."""
        built_in = {path.split("/")[3] for path in self.files("kernel", "/sys/module/*")}
        return parse_modules(self.file("proc", "/proc/modules") or "") | built_in

    @cached_property
    def smi(self) -> SmiReport:
        """``nvidia-smi -q``, also of the GPUs that answered where another did not. Raises UnavailableError."""
        report = parse_smi(self.said("nvidia_smi"))
        if not (self.status("nvidia_smi") == "failed" and report.gpus):
            self.text("nvidia_smi")
        return report

    @cached_property
    def nvlinks(self) -> dict[int, dict[int, float | None]]:
        """``nvidia-smi nvlink -s``: rates by GPU and link. Raises UnavailableError."""
        return parse_nvlink_status(self.text("nvidia_smi_nvlink"))

    @cached_property
    def topology(self) -> Topology:
        """``nvidia-smi topo -m``. Raises UnavailableError."""
        return parse_topology(self.text("nvidia_smi_topo"))

    @cached_property
    def mtus(self) -> dict[str, int]:
        """MTUs by interface. Raises UnavailableError where one is not a number."""
        return {name: count_in(text, f"the MTU of {name}") for name, text in grouped(self.files("net"), "/mtu").items()}

    @cached_property
    def pci(self) -> tuple[PciDevice, ...]:
        """NICs, GPUs and bridges. Raises UnavailableError without lspci."""
        return with_links_of_sysfs(parse_lspci(self.text("lspci")), self.files("pci"))

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """RDMA ports that are not to be ignored: of ibstat where it is installed, else of sysfs, else of rdma link."""
        ports = parse_ibstat(self.text("ibstat")) if self.status("ibstat") == "ok" else ()
        ports = ports or ports_from_sysfs(self.files("infiniband"))
        ports = ports or (parse_rdma_link(self.text("rdma_link")) if self.status("rdma_link") == "ok" else ())
        ignored = self.expected.ports_ignored
        return tuple(port for port in ports if not {port.device, port.name} & set(ignored))

    def is_ignored_port(self, device: str, number: str | int) -> bool:
        """Whether the inventory says that this port is not used."""
        return bool({device, f"{device}/{number}"} & set(self.expected.ports_ignored))

    @cached_property
    def kernel_messages(self) -> tuple[KernelMessage, ...]:
        """The kernel's log of the last hours that count. Raises UnavailableError where it may not be read."""
        newest = self.expected.log_hours * 3600
        messages = parse_dmesg(self.text("dmesg"), self.uptime_seconds)
        return tuple(one for one in messages if one.age_seconds is None or one.age_seconds <= newest)

    @cached_property
    def interfaces(self) -> dict[str, str]:
        """Interfaces of the host's own that have an address, with it."""
        reading = self.readings.get("addresses", {})
        addresses: Mapping[str, str] = reading.get("value") or {}
        return {name: address for name, address in addresses.items() if not name.startswith(VIRTUAL_INTERFACES)}

    @cached_property
    def rdma_interfaces(self) -> dict[str, str]:
        """RDMA devices by the network interface on top of them."""
        found: dict[str, str] = self.readings.get("rdma_interfaces", {}).get("value") or {}
        return found

    @cached_property
    def rdma_drivers(self) -> dict[str, str]:
        """Kernel drivers by RDMA device; empty where one is not known."""
        found: dict[str, str] = self.readings.get("rdma_drivers", {}).get("value") or {}
        return found

    @cached_property
    def software_devices(self) -> frozenset[str]:
        """RDMA devices without a NIC behind them."""
        return frozenset(device for device, driver in self.rdma_drivers.items() if driver in SOFTWARE_DRIVERS)

    @property
    def has_gpu_hardware(self) -> bool:
        """Whether there is a sign of a GPU for computing: on PCI, in /dev, or its driver.

        An nvidia-smi that fails is none where the bus was read and has no such GPU: images bring it to hosts without.
        """
        if self.status("lspci") == "ok" and any(device.is_gpu for device in self.pci):
            return True
        if "nvidia" in self.modules or self.has_gpu_nodes:
            return True
        status = self.status("nvidia_smi")
        return status != "missing" and not (status == "failed" and self.status("lspci") == "ok")

    @property
    def has_only_amd_gpus(self) -> bool:
        """Whether the GPUs of this host are AMD's, which checks of NVIDIA's tools say nothing of."""
        vendors = {device.vendor for device in self.pci if device.is_gpu} if self.status("lspci") == "ok" else set()
        return vendors == {"1002"} and "nvidia" not in self.modules and self.status("nvidia_smi") != "ok"

    @property
    def has_amd_gpus(self) -> bool:
        """Whether there is a sign of an AMD GPU for computing: on PCI, or its compute driver."""
        if self.status("lspci") == "ok" and any(device.is_gpu and device.vendor == "1002" for device in self.pci):
            return True
        nodes: Mapping[str, bool] = self.readings.get("devices", {}).get("value") or {}
        return "/dev/kfd" in nodes and self.status("lspci") != "ok"

    @property
    def has_gpu_nodes(self) -> bool:
        """Whether /dev has nodes of NVIDIA's driver."""
        nodes: Mapping[str, bool] = self.readings.get("devices", {}).get("value") or {}
        return any(path.startswith("/dev/nvidia") for path in nodes)

    @property
    def has_rdma(self) -> bool:
        """Whether there is a sign of an RDMA device: registered, or a NIC that is one."""
        registered = bool(self.readings.get("rdma_devices", {}).get("value")) or bool(self.ports)
        return registered or (
            self.status("lspci") == "ok" and any(device.is_rdma_nic and device.vendor == "15b3" for device in self.pci)
        )
