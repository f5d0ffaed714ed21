"""Starts and completions of communicators in their usual form: every rank of every communicator prints both.

``node1:812:934 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 8000 commId 0xab -
Init START`` (2.18.3+) and ``comm 0x7f rank 0 nranks 2 cudaDev 0 busId 35000 - Init COMPLETE`` (2.5+) are half of what
is read one by one in the log of a large job. One expression reads them; lines of any other form are read as all others.
"""

import re
from typing import NamedTuple

from diagnostics.events import Event, Origin, quote

START = re.compile(
    r"NCCL INFO (?:nccl\w{1,40} )?comm (0x[0-9a-f]{1,32}) rank (\d{1,9}) nranks (\d{1,9})"
    r"(?: cudaDev (\d{1,9}))?(?: nvmlDev (\d{1,9}))?(?: busId ([0-9a-f]{1,16}))?(?: commId (0x[0-9a-f]{1,32}))?"
    r" - Init (START|COMPLETE)\r?",
    re.ASCII,
)


class Start(NamedTuple):
    """What one such line says. ``bus``, ``cuda``, ``nvml`` and ``comm_id`` are None where the release prints none."""

    origin: Origin
    raw: bytes
    completes: bool
    comm: str
    rank: int
    nranks: int
    cuda: str | None
    nvml: str | None
    bus: str | None
    comm_id: str | None

    @property
    def kind(self) -> str:
        """The kind of its event."""
        return "init-complete" if self.completes else "init-start"

    def event(self) -> Event:
        """The same as an event."""
        named = {
            "comm": self.comm,
            "rank": str(self.rank),
            "nranks": str(self.nranks),
            "cuda": self.cuda,
            "nvml": self.nvml,
            "bus": self.bus,
            "comm_id": self.comm_id,
        }
        fields = {name: value for name, value in named.items() if value is not None}
        return Event(self.kind, self.origin, quote(self.raw.decode().rstrip("\r")), fields)


def start_of(event: Event, rank: int, nranks: int) -> Start:
    """The start or completion that an event tells of, whatever the form of its line."""
    fields = event.fields
    return Start(
        event.origin,
        event.text.encode(),
        event.kind == "init-complete",
        fields["comm"],
        rank,
        nranks,
        fields.get("cuda"),
        fields.get("nvml"),
        fields.get("bus"),
        fields.get("comm_id"),
    )
