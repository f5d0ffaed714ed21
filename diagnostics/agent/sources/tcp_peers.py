"""On the way to whom TCP segments are lost: asked of the kernel while the machine's count grows."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from diagnostics.agent.sources.base import Sample
from diagnostics.agent.sources.tcp_connections import Connection, connections
from diagnostics.agent.sources.tcp_counters import TcpCounters

MAX_PEERS = 16
MAX_COUNTED = 1024  # a machine may have other peers each day
_LEAST_SEGMENTS = 10  # sent again since the last look, below which nobody is asked

Asked = Callable[[], Iterable[Connection]]


class TcpPeers:
    """Counts what connections lost since the source was opened, by the peer's address."""

    def __init__(self, proc: Path, ask: Asked = connections) -> None:
        self._ask = ask
        self._before = self._lost()
        self._peers: Counter[str] = Counter()
        self._counters = TcpCounters(proc)
        self._asked_at = self._counters.at_first.sent_again

    def read(self) -> Sample:
        """The peers with most of them. Nobody is asked while few are sent again."""
        again = self._counters.segments().sent_again
        if again - self._asked_at >= _LEAST_SEGMENTS:
            self._asked_at = again
            now = self._lost()
            for (ends, peer), total in now.items():
                if grown := total - self._before.get((ends, peer), 0):
                    self._peers[peer] += grown  # less where the peer says late that it had them
            self._before = now
            if len(self._peers) > MAX_COUNTED:
                self._peers = Counter(dict(self._peers.most_common(MAX_COUNTED // 2)))
        most = self._peers.most_common(MAX_PEERS)
        return Sample(values={f"tcp/{peer}/lost_segments": count for peer, count in most if count > 0})

    def close(self) -> None:
        """Close the files."""
        self._counters.close()

    def _lost(self) -> dict[tuple[bytes, str], int]:
        """By connection and peer: segments sent again that the peer did not have already."""
        return {(one.ends, one.peer): max(one.sent_again - one.had_already, 0) for one in self._ask()}
