"""``nvidia-smi -q``, ``nvidia-smi nvlink -s`` and ``-e``, and ``nvidia-smi topo -m``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Section = dict[str, Any]
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+)\s*$")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_FAULT = re.compile(r"^\[?(?:ERR!|Unknown Error|GPU is lost|(?:GPU )?requires reset|Reset required)", re.IGNORECASE)
# Lines beside the report, on either output; nvidia-smi may end with 0 all the same.
_NOTICE = re.compile(
    r"^(?:Unable to determine the device handle|No devices were found|WARNING:|Failed to initialize NVML|GPU is lost)",
    re.IGNORECASE,
)
_ABSENT = frozenset({"N/A", "[N/A]", "", "Not Supported", "[Not Supported]"})
_DEPRECATED = "Requested functionality has been deprecated"  # drivers since 570, of what other lines say now
_COUNTER = re.compile(r"^\s*Link (\d+): ([A-Za-z][\w ()/-]*?)\s*:\s*(\d+)\s*$")
_LINK = re.compile(r"^\s+Link (\d+): (<?[\w./ ]+>?)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU of ``nvidia-smi -q``. ``sections`` is the tree as printed, by heading."""

    bus_id: str
    sections: Section = field(default_factory=dict)
    processes: tuple[Mapping[str, str], ...] = ()

    def get(self, *path: str) -> str | None:
        """The value below these headings; None where it is absent or not applicable (``N/A``)."""
        node: Any = self.sections
        for name in path:
            node = node.get(name) if isinstance(node, dict) else None
        return node if isinstance(node, str) and node not in _ABSENT and node != _DEPRECATED else None

    def number(self, *path: str) -> float | None:
        """The number that a value begins with, its unit left off: ``143771 MiB`` is 143771."""
        match = _NUMBER.match(self.get(*path) or "")
        return float(match[0]) if match else None

    def section(self, *names: str) -> Section:
        """The first of these sections that there is: drivers rename them. Empty where none is."""
        return next((found for name in names if isinstance(found := self.sections.get(name), dict)), {})

    @property
    def fault(self) -> str:
        """What nvidia-smi wrote in place of a value, of a GPU that is lost or hangs; empty where nothing is."""
        return next((value for value in _values(self.sections) if _FAULT.search(value)), "")

    @property
    def name(self) -> str:
        """The product, such as ``NVIDIA H100 80GB HBM3``."""
        return self.get("Product Name") or "unknown GPU"

    @property
    def pci_address(self) -> str:
        """The address as the kernel writes it: ``0000:3d:00.0``."""
        domain, _, rest = self.bus_id.partition(":")
        return f"{domain[-4:]}:{rest}".lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiReport:
    """All of ``nvidia-smi -q``. ``notices`` are lines beside the report, such as of a GPU that does not answer."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]
    notices: tuple[str, ...] = ()


def _values(section: Section) -> Iterator[str]:
    for value in section.values():
        if isinstance(value, dict):
            yield from _values(value)
        else:
            yield value


def parse_smi(text: str) -> SmiReport:
    """Sample (driver 535, A100)::

    Driver Version                            : 535.161.08
    Attached GPUs                             : 8
    GPU 00000000:10:1C.0
        Product Name                          : NVIDIA A100-SXM4-80GB
        Remapped Rows
            Pending                           : Yes
    """
    head: Section = {}
    gpus = []
    report, notices = without_notices(text)
    for bus_id, lines in _blocks(report):
        tree, processes = _tree(lines)
        if bus_id is None:
            head = tree
        else:
            gpus.append(Gpu(bus_id=bus_id, sections=tree, processes=processes))
    return SmiReport(
        driver=head.get("Driver Version"), cuda=head.get("CUDA Version"), gpus=tuple(gpus), notices=notices
    )


def without_notices(text: str) -> tuple[str, tuple[str, ...]]:
    """The text, and the lines in it that are of no table: ``WARNING: infoROM is corrupted at gpu 0000:67:00.0``."""
    lines = text.splitlines()
    notices = dict.fromkeys(line.strip() for line in lines if _NOTICE.match(line.strip()))
    return "\n".join(line for line in lines if line.strip() not in notices), tuple(notices)


def _blocks(text: str) -> Iterator[tuple[str | None, list[str]]]:
    bus_id: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _GPU.match(line)
        if match:
            yield bus_id, lines
            bus_id, lines = match[1], []
        else:
            lines.append(line)
    yield bus_id, lines


def _tree(lines: list[str]) -> tuple[Section, tuple[Mapping[str, str], ...]]:
    """Headings by indentation. Processes repeat their headings, so they are a list beside the tree."""
    root: Section = {}
    stack: list[tuple[int, Section]] = [(-1, root)]
    processes: list[dict[str, str]] = []
    below_processes: int | None = None
    for line in lines:
        if not line.strip() or line.lstrip().startswith("="):
            continue
        indent = len(line) - len(line.lstrip())
        name, colon, value = (part.strip() for part in (line.partition(" : ") if " : " in line else (line, "", "")))
        if below_processes is not None and indent > below_processes:
            if name == "Process ID":
                processes.append({})
            if processes:
                processes[-1][name] = value
            continue
        below_processes = indent if name == "Processes" and not colon else None
        while stack[-1][0] >= indent:
            stack.pop()
        if colon:
            stack[-1][1][name] = value
        else:
            child: Section = {}
            stack[-1][1][name] = child
            stack.append((indent, child))
    return root, tuple(processes)


def parse_nvlink_status(text: str) -> dict[int, dict[int, float | None]]:
    """Rate in GB/s of each link of each GPU; None where a link is inactive. Sample::

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-2f...)
             Link 0: 26.562 GB/s
             Link 1: <inactive>
    """
    found: dict[int, dict[int, float | None]] = {}
    links: dict[int, float | None] = {}
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line)
        if head:
            links = found.setdefault(int(head[1]), {})
        link = _LINK.match(line)
        if link:
            rate = re.match(r"([0-9.]+) GB/s", link[2])
            links[int(link[1])] = float(rate[1]) if rate else None
    return found


def parse_nvlink_errors(text: str) -> dict[int, dict[str, int]]:
    """Counters by GPU: {2: {"link 0 CRC Errors": 65535}}. NVLink 5 has others, and some values with units. Sample::

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-2f...)
             Link 0: Replay Errors: 0
             Link 0: Recovery Errors: 0
             Link 0: CRC Errors: 0
    """
    found: dict[int, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in text.splitlines():
        head = re.match(r"GPU (\d+):", line)
        if head:
            counters = found.setdefault(int(head[1]), {})
        counter = _COUNTER.match(line)
        if counter:
            counters[f"link {counter[1]} {counter[2]}"] = int(counter[3])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """``nvidia-smi topo -m``: how GPUs reach each other and NICs. ``nics`` names NIC0, ... as in its legend."""

    gpus: tuple[str, ...]
    links: Mapping[tuple[str, str], str]
    nics: Mapping[str, str]


def parse_topology(text: str) -> Topology:
    """Sample (tabs shown as spaces)::

          GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
    GPU0   X    NV18  PIX   0-47,96-143   0
    GPU1  NV18   X    NODE  0-47,96-143   0
    NIC Legend:
      NIC0: mlx5_0
    """
    columns: list[str] = []
    links: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if not columns and re.search(r"\bGPU0\b", line):
            columns = [cell for cell in cells if re.fullmatch(r"GPU\d+|NIC\d+|[a-z]\w+", cell)]
        elif columns and re.fullmatch(r"GPU\d+|NIC\d+|[a-z]\w+", cells[0]):
            links |= {(cells[0], name): kind for name, kind in zip(columns, cells[1:], strict=False) if kind != "X"}
    nics = dict(re.findall(r"^\s*(NIC\d+): (\S+)\s*$", text, re.MULTILINE))
    nics |= {name: name for name in columns if not name.startswith(("GPU", "NIC"))}
    gpus = tuple(name for name in columns if name.startswith("GPU"))
    return Topology(gpus=gpus, links=links, nics=nics)
