"""How fast TCP carries bulk data to each peer while it has any to carry: asked of ``ss``, a line a connection.

The kernel counts the bytes that a peer has acknowledged, and the time in which a connection had data that was not
acknowledged yet. The one over the other is what the path carries when it is asked to, whatever the sender does in
between. Times in which the peer's window was full are its own, not the path's, and are taken out.

Counted are connections that carry bulk data: full segments, an eighth at least of what the busiest one to that peer
carries. What else goes to a peer, words of a daemon now and then, waits for late acknowledgements and tells no rate.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from diagnostics.agent.sources.base import Sample
from diagnostics.agent.sources.host import sent_to_others, tcp_segments
from diagnostics.agent.sources.tcp_connections import address_of, connection_lines, ends_of

MAX_PEERS = 16
MAX_COUNTED = 1024  # a machine may have other peers each day
MAX_CONNECTIONS = 4096  # asked each second: a millisecond for a few hundred
_LEAST_SEGMENTS = 200  # sent by the machine since the last look, below which nobody is asked
_LEAST_BYTES = 64 * 1024  # by a connection since the last look
_LEAST_TOLD = 2**20
_FULL = 0.7  # of the largest segment, what the mean one holds in bulk
_OF_BUSIEST = 1 / 8
_WINDOW_SHARE = 0.5  # of the time: more of it with a full window tells of the peer's processes, not of the path
_WORDS = {
    word: re.compile(rf" {word}:(\d+(?:\.\d+)?)", re.ASCII)
    for word in ("bytes_acked", "busy", "rwnd_limited", "data_segs_out", "mss", "minrtt")
}


class Carried(NamedTuple):
    """What one connection carried.

    Bytes acknowledged, seconds with data on its way, of these with the peer's window full, segments with data; the
    largest segment in bytes, and the least round trip in microseconds.
    """

    acked: float
    busy: float
    window_full: float
    segments: float
    largest: float
    round_trip: float

    def since(self, before: "Carried | None") -> "Carried":
        """What was carried since an earlier look."""
        if before is None or self.acked < before.acked:  # another connection between the same ends
            return self
        return self._replace(
            acked=self.acked - before.acked,
            busy=self.busy - before.busy,
            window_full=self.window_full - before.window_full,
            segments=self.segments - before.segments,
        )

    @property
    def is_bulk(self) -> bool:
        """Whether it tells what the path carries."""
        return (
            self.acked >= _LEAST_BYTES
            and self.acked >= _FULL * self.largest * self.segments
            and self.window_full <= _WINDOW_SHARE * self.busy
        )


Ends = tuple[str, str]
Connections = Mapping[Ends, Carried]


class TcpPaths:
    """Counts what connections to other machines carried since the source was opened, by the peer's address."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._asked_at, self._sent_at = tcp_segments(proc).sent, sent_to_others(proc)
        self._before = self._connections()
        self._acked: Counter[str] = Counter()
        self._busy: dict[str, float] = {}
        self._round_trip: dict[str, float] = {}

    def read(self) -> Sample:
        """The peers to which most was carried. Nobody is asked while little is sent to other machines."""
        if self._is_sending():
            now = self._connections()
            for (_, peer), one in bulk_of({ends: one.since(self._before.get(ends)) for ends, one in now.items()}):
                self._add(address_of(peer), one)
            self._before = now
            self._forget()
        values: dict[str, float] = {}
        for peer, count in self._acked.most_common(MAX_PEERS):
            if count >= _LEAST_TOLD:
                values[f"tcp/{peer}/carried_bytes"] = count
                values[f"tcp/{peer}/carrying_seconds"] = round(self._busy[peer], 3)
                values[f"tcp/{peer}/least_round_trip_microseconds"] = self._round_trip[peer]
        return Sample(values=values)

    def close(self) -> None:
        """Nothing is open."""

    def _is_sending(self) -> bool:
        """Whether so much was sent since it last was that a connection may have carried bulk data.

        Most segments of a machine whose daemons talk with each other go to itself.
        """
        segments = tcp_segments(self._proc).sent
        if segments - self._asked_at < _LEAST_SEGMENTS:
            return False
        sent, before = sent_to_others(self._proc), self._sent_at
        if sent is not None and before is not None and 0 <= sent - before < _LEAST_BYTES:
            return False  # fewer than none: an interface has gone
        self._asked_at, self._sent_at = segments, sent
        return True

    def _connections(self) -> Connections:
        return dict(read_carried(connection_lines(self._proc, MAX_CONNECTIONS)))

    def _add(self, peer: str, one: Carried) -> None:
        self._acked[peer] += round(one.acked)
        self._busy[peer] = self._busy.get(peer, 0.0) + max(one.busy - one.window_full, 0.0)
        self._round_trip[peer] = min(self._round_trip.get(peer, one.round_trip), one.round_trip)

    def _forget(self) -> None:
        if len(self._acked) > MAX_COUNTED:
            self._acked = Counter(dict(self._acked.most_common(MAX_COUNTED // 2)))
            self._busy = {peer: self._busy[peer] for peer in self._acked}
            self._round_trip = {peer: self._round_trip[peer] for peer in self._acked}


def bulk_of(connections: Connections) -> Iterator[tuple[Ends, Carried]]:
    """Those that carry bulk data, beside the busiest to the same peer."""
    most: dict[str, float] = {}
    for (_, peer), one in connections.items():
        most[address_of(peer)] = max(most.get(address_of(peer), 0.0), one.acked)
    for ends, one in connections.items():
        if one.is_bulk and one.acked >= _OF_BUSIEST * most[address_of(ends[1])]:
            yield ends, one


def read_carried(lines: Iterable[str]) -> Iterator[tuple[Ends, Carried]]:
    """Both ends of each connection to another machine, and what it carried; none without these words (before 4.9).

    ``ESTAB 0 0 10.88.0.2:9 10.88.0.1:5 cubic ... mss:1448 ... bytes_acked:35937093 ... data_segs_out:24820 ...
    busy:13940ms rwnd_limited:40ms(0.3%) ... minrtt:0.052``.
    """
    for line in lines:
        ends = ends_of(line)
        if ends is None or address_of(ends[0]) == address_of(ends[1]):
            continue
        acked, busy, window_full, segments, largest, round_trip = (_number(word, line) for word in _WORDS.values())
        if acked and segments and largest and round_trip:
            yield ends, Carried(acked, busy / 1e3, window_full / 1e3, segments, largest, round_trip * 1e3)


def _number(word: re.Pattern[str], line: str) -> float:
    found = word.search(line)
    return float(found[1]) if found else 0.0
