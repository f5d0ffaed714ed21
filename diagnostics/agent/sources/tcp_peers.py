"""On the way to whom TCP segments are lost: asked of ``ss``, a line a connection, while the machine's count grows."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from diagnostics.agent.sources.base import Sample
from diagnostics.agent.sources.host import tcp_segments
from diagnostics.agent.sources.tcp_connections import address_of, connection_lines, ends_of

MAX_PEERS = 16
MAX_COUNTED = 1024  # a machine may have other peers each day
_LEAST_SEGMENTS = 10  # sent again since the last look, below which nobody is asked
_SENT_AGAIN = re.compile(r" retrans:\d+/(\d+)", re.ASCII)
_HAD_ALREADY = re.compile(r" dsack_dups:(\d+)", re.ASCII)

Connections = Mapping[tuple[str, str], int]


class TcpPeers:
    """Counts what connections lost since the source was opened, by the peer's address."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._asked_at = tcp_segments(proc).sent_again
        self._before = self._connections()
        self._peers: Counter[str] = Counter()

    def read(self) -> Sample:
        """The peers with most of them. Nobody is asked while few are sent again."""
        again = tcp_segments(self._proc).sent_again
        if again - self._asked_at >= _LEAST_SEGMENTS:
            self._asked_at = again
            now = self._connections()
            for (local, peer), total in now.items():
                if grown := total - self._before.get((local, peer), 0):
                    self._peers[address_of(peer)] += grown  # less where the peer says late that it had them
            self._before = now
            if len(self._peers) > MAX_COUNTED:
                self._peers = Counter(dict(self._peers.most_common(MAX_COUNTED // 2)))
        most = self._peers.most_common(MAX_PEERS)
        return Sample(values={f"tcp/{peer}/lost_segments": count for peer, count in most if count > 0})

    def close(self) -> None:
        """Nothing is open."""

    def _connections(self) -> Connections:
        return dict(read_connections(connection_lines(self._proc)))


def read_connections(lines: Iterable[str]) -> Iterator[tuple[tuple[str, str], int]]:
    """Both ends of each connection, and how many segments it lost: sent again, and the peer did not have them already.

    ``ESTAB 0 0 10.0.0.1:22 10.0.0.2:5555 cubic ... retrans:0/271 dsack_dups:6 ...``: 265. Without the words, 0.
    """
    for line in lines:
        if (ends := ends_of(line)) is not None:
            yield ends, max(_count(_SENT_AGAIN, line) - _count(_HAD_ALREADY, line), 0)


def _count(word: re.Pattern[str], line: str) -> int:
    found = word.search(line)
    return int(found[1]) if found else 0
