"""What the agent says: JSON lines on standard output, one message a line, each with its ``kind``.

All times are seconds of the machine's monotonic clock; a ``clock`` message, at the start and each minute, says what
wall-clock time one of them was. Whoever reads takes nothing on trust: see ``diagnostics/agent/message_reader.py``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from diagnostics.findings import Finding

SCHEMA = "raybench.agent/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One moment on both clocks. ``interval_seconds`` lie between two readings of a source."""

    kind: ClassVar[str] = "clock"
    wall_seconds: float
    monotonic_seconds: float
    host: str
    interval_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Whether a source can be read from now on, and why not. One that is silent is said to be so, and may come back."""

    kind: ClassVar[str] = "source"
    monotonic_seconds: float
    name: str
    available: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a source read at one moment, all of its series: one that is not there could not be read."""

    kind: ClassVar[str] = "reading"
    monotonic_seconds: float
    source: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line of the kernel's log (``source`` kernel) or an NCCL log, or a word on a process; no device: ``""``."""

    kind: ClassVar[str] = "event"
    monotonic_seconds: float
    source: str
    device: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A finding, told once. ``since_seconds``: when what it is about began, as far as the samples show it.

    ``series`` or ``line`` are what shows it: names of series, or the line of a log.
    """

    kind: ClassVar[str] = "warning"
    monotonic_seconds: float
    since_seconds: float
    finding: Finding
    series: tuple[str, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What an agent is told on its standard input: processes of ranks and NCCL logs to look at from now on."""

    kind: ClassVar[str] = "watch"
    pids: tuple[int, ...] = ()
    logs: tuple[str, ...] = ()


Message = Clock | Source | Reading | Event | Warned


def encode(message: Message | Watch) -> str:
    """The message as one line of JSON, without the newline."""
    return json.dumps(_content(message), separators=(",", ":"), allow_nan=False)


def _content(message: Message | Watch) -> dict[str, Any]:
    if isinstance(message, Reading):  # most of the stream
        return {
            "kind": message.kind,
            "monotonic_seconds": message.monotonic_seconds,
            "source": message.source,
            "values": message.values,
        }
    content = {name: getattr(message, name) for name in message.__slots__}
    if isinstance(message, Warned):
        content["finding"] = message.finding.to_json()
    schema = {"schema": SCHEMA} if isinstance(message, Clock) else {}
    return {"kind": message.kind, **schema, **content}
