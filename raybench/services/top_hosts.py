"""How hosts stand now by their agents, over SSH."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.documents.live_hosts import HostState, LiveHost, LiveHosts
from raybench.documents.live_run import LiveRemarkLine

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
    agents = LiveAgents(hosts, watched.heard, watched.failed, ssh_config=ssh_config, accept_new=accept_new)
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
    has_warned: bool = False

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
            lines = self._warnings.setdefault(name, [])
            lines += [LiveRemarkLine(at_seconds=one.at_seconds, text=one.line) for one in told]
            del lines[:-_MOST_WARNINGS]
            self.has_warned = self.has_warned or any(one.severity != "info" for one in told)

    def failed(self, name: str, reason: str) -> None:
        """A host is not watched any more, or never was."""
        with self._lock:
            self._reasons[name] = reason

    def state(self) -> LiveHosts:
        """How they stand."""
        now = time.monotonic()
        with self._lock:
            hosts = tuple(self._host(name, now) for name in self.names)
        return LiveHosts(written_at=time.time(), elapsed_seconds=now - self._began, hosts=hosts)

    def _host(self, name: str, now: float) -> LiveHost:
        agent, reason = self._agents.get(name), self._reasons.get(name, "")
        spoken = agent is not None and agent.has_spoken
        if not spoken and not reason and now - self._began > LIMIT_SECONDS:
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
        )
