"""On the way to whom TCP segments are lost: asked of ``ss``, a line a connection, while the machine's count grows."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from diagnostics.agent.sources.base import Sample, SourceUnavailableError
from diagnostics.agent.sources.host import retransmitted_segments

MAX_PEERS = 16
MAX_COUNTED = 1024  # a machine may have other peers each day
_LEAST_SEGMENTS = 10  # sent again since the last look, below which nobody is asked
_COMMAND = ("ss", "-tinHO")
_LIMIT_SECONDS = 2.0
MAX_CONNECTIONS = 20_000  # at some 400 characters each
_ALLOCATED = re.compile(r"^TCP: .* alloc (\d+)", re.ASCII | re.MULTILINE)
_SENT_AGAIN = re.compile(r" retrans:\d+/(\d+)", re.ASCII)
_HAD_ALREADY = re.compile(r" dsack_dups:(\d+)", re.ASCII)
_PEER = re.compile(r"\[?(?:::ffff:)?([0-9a-fA-F.:]+)(?:%\S+)?\]?:\d+", re.ASCII)

Connections = Mapping[tuple[str, str], int]


class TcpPeers:
    """Counts what connections lost since the source was opened, by the peer's address."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._asked_at = self._machine()
        self._before = self._connections()
        self._peers: Counter[str] = Counter()

    def read(self) -> Sample:
        """The peers with most of them. Nobody is asked while few are sent again."""
        again = self._machine()
        if again - self._asked_at >= _LEAST_SEGMENTS:
            self._asked_at = again
            now = self._connections()
            for (local, peer), total in now.items():
                if grown := total - self._before.get((local, peer), 0):
                    self._peers[_address(peer)] += grown  # less where the peer says late that it had them
            self._before = now
            if len(self._peers) > MAX_COUNTED:
                self._peers = Counter(dict(self._peers.most_common(MAX_COUNTED // 2)))
        most = self._peers.most_common(MAX_PEERS)
        return Sample(values={f"tcp/{peer}/lost_segments": count for peer, count in most if count > 0})

    def close(self) -> None:
        """Nothing is open."""

    def _machine(self) -> int:
        try:
            return retransmitted_segments((self._proc / "net/snmp").read_text("ascii", "replace"))
        except (OSError, ValueError, KeyError) as error:
            raise SourceUnavailableError(f"{self._proc}/net/snmp: {error}") from error

    def _connections(self) -> Connections:
        found = _ALLOCATED.search((self._proc / "net/sockstat").read_text("ascii", "replace"))
        if found is None or int(found[1]) > MAX_CONNECTIONS:
            raise SourceUnavailableError(f"more than {MAX_CONNECTIONS:,} TCP connections, or an unknown number")
        return dict(read_connections(_asked()))


def _asked() -> str:
    """What ``ss`` says. Raises SourceUnavailableError where it is missing, fails or does not answer."""
    try:
        done = subprocess.run(
            _COMMAND,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="ascii",
            errors="replace",
            timeout=_LIMIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceUnavailableError(f"{' '.join(_COMMAND)}: {error}") from error
    return done.stdout


def read_connections(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Both ends of each connection, and how many segments it lost: sent again, and the peer did not have them already.

    ``ESTAB 0 0 10.0.0.1:22 10.0.0.2:5555 cubic ... retrans:0/271 dsack_dups:6 ...``: 265. Without the words, 0.
    """
    for line in text.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 5 or _address(fields[4]) == "":
            continue
        yield (fields[3], fields[4]), max(_count(_SENT_AGAIN, line) - _count(_HAD_ALREADY, line), 0)


def _count(word: re.Pattern[str], line: str) -> int:
    found = word.search(line)
    return int(found[1]) if found else 0


def _address(end: str) -> str:
    """``10.0.0.2`` of ``[::ffff:10.0.0.2]:5555``; empty for what is none."""
    found = _PEER.fullmatch(end)
    return found[1] if found else ""
