"""What the agents of a run's machines say, as the command takes it in: warnings to show, findings to keep.

The lines come from nodes and are taken for nothing but data: what is no message is left out, a finding speaks of its
own machine alone, and of each rule so many are told and no more.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import Message, Reading, Source, Warned
from diagnostics.findings import Finding
from raybench.execution.live.warning import LiveWarning
from raybench.finding_rules.live import AGENT_MISSING

_MOST_TOLD = 20  # of one rule of one machine
_MOST_OF_MACHINE = 100  # of all its rules, which may be any: a node makes up what it says
_MOST_COUNTERS = 256  # of one machine, of which figures are made
_MOST_REASONS = 3
_MANY_REFUSED = 5  # lines; one may be cut as an agent ends
_FRESH_SECONDS = 10.0  # after which a figure is not one of now
SILENT_SECONDS = 15.0  # an agent speaks each second; beside busy ranks later
_OWN_SOURCE = "agent"
_LEVELS = {("gpu", "utilization_percent"): "%"}
_RATES = {
    ("port", "sent_bytes"): ("sent GB/s", 1e-9),
    ("port", "received_bytes"): ("received GB/s", 1e-9),
    ("nic", "sent_bytes"): ("sent GB/s", 1e-9),
    ("nic", "received_bytes"): ("received GB/s", 1e-9),
    ("host", "busy_seconds"): ("processors busy", 1.0),
}


@dataclass(kw_only=True)
class HeardAgent:
    """The agent of one machine. ``nodes`` and ``ranks`` are those of the run that are on it."""

    machine: str
    nodes: Sequence[str]
    ranks: frozenset[int]
    started: float  # the run, on the command's monotonic clock
    findings: list[Finding] = field(default_factory=list)
    _reader: MessageReader = field(default_factory=MessageReader)
    _figures: dict[str, tuple[float, float]] = field(default_factory=dict)  # by name: when heard, and the figure
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict)  # by series: when, and how far
    _told: Counter[str] = field(default_factory=Counter)
    _heard: float | None = None  # the last message
    _read_at: float = float("-inf")  # when the last reading was heard

    def take(self, data: bytes, now: float) -> tuple[list[Message], list[LiveWarning]]:
        """The messages in a piece that was heard at ``now``, and what of them a person is told."""
        messages = list(self._reader.feed(data))
        self._heard = now if messages else self._heard
        told = [found for one in messages if isinstance(one, Warned) and (found := self._warning(one, now)) is not None]
        for one in messages:
            if isinstance(one, Reading):
                self._read(one, now)
                self._read_at = now
            if (
                isinstance(one, Source)
                and one.name == _OWN_SOURCE
                and not one.available
                and not self._told[_OWN_SOURCE]
            ):
                self._told[_OWN_SOURCE] += 1
                self.findings.append(_missing(self.machine, one.reason))
        return messages, told

    def figures(self, now: float) -> dict[str, float]:
        """What the last readings say of its GPUs, ports and processors, rates a second; none that is old.

        One source may hang, as a driver does, while the others are read on.
        """
        return {name: one for name, (at, one) in sorted(self._figures.items()) if now - at <= _FRESH_SECONDS}

    @property
    def has_spoken(self) -> bool:
        """Whether anything that was heard is a message of an agent."""
        return self._heard is not None

    @property
    def refused(self) -> str:
        """What was heard and is no message, ``4 x no JSON``; empty where there is nothing of that."""
        return ", ".join(f"{count} x {reason}" for reason, count in self._reader.refused.most_common(_MOST_REASONS))

    @property
    def _is_garbled(self) -> bool:
        """Whether so much was refused that samples are missing: an agent that is well says nothing that is."""
        return self._reader.refused.total() >= _MANY_REFUSED

    def silent_seconds(self, now: float) -> float | None:
        """For how long nothing has been read, where something was and it is too long ago."""
        silent = now - self._read_at
        return silent if _FRESH_SECONDS < silent < float("inf") else None

    def missing(self, begin: float, end: float) -> Finding | None:
        """That it fell silent, never spoke or was not understood while ranks were heard from a time to another."""
        if self._told[_OWN_SOURCE]:
            return None
        if end - (begin if self._heard is None else self._heard) <= SILENT_SECONDS:
            return _understood_in_part(self.machine, self.refused) if self._is_garbled else None
        since = "at all" if self._heard is None else f"since {self._heard - self.started:.0f} s after the run's start"
        return _missing(self.machine, f"it has said nothing {since}")

    def _read(self, reading: Reading, now: float) -> None:
        for name, value in reading.values.items():
            group, _, rest = name.partition("/")
            device, _, metric = rest.rpartition("/")
            if name not in self._counters and len(self._counters) >= _MOST_COUNTERS:
                continue
            if (group, metric) in _LEVELS:
                self._counters[name] = reading.monotonic_seconds, value
                self._figures[f"{group} {device} {_LEVELS[group, metric]}"] = now, value
            elif (group, metric) in _RATES:
                before = self._counters.get(name)
                self._counters[name] = reading.monotonic_seconds, value
                seconds = reading.monotonic_seconds - before[0] if before else 0.0
                if before and seconds > 0 and value >= before[1]:
                    unit, factor = _RATES[group, metric]
                    self._figures[f"{group} {device} {unit}"] = now, (value - before[1]) / seconds * factor

    def _warning(self, warned: Warned, now: float) -> LiveWarning | None:
        finding = self._own(warned.finding)
        if len(self.findings) < _MOST_OF_MACHINE:  # a rule that is not told is not remembered
            self._told[finding.rule] += 1
        if self._told[finding.rule] > _MOST_TOLD or len(self.findings) >= _MOST_OF_MACHINE:
            return None
        self.findings.append(finding)
        at = now - self.started
        ago = max(warned.monotonic_seconds - warned.since_seconds, 0.0)  # on one clock of its own
        return LiveWarning(
            at_seconds=at,
            since_seconds=max(at - ago, 0.0),
            rule=finding.rule,
            severity=finding.severity,
            text=finding.summary,
            ranks=finding.ranks,
            hosts=finding.hosts,
            of="agent",
        )

    def _own(self, finding: Finding) -> Finding:
        """A machine accuses nobody but itself."""
        known = {self.machine, *self.nodes}
        hosts = tuple(host for host in finding.hosts if host in known) or (self.machine,)
        ranks = tuple(rank for rank in finding.ranks if rank in self.ranks)
        return dataclasses.replace(finding, hosts=hosts, ranks=ranks)


def _missing(machine: str, reason: str) -> Finding:
    text = "Its ports, GPUs, processors and logs were not sampled while the run went on."
    return _unwatched(machine, f"no agent watched {machine}: {reason}", text)


def _understood_in_part(machine: str, refused: str) -> Finding:
    text = "Samples of its ports, GPUs, processors and logs are missing."
    return _unwatched(machine, f"what the agent of {machine} said could be read in part only: {refused}", text)


def _unwatched(machine: str, summary: str, explanation: str) -> Finding:
    return AGENT_MISSING.finding(
        confidence="certain",
        summary=summary,
        explanation=explanation,
        hosts=(machine,),
        recommendations=AGENT_MISSING.advise(),
    )
