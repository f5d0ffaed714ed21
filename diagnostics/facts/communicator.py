"""Communicators, their ranks, and the collectives and channels of these."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from diagnostics.events import Event, ProcessKey

if TYPE_CHECKING:
    from diagnostics.scanning.starts import Start

MAX_COMMUNICATORS = 20_000
MAX_MEMBERS = 80_000
MAX_START_EVENTS = 4000
MAX_COLLECTIVES = 20_000


@dataclass(slots=True, kw_only=True)
class Member:
    """One rank of one communicator. ``start`` is the line of its start, kept for the first MAX_START_EVENTS."""

    rank: int
    process: ProcessKey
    bus: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    started: bool = False
    start: "Start | None" = None
    completed: bool = False
    destroyed: bool = False
    local_ranks: int | None = None

    @property
    def event(self) -> Event | None:
        """Its start as an event."""
        return None if self.start is None else self.start.event()


@dataclass(slots=True, kw_only=True)
class Communicator:
    """One communicator. ``nodes`` is NCCL's own count (2.20+), None where it was not printed."""

    key: str
    nranks: int
    nodes: int | None = None
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def hosts(self) -> set[str]:
        """Hosts of the ranks that were seen."""
        return {member.process[0] for member in self.members.values() if member.process[0]}


@dataclass(slots=True)
class CollectiveLog:
    """Collectives that one rank of one communicator started: opCount -> what -> the line. ``last`` is the highest.

    Where ranks also send to single peers, opCount need not be the same on all of them.
    """

    forms: dict[int, dict[str, Event]] = field(default_factory=dict)
    last: int = -1
    point_to_point: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """All channels with the same pair of ranks, direction and transport. ``network`` only for NET."""

    transport: str
    network: str | None
    kind: str
    gdr: bool
    direction: str | None
    source: int | None
    target: int | None
    target_device: str | None
    count: int
    event: Event


_DATATYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16")


def collective_form(event: Event) -> str:
    """What a collective does, as all ranks must: operation, elements, datatype, reduction and root."""
    fields, kind = event.fields, event.number("datatype")
    datatype = _DATATYPES[kind] if kind is not None and 0 <= kind < len(_DATATYPES) else f"type {kind}"
    reduction = f", op {fields['op']}" if fields["op"] != "0" else ""
    return f"{fields['operation']} of {fields['count']} {datatype}{reduction}, root {fields['root']}"
