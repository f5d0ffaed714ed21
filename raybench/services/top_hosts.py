"""How hosts stand now by their agents, over SSH."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.documents.live_hosts import HostState, LiveHost, LiveHosts
from raybench.documents.live_run import LiveRemarkLine
from raybench.units import format_seconds

if TYPE_CHECKING:
    from raybench.execution.live.agents import HeardAgent

LIMIT_SECONDS = 20.0  # until the first word of a host
_MOST_WARNINGS = 20  # of a host


@contextmanager
def watched_hosts(
    names: Sequence[str], *, ssh_config: Path | None = None, accept_new: bool = False
) -> "Iterator[WatchedHosts]":
    """Watch hosts meanwhile. What was started for that on them ends with it. Raises UsageError for bad names."""
    from raybench.hosts.live_agents import LiveAgents, hosts_of

    hosts = hosts_of(names)
    watched = WatchedHosts(names=tuple(host.name for host in hosts))
    agents = LiveAgents(hosts, watched, ssh_config=ssh_config, accept_new=accept_new)
    agents.start()
    try:
        yield watched
    finally:
        agents.end()


@dataclass(kw_only=True)
class WatchedHosts:
    """What was heard of hosts by now. They may say anything: it is read as what agents of a run say."""

    names: tuple[str, ...]
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _agents: "dict[str, HeardAgent]" = field(default_factory=dict)
    _warnings: dict[str, list[LiveRemarkLine]] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)  # when it was connected
    _lost: dict[str, float] = field(default_factory=dict)  # when it was, until it is connected again
    _boots: dict[str, str] = field(default_factory=dict)  # the last boot id, empty where it has said none
    _reboots: Counter[str] = field(default_factory=Counter)
    has_warned: bool = False

    def connected(self, name: str, boot_id: str) -> None:
        """A host is reached, for the first time or again. It rebooted where its boot id is another one."""
        now = time.monotonic()
        with self._lock:
            self._reasons.pop(name, None)
            self._agents.pop(name, None)
            self._since[name] = now
            lost = self._lost.pop(name, None)
            before = self._boots.get(name, "")
            self._boots[name] = boot_id or before
            if before and boot_id and boot_id != before:
                self._reboots[name] += 1
                self._warn(name, now, f"CRITICAL: {name} rebooted{_gone(now, lost)}: its boot id is another one")
                self.has_warned = True
            elif lost is not None:
                same = "; it has not rebooted" if before and boot_id else ""
                self._warn(name, now, f"INFO: {name} is watched again{_gone(now, lost)}{same}")

    def heard(self, name: str, data: bytes) -> None:
        """A piece of what the agent of a host says."""
        from raybench.execution.live.agents import HeardAgent

        now = time.monotonic()
        with self._lock:
            agent = self._agents.get(name)
            if agent is None:
                agent = HeardAgent(machine=name, nodes=(), ranks=frozenset(), started=self._began)
                self._agents[name] = agent
            _, told = agent.take(data, now)
            for one in told:
                self._warn(name, self._began + one.at_seconds, one.line)
            self.has_warned = self.has_warned or any(one.severity != "info" for one in told)

    def failed(self, name: str, reason: str) -> None:
        """A host is not watched any more, or not yet."""
        with self._lock:
            self._reasons[name] = reason
            if name in self._boots:
                self._lost.setdefault(name, time.monotonic())

    def has_spoken(self, name: str) -> bool:
        """Whether an agent was heard on this host since it was connected."""
        with self._lock:
            return name in self._agents and self._agents[name].has_spoken

    def state(self) -> LiveHosts:
        """How they stand."""
        now = time.monotonic()
        with self._lock:
            hosts = tuple(self._host(name, now) for name in self.names)
        return LiveHosts(written_at=time.time(), elapsed_seconds=now - self._began, hosts=hosts)

    def _host(self, name: str, now: float) -> LiveHost:
        agent, reason = self._agents.get(name), self._reasons.get(name, "")
        spoken = agent is not None and agent.has_spoken
        if not spoken and not reason and now - self._since.get(name, self._began) > LIMIT_SECONDS:
            reason = f"no word of an agent within {LIMIT_SECONDS:.0f} s"
        if agent is not None and agent.refused and reason:
            reason = f"{reason}; what it said is not an agent's: {agent.refused}"
        state: HostState = "lost" if reason else "watched" if spoken else "connecting"
        return LiveHost(
            name=name,
            state=state,
            reason=reason,
            figures=agent.figures(now) if agent is not None and state == "watched" else {},
            silent_seconds=None if agent is None else agent.silent_seconds(now),
            warnings=tuple(self._warnings.get(name, ())),
            reboots=self._reboots[name],
        )

    def _warn(self, name: str, at: float, text: str) -> None:
        lines = self._warnings.setdefault(name, [])
        lines.append(LiveRemarkLine(at_seconds=at - self._began, text=text))
        del lines[:-_MOST_WARNINGS]


def _gone(now: float, lost: float | None) -> str:
    return "" if lost is None else f" (not watched for {format_seconds(now - lost)})"
