"""Which network devices carried the data of a run: a row a device over all nodes. Loopback is no network. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.limits import LOOPBACK
from raybench.documents.run.cluster import ClusterInfo
from raybench.reports.model import Cell, Grid
from raybench.reports.text import counted, printable
from raybench.stats import median

MOST_DEVICES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What one device moved, by node: (node name, bytes sent, bytes received)."""

    name: str
    moved: tuple[tuple[str, int, int], ...]

    @property
    def sent_bytes(self) -> int:
        """Of all nodes."""
        return sum(sent for _, sent, _ in self.moved)

    @property
    def received_bytes(self) -> int:
        """Of all nodes."""
        return sum(received for _, _, received in self.moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficView:
    """The table of devices and what it leaves out."""

    grid: Grid
    notes: tuple[str, ...]


def traffic_view(cluster: ClusterInfo) -> TrafficView | None:
    """Traffic while the run measured; None where no node counted any beside loopback's."""
    devices = traffic_of(cluster)
    if not devices:
        return None
    busy = sorted((one for one in devices if one.sent_bytes + one.received_bytes), key=_bytes, reverse=True)
    idle = [printable(one.name) for one in devices if one not in busy]
    rest = busy[MOST_DEVICES:]
    notes = ["loopback (lo) is left out: what it carries crosses no network"]
    notes += ["emulated nodes share this machine's devices, which are counted once"] if cluster.emulated else []
    if idle:
        more = f" and {len(idle) - MOST_DEVICES:,} more" if len(idle) > MOST_DEVICES else ""
        notes.append(f"{counted(len(idle), 'device')} moved nothing: {', '.join(idle[:MOST_DEVICES])}{more}")
    if rest:
        moved = decimal_bytes(sum(map(_bytes, rest)))
        notes.append(f"{counted(len(rest), 'further device')} moved {moved} together: in result.json")
    headings = ("device", "nodes", "sent", "received", "least of a node", "median", "most of a node")
    rows = tuple(tuple(_cells(one)) for one in busy[:MOST_DEVICES])
    return TrafficView(grid=Grid(headings=headings, rows=rows), notes=tuple(notes))


def traffic_of(cluster: ClusterInfo) -> tuple[Device, ...]:
    """Devices in order of their names, loopback left out."""
    nodes = cluster.nodes[:1] if cluster.emulated else cluster.nodes
    devices: dict[str, list[tuple[str, int, int]]] = {}
    for node in nodes:
        for device, moved in (node.known_facts.traffic or {}).items():
            if device != LOOPBACK:
                row = (node.name, moved.sent_bytes or 0, moved.received_bytes or 0)
                devices.setdefault(device, []).append(row)
    return tuple(Device(name=name, moved=tuple(moved)) for name, moved in sorted(devices.items()))


def _bytes(device: Device) -> int:
    return device.sent_bytes + device.received_bytes


def _cells(device: Device) -> Iterator[Cell]:
    """Sums over nodes, then both ways together of one node."""
    ordered = sorted((sent + received, name) for name, sent, received in device.moved)
    yield Cell(text=device.name, tone="strong")
    yield Cell(text=f"{len(ordered):,}")
    yield Cell(text=decimal_bytes(device.sent_bytes))
    yield Cell(text=decimal_bytes(device.received_bytes))
    (least, least_node), (most, most_node) = ordered[0], ordered[-1]
    both = len(ordered) > 1
    yield Cell(text=f"{decimal_bytes(least)} ({printable(least_node)})" if both else "-")
    yield Cell(text=decimal_bytes(median([float(moved) for moved, _ in ordered])) if both else "-")
    yield Cell(text=f"{decimal_bytes(most)} ({printable(most_node)})" if both else "-")


def decimal_bytes(count: float) -> str:
    """Bytes in decimal units, as links are rated: ``412 GB``, ``7.1 MB``, ``370 B``."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}" if count >= 100 * size else f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
