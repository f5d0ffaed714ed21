"""GPUs and NICs of a node: a PCI tree in its /sys, and what NCCL looks for of nvidia-peermem."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab.node import Node

_GPU, _NIC, _BRIDGE = "0x030200", "0x020000", "0x060400"
_FAR = 6  # root ports between a GPU and a NIC that is far from it
_LINK = {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16", "numa_node": "0", "local_cpus": "3"}
# where NCCL looks for the module, by version
_PEERMEM = (("/sys/kernel/mm", "memory_peers/nv_mem"), ("/sys/module", "nvidia_peermem"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A NIC with one port; ``kind`` is ib or roce. Unless ``far`` it shares a switch with the GPU of its number."""

    name: str
    kind: str
    gbit: int = 400
    down: bool = False
    far: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a node has. With no NICs it still has libibverbs, as a machine with rdma-core installed does."""

    gpus: int = 1
    nics: tuple[Nic, ...] = ()
    peermem: bool = True

    @property
    def devices(self) -> str:
        """The NICs as ``emulation/verbs.c`` reads them: ``mlx5_0:ib:400,mlx5_1:roce:100:down``."""
        return ",".join(f"{one.name}:{one.kind}:{one.gbit}{':down' if one.down else ''}" for one in self.nics)


def parse_nics(text: str) -> tuple[Nic, ...]:
    """``mlx5_0:ib:400,mlx5_1:roce:100:down,mlx5_2:ib:400:far``, as scenarios write them. Raises ValueError."""
    found = []
    for part in filter(None, text.split(",")):
        name, kind, gbit, *state = part.split(":")
        if kind not in ("ib", "roce") or state not in ([], ["down"], ["far"]):
            raise ValueError(f"'{part}' is no NIC; write NAME:ib|roce:GBIT[:down|:far]")
        found.append(Nic(name=name, kind=kind, gbit=int(gbit), down="down" in state, far="far" in state))
    return tuple(found)


def furnish(node: Node, hardware: Hardware, folder: Path) -> None:
    """Put the hardware into a node's /sys. ``folder`` is one that the node sees at the same path."""
    tree = folder / f"{node.hostname}-sys"
    (tree / "net").mkdir(parents=True)
    for path, text in _tree(hardware):
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("/"):
            target.symlink_to(text)
        else:
            target.write_text(f"{text}\n")
    mounts = [f"mount --bind /sys/class/net {tree}/net", f"mount --rbind {tree} /sys/class"]
    for number, (place, name) in enumerate(_PEERMEM if hardware.peermem else ()):
        module = folder / f"{node.hostname}-peermem{number}"
        (module / name).mkdir(parents=True)
        (module / name / "version").write_text("580.00\n")
        mounts.append(f"mount --bind {module} {place}")
    node.run(["sh", "-ec", "; ".join(mounts)], check=True)


def _tree(hardware: Hardware) -> Iterator[tuple[Path, str]]:
    """Files below /sys/class, and links, whose text begins with a slash: each once."""
    seen: set[Path] = set()
    for path, text in _entries(hardware):
        if path not in seen:
            seen.add(path)
            yield path, text


def _entries(hardware: Hardware) -> Iterator[tuple[Path, str]]:
    yield Path("bus/pci/drivers_autoprobe"), "1"
    for number in range(hardware.gpus):
        yield from _device(number, 0, 0x1B + 0x11 * number, _GPU, "0x10de", "0x2330")
    for index_of_nic, nic in enumerate(hardware.nics):
        number = index_of_nic + (_FAR if nic.far else 0)
        bus = 0x1C + 0x11 * number
        yield from _device(number, 1, bus, _NIC, "0x15b3", "0x1021")
        place = Path("infiniband", nic.name)
        yield place / "device", f"/sys/class/{_chain(number, 1, bus)[-1]}"
        for index in range(4):
            second = nic.kind == "roce" and index % 2
            yield place / "ports/1/gid_attrs/types" / str(index), "RoCE v2" if second else "IB/RoCE v1"


def _chain(number: int, port: int, bus: int) -> list[Path]:
    """Folders from the root complex down to a device: root port, switch, its ``port``, the device."""
    root = 0x17 + 0x11 * number
    names = (
        f"pci0000:{root:02x}",
        f"0000:{root:02x}:01.0",
        f"0000:{root + 1:02x}:00.0",
        f"0000:{root + 2:02x}:0{port}.0",
        f"0000:{bus:02x}:00.0",
    )
    return [Path("fakepci", *names[: depth + 1]) for depth in range(len(names))]


def _device(number: int, port: int, bus: int, pci_class: str, vendor: str, device: str) -> Iterator[tuple[Path, str]]:
    """A device and the bridges above it, with the links by which NCCL finds the way up."""
    chain = _chain(number, port, bus)
    for depth, path in enumerate(chain):
        last = path == chain[-1]
        ids = {"class": pci_class, "vendor": vendor, "device": device} if last else {
            "class": _BRIDGE, "vendor": "0x1000", "device": "0xc030"}  # fmt: skip
        subsystem = {"subsystem_vendor": ids["vendor"], "subsystem_device": "0x0001"}
        yield from ((path / name, text) for name, text in {**ids, **subsystem, **_LINK}.items())
        if depth:  # /sys/class/pci_bus/B/../../ is the folder where the devices of bus B are
            bus_folder = path.parent / "pci_bus" / path.name[:7]
            yield bus_folder / "cpuaffinity", "3"
            yield Path("pci_bus", path.name[:7]), f"/sys/class/{bus_folder}"
    yield chain[-1] / "subsystem", "/sys/class/bus/pci"
