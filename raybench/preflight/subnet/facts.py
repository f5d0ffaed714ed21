"""Ports as a tool of the fabric's management tells them, and what it complains of itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Aspect = Literal["link state", "link rate", "error counters", "bit errors", "GUIDs", "alarms"]
ASPECTS: tuple[Aspect, ...] = ("link state", "link rate", "error counters", "bit errors", "GUIDs", "alarms")
Kind = Literal["port-down", "link-rate", "port-errors", "bit-errors", "duplicated-guid", "fabric-alarm"]
MOST_PORTS = 500_000  # of one file: the largest InfiniBand subnet has 48 thousand nodes
_GUID = re.compile(r"(?:0x)?0*([0-9a-f]{1,16})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortKey:
    """Which port it is: its node by GUID where that is known, else by name; and its number there."""

    node: str
    port: str

    def __str__(self) -> str:
        """``0xb8599f0300a00002 port 1``."""
        return f"{self.node} port {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """One port. Empty and None are "not told".

    ``node`` is what the tool calls it (``gpu-01 mlx5_0``, ``MF0;leaf01:MQM9700/U1``). ``widths`` and ``speeds`` are
    those that it would take part in. ``could_be``: the tool says that the link could be more. ``counters`` are totals,
    ``grown`` what was added while the tool looked, both by the kernel's names; ``bit_errors`` by ``raw``, ``effective``
    and ``symbol``.
    """

    key: PortKey
    node: str = ""
    is_host: bool | None = None
    peer: PortKey | None = None
    state: str = ""  # Active, Armed, Init, Down
    physical: str = ""  # LinkUp, Polling, Disabled, ...
    width: int | None = None
    speed: str = ""
    widths: tuple[int, ...] = ()
    speeds: tuple[str, ...] = ()
    could_be: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    grown: Mapping[str, int] = field(default_factory=dict)
    bit_errors: Mapping[str, float] = field(default_factory=dict)
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something that the tool itself says is wrong. ``grave``: an error by its own word, not a warning.

    ``host`` is the host's name where the tool says that it is of one.
    """

    kind: Kind
    text: str
    grave: bool
    ports: tuple[PortKey, ...] = ()
    node: str = ""
    host: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All that a file says. ``covers``: what it would have told, had it been wrong."""

    ports: tuple[PortFacts, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    covers: frozenset[Aspect] = frozenset()


def guid_of(text: str) -> str:
    """A GUID as all tools' are written here, ``0x`` and 16 digits; empty for a text that is none."""
    match = _GUID.fullmatch(text.strip().strip('"'))
    return f"0x{match[1].lower():0>16}" if match else ""


_COUNTERS = {
    "symbolerror": "symbol_error",
    "symbolerrors": "symbol_error",
    "linkerrorrecovery": "link_error_recovery",
    "linkdowned": "link_downed",
    "linkdown": "link_downed",
    "portrcverror": "port_rcv_errors",
    "portrcverrors": "port_rcv_errors",
    "portxmitdiscard": "port_xmit_discards",
    "portxmitdiscards": "port_xmit_discards",
    "locallinkintegrityerrors": "local_link_integrity_errors",
    "locallinkintegrity": "local_link_integrity_errors",
    "excessivebufferoverrunerrors": "excessive_buffer_overrun_errors",
    "excessivebufferoverrun": "excessive_buffer_overrun_errors",
    "excessivebuffererrors": "excessive_buffer_overrun_errors",
}


def counter_name(text: str) -> str:
    """The kernel's name of a counter (``SymbolErrorCounter``, ``symbol_error_counter``); empty for one not judged."""
    letters = re.sub(r"[^a-z]", "", text.lower())
    for ending in ("extended", "ext", "counter"):
        letters = letters.removesuffix(ending)
    return _COUNTERS.get(letters, "")
