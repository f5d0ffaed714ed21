"""What of a host is compared with the other hosts, by kind. A value is text; what could not be read is left out."""

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from raybench.preflight.checks.software import python_facts, system_packages
from raybench.preflight.checks.variables import NOT_SET, effective
from raybench.preflight.gpu_attributes import amd_settings, nvidia_settings, nvidia_versions
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.parsers.nvidia_smi import SmiReport
from raybench.preflight.parsers.rdma import parse_mlnx_qos
from raybench.preflight.parsers.system import grouped, parse_meminfo, parse_pairs

Kind = Literal["hardware", "system", "versions", "network", "limits"]
GIB = 2**30
ABSENT = "not installed"
VARIABLE, VARIABLES_READ = "variable ", "variables of NCCL"
PARAMETER, PARAMETERS_READ = "kernel parameter ", "parameters of the kernel"
# What a host need not have: a name's beginning, what says that the host was asked, and the value of one that has none.
OPTIONAL = (
    ("package ", "package ", ABSENT),
    (VARIABLE, VARIABLES_READ, NOT_SET),
    (PARAMETER, PARAMETERS_READ, "not given"),
)
# Parameters that name a host's own disks, addresses and boot image.
_OWN_PARAMETERS = frozenset(
    {"BOOT_IMAGE", "BOOTIF", "UUID", "boot", "console", "ds", "hostname", "initrd", "ip", "macaddress", "netroot",
     "nfsroot", "ostree", "resume", "resume_offset", "root", "systemd.hostname", "systemd.machine_id", "url"}
)  # fmt: skip
_OWN_BEGINNINGS = ("rd.", "cloud-", "iscsi_", "ignition.")
_TRANSPORT_FILES = (
    ("local ports", "/proc/sys/net/ipv4/ip_local_port_range"),
    ("reserved ports", "/proc/sys/net/ipv4/ip_local_reserved_ports"),
    ("rmem_max", "/proc/sys/net/core/rmem_max"),
    ("wmem_max", "/proc/sys/net/core/wmem_max"),
)
# Variables in which hosts may well differ: how much is logged, and names of a host's own devices and files.
_HARMLESS_VARIABLES = (
    "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_", "NCCL_HOSTID", "GLOO_SOCKET_IFNAME",
)  # fmt: skip
# A difference in one of these breaks runs; in others it is worth a look.
SERIOUS_PREFIXES = (
    "GPUs", "RDMA ports", "port rates", "GPU driver", "python", "torch", "ray", "raybench", "nvidia-nccl",
    "mtu ", "memlock", "PFC ", "trust ",
)  # fmt: skip
_SERIOUS_PACKAGES = ("libnccl", "aws-ofi-nccl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One comparable fact. ``serious`` says that hosts which differ in it cannot run one job well."""

    name: str
    kind: Kind
    value: str

    @property
    def serious(self) -> bool:
        """Whether a difference is a failure rather than a warning."""
        if self.name.startswith(VARIABLE):
            return not self.name.removeprefix(VARIABLE).startswith(_HARMLESS_VARIABLES)
        return self.name.startswith(SERIOUS_PREFIXES) or self.name.startswith(
            tuple(f"package {p}" for p in _SERIOUS_PACKAGES)
        )


def attributes_of(view: HostView) -> tuple[Attribute, ...]:
    """Everything comparable of a host."""
    found: list[Attribute] = []
    for kind, source in _SOURCES:
        try:
            found.extend(Attribute(name=name, kind=kind, value=value) for name, value in source(view) if value)
        except (UnavailableError, ValueError, KeyError, TypeError):
            continue  # the check that needs it says why
    return tuple(found)


def product_group(view: HostView) -> str:
    """The group a host is compared within: the inventory's word, else the GPUs' product: clusters may be mixed."""
    if view.expected.group:
        return view.expected.group
    try:
        names = sorted({gpu.name for gpu in view.smi.gpus}) if view.has_gpu_hardware else []
    except UnavailableError:
        names = []
    return " + ".join(names) or "hosts without GPU"


def _machine(view: HostView) -> Iterator[tuple[str, str]]:
    yield "CPUs", str(view.value("cpu_count"))
    total = parse_meminfo(view.file("proc", "/proc/meminfo") or "").get("MemTotal", 0)
    yield "memory", f"{_rounded(total / GIB)} GiB" if total else ""
    for name, path in (("model", "product_name"), ("BIOS", "bios_version")):
        yield name, view.file("kernel", f"/sys/class/dmi/id/{path}") or ""


def _processor(view: HostView) -> Iterator[tuple[str, str]]:
    found = view.value("processor")
    yield "CPU", found["model"]
    yield "CPUs that a login may use", str(found["usable"])
    yield "microcode", found["microcode"]
    yield "CPU boost", {True: "on", False: "off"}.get(found["boost"], "")
    yield "highest CPU clock allowed", f"{found['most_khz'] / 1000:.0f} MHz" if found["most_khz"] else ""


def _rounded(size: float) -> int:
    """To a step of about 6 %, so that firmware that keeps some megabytes to itself is no difference."""
    step = 1 << max(0, int(size).bit_length() - 4)
    return round(size / step) * step


def _gpus(view: HostView) -> Iterator[tuple[str, str]]:
    if view.has_gpu_hardware:
        report: SmiReport = view.smi
        yield (
            "GPUs",
            ", ".join(f"{number} {name}" for name, number in sorted(Counter(g.name for g in report.gpus).items())),
        )


def _ports(view: HostView) -> Iterator[tuple[str, str]]:
    active = [port for port in view.ports if port.state == "Active"]
    yield (
        "RDMA ports",
        ", ".join(f"{n} {k}" for k, n in sorted(Counter(p.device_type or "port" for p in view.ports).items())),
    )
    rates = Counter(f"{port.rate_gbits:g}" for port in active if port.rate_gbits is not None)
    yield "port rates", ", ".join(f"{number} x {rate}" for rate, number in sorted(rates.items()))
    yield "link layers", ", ".join(sorted({port.link_layer for port in active}))


def _system(view: HostView) -> Iterator[tuple[str, str]]:
    yield "OS", parse_pairs(view.file("os_release", "/etc/os-release") or "").get("PRETTY_NAME", "")
    yield "kernel", str(view.value("kernel_release"))
    governors = {value for value in view.files("kernel", "*/scaling_governor").values() if value}
    yield "governor", ", ".join(sorted(governors))
    yield "NUMA balancing", view.file("proc", "/proc/sys/kernel/numa_balancing") or ""
    pages = view.file("kernel", "/sys/kernel/mm/transparent_hugepage/enabled") or ""
    yield "huge pages", pages.partition("[")[2].partition("]")[0]
    yield "TCP congestion control", view.file("proc", "/proc/sys/net/ipv4/tcp_congestion_control") or ""


def _kernel_settings(view: HostView) -> Iterator[tuple[str, str]]:
    yield "SMT", view.file("kernel", "/sys/devices/system/cpu/smt/active") or ""
    yield "NUMA nodes", view.file("kernel", "/sys/devices/system/node/online") or ""
    yield "huge pages reserved", view.file("proc", "/proc/sys/vm/nr_hugepages") or ""
    swaps = view.file("proc", "/proc/swaps")
    yield "swap", "" if swaps is None else "on" if len(swaps.splitlines()) > 1 else "off"


def _own_settings(view: HostView) -> Iterator[tuple[str, str]]:
    yield "time zone", str(view.value("time_zone") or "")


def _mounts(view: HostView) -> Iterator[tuple[str, str]]:
    """Of a mount that is in no fstab nobody knows how it is meant to be, but the other hosts may have it as well."""
    for point, kind, is_read_only, _ in view.value("mounts"):
        yield f"mount {point}", f"{kind}, {'read-only' if is_read_only else 'writable'}"


def _variables(view: HostView) -> Iterator[tuple[str, str]]:
    found = effective(view)
    yield VARIABLES_READ, "yes"
    for name, (value, _) in found.items():
        yield f"{VARIABLE}{name}", value or '""'


def _parameters(view: HostView) -> Iterator[tuple[str, str]]:
    """Parameters of the kernel's command line, but those that name this host's own disks, addresses and image."""
    line = view.file("proc", "/proc/cmdline")
    if line is None:
        return
    yield PARAMETERS_READ, "yes"
    values: dict[str, list[str]] = {}
    for word in line.split():
        name, _, value = word.partition("=")
        if name not in _OWN_PARAMETERS and not name.startswith(_OWN_BEGINNINGS):
            values.setdefault(name, []).append(value)
    for name, given in values.items():
        yield f"{PARAMETER}{name}", ",".join(given) or "given"


def _python_versions(view: HostView) -> Iterator[tuple[str, str]]:
    facts = python_facts(view)
    yield "python", facts["python"]
    names = ("torch", "ray", "raybench", "numpy", "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")
    for name in names:
        yield name, facts["packages"].get(name, ABSENT)


def _firmware(view: HostView) -> Iterator[tuple[str, str]]:
    kinds = {port.device_type or "device" for port in view.ports if port.firmware}
    for kind in sorted(kinds):
        versions = {port.firmware for port in view.ports if (port.device_type or "device") == kind}
        yield f"firmware {kind}", ", ".join(sorted(versions))


def _packages(view: HostView) -> Iterator[tuple[str, str]]:
    if view.status("ofed_info") == "ok":
        yield "OFED", view.text("ofed_info").strip().rstrip(":")
    for name, version in system_packages(view).items():
        yield f"package {name}", version


def _routes(view: HostView) -> Iterator[tuple[str, str]]:
    """The default route: its interface, and its gateway against hosts of the same network."""
    rows = view.value("routes")
    defaults = sorted((row for row in rows if row["network"] == "0.0.0.0/0"), key=lambda row: int(row["metric"]))
    yield "default route", defaults[0]["interface"] if defaults else "none"
    for row in defaults[:1]:
        near = next((own["network"] for own in rows if not own["gateway"] and _holds(own, row)), None)
        if near is not None:
            yield f"gateway of {near}", row["gateway"]


def _holds(near: Mapping[str, str], default: Mapping[str, str]) -> bool:
    gateway, prefix = default["gateway"], int(near["network"].partition("/")[2])
    inside = bool(gateway) and ipaddress.ip_address(gateway) in ipaddress.ip_network(near["network"], strict=False)
    return prefix > 0 and near["interface"] == default["interface"] and inside


def _transport(view: HostView) -> Iterator[tuple[str, str]]:
    for name, path in _TRANSPORT_FILES:
        yield name, " ".join((view.file("proc", path) or "").split())
    lines = (view.file("proc", "/etc/resolv.conf") or "").splitlines()
    words = [line.split() for line in lines if line.startswith(("nameserver", "search", "domain"))]
    yield "name servers", ", ".join(word[1] for word in words if word[0] == "nameserver" and len(word) > 1)
    yield "search domains", ", ".join(part for word in words if word[0] != "nameserver" for part in word[1:])


def _interfaces(view: HostView) -> Iterator[tuple[str, str]]:
    sizes = grouped(view.files("net"), "/mtu")
    for name in {*view.interfaces, *view.rdma_interfaces} & set(sizes):
        yield f"mtu {name}", sizes[name]
        for what in ("speed", "duplex"):  # of a link that is down, or of an interface without one, -1 and unknown
            told = view.file("net", f"/sys/class/net/{name}/{what}") or ""
            yield f"{what} {name}", "" if told in {"-1", "unknown", "4294967295"} else told
    for name in view.rdma_interfaces:
        if view.status(f"mlnx_qos:{name}") == "ok":
            qos = parse_mlnx_qos(view.text(f"mlnx_qos:{name}"))
            yield f"PFC {name}", "unknown" if qos.lossless is None else ",".join(map(str, qos.lossless)) or "none"
            yield f"trust {name}", qos.trust or ""


def _limits(view: HostView) -> Iterator[tuple[str, str]]:
    for name in ("memlock", "nofile"):
        soft = view.value(name)[0]
        yield name, "unlimited" if soft < 0 else str(soft)
    processes = view.readings.get("nproc", {}).get("value")
    if processes:
        yield "nproc", "unlimited" if processes[0] < 0 else str(_rounded(processes[0]))
    shared = view.value("file_systems").get("/dev/shm")
    if shared:
        yield "shared memory", f"{_rounded(shared['total'] / GIB)} GiB"


_SOURCES: tuple[tuple[Kind, Callable[[HostView], Iterator[tuple[str, str]]]], ...] = (
    ("hardware", _machine),
    ("hardware", _processor),
    ("hardware", _gpus),
    ("hardware", _ports),
    ("system", _system),
    ("system", _kernel_settings),
    ("system", _own_settings),
    ("system", _mounts),
    ("system", nvidia_settings),
    ("system", amd_settings),
    ("system", _variables),
    ("system", _parameters),
    ("versions", nvidia_versions),
    ("versions", _python_versions),
    ("versions", _firmware),
    ("versions", _packages),
    ("network", _interfaces),
    ("network", _routes),
    ("network", _transport),
    ("limits", _limits),
)
