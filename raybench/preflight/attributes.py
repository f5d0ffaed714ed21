"""What of a host is compared with the other hosts, by kind. A value is text; what could not be read is left out."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from raybench.preflight.checks.software import python_facts, system_packages
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.parsers.nvidia_smi import SmiReport
from raybench.preflight.parsers.rdma import parse_mlnx_qos
from raybench.preflight.parsers.system import grouped, parse_meminfo, parse_pairs

Kind = Literal["hardware", "system", "versions", "network", "limits"]
GIB = 2**30
ABSENT = "not installed"
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
    yield "nccl.conf", " ".join((view.file("nccl", "/etc/nccl.conf") or "").split())


def _smi_versions(view: HostView) -> Iterator[tuple[str, str]]:
    if view.has_gpu_hardware:
        yield "GPU driver", view.smi.driver or ""
        yield "CUDA", view.smi.cuda or ""
        yield "VBIOS", ", ".join(sorted({gpu.get("VBIOS Version") or "" for gpu in view.smi.gpus} - {""}))


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


def _interfaces(view: HostView) -> Iterator[tuple[str, str]]:
    sizes = grouped(view.files("net"), "/mtu")
    for name in {*view.interfaces, *view.rdma_interfaces} & set(sizes):
        yield f"mtu {name}", sizes[name]
    for name in view.rdma_interfaces:
        if view.status(f"mlnx_qos:{name}") == "ok":
            qos = parse_mlnx_qos(view.text(f"mlnx_qos:{name}"))
            yield f"PFC {name}", "unknown" if qos.lossless is None else ",".join(map(str, qos.lossless)) or "none"
            yield f"trust {name}", qos.trust or ""


def _limits(view: HostView) -> Iterator[tuple[str, str]]:
    for name in ("memlock", "nofile"):
        soft = view.value(name)[0]
        yield name, "unlimited" if soft < 0 else str(soft)
    shared = view.value("file_systems").get("/dev/shm")  # noqa: S108 - that is what it is called
    if shared:
        yield "shared memory", f"{_rounded(shared['total'] / GIB)} GiB"


_SOURCES: tuple[tuple[Kind, Callable[[HostView], Iterator[tuple[str, str]]]], ...] = (
    ("hardware", _machine),
    ("hardware", _gpus),
    ("hardware", _ports),
    ("system", _system),
    ("versions", _smi_versions),
    ("versions", _python_versions),
    ("versions", _firmware),
    ("versions", _packages),
    ("network", _interfaces),
    ("limits", _limits),
)
