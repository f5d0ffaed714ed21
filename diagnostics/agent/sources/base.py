"""What a source of readings is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from diagnostics.errors import DiagnosticsError
from diagnostics.findings import Finding


class SourceUnavailableError(DiagnosticsError, OSError):
    """A source cannot be read on this machine; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """Something that a source has to say of a device in words."""

    device: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one reading gave: series by name, what happened since the last one, and what was found in it."""

    values: Mapping[str, float] = field(default_factory=dict)
    events: tuple[DeviceEvent, ...] = ()
    findings: tuple[Finding, ...] = ()


class OpenSource(Protocol):
    """A source that is open. It may block for as long as a device does: each has a thread of its own."""

    def read(self) -> Sample:
        """One reading. Raises SourceUnavailableError where it ends for good."""

    def close(self) -> None:
        """Give back what it holds."""
