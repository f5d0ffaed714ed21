"""What one process printed, and the verbs devices that it listed."""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from diagnostics.events import Event
from diagnostics.parsers.base import compiled
from diagnostics.parsers.network import DEVICE

MAX_PROCESSES = 40_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A verbs device and port. ``layer`` is ``IB`` or ``RoCE``."""

    name: str
    port: int
    layer: str


@dataclass(slots=True, kw_only=True)
class Process:
    """What one process printed. Built once, then only read. ``devices`` is None where no list was printed."""

    host: str
    pid: int
    file: str
    rank: int | None = None
    versions: set[str] = field(default_factory=set)
    networks: dict[str, Event] = field(default_factory=dict)
    devices: tuple[Device, ...] | None = None
    devices_event: Event | None = None
    variables: dict[str, str] = field(default_factory=dict)
    transports: Counter[str] = field(default_factory=Counter)
    connected: int = 0  # how often its ranks were connected for collectives
    last_progress: int = -1  # where its last line stands that is no failure and no attempt
    last_work: int = -1  # where the last line stands that shows a communicator of it coming to be, or working


@lru_cache(maxsize=64)  # most processes list the same
def read_devices(text: str) -> tuple[Device, ...]:
    """The devices of a ``NET/IB : Using`` list; merged NICs give each of their ports."""
    return tuple(
        Device(name=match["name"], port=int(match["port"][:6]), layer=match["layer"])
        for match in compiled(DEVICE).finditer(text)
    )


def version_numbers(text: str) -> tuple[int, int, int] | None:
    """Major, minor and patch of a version text such as ``2.12.6azure3+cuda11.4``."""
    match = compiled(r"^(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?").match(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
