"""How fast TCP carries bulk data to each peer while it has any to carry, as its connections tell.

The kernel counts the bytes that a peer has acknowledged, and the time in which a connection had data that was not
acknowledged yet. The one over the other is what the path carries when it is asked to, whatever the sender does in
between. Times in which the peer's window was full are its own, not the path's, and are taken out.

Counted are connections that carry bulk data: full segments, an eighth at least of what the busiest one to that peer
carries. What else goes to a peer, words of a daemon now and then, waits for late acknowledgements and tells no rate.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from diagnostics.agent.sources.base import Sample
from diagnostics.agent.sources.tcp_connections import Connection, connections
from diagnostics.agent.sources.tcp_counters import TcpCounters

MAX_PEERS = 16
MAX_COUNTED = 1024  # a machine may have other peers each day
MAX_CONNECTIONS = 4096  # asked each second: a millisecond for a few hundred
_LEAST_SEGMENTS = 200  # sent by the machine since the last look, below which nobody is asked
_LEAST_BYTES = 64 * 1024  # by a connection since the last look
_LEAST_TOLD = 2**20
_FULL = 0.7  # of the largest segment, what the mean one holds in bulk
_OF_BUSIEST = 1 / 8
_WINDOW_SHARE = 0.5  # of the time: more of it with a full window tells of the peer's processes, not of the path


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
        if before is None:
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


Ends = tuple[bytes, str]  # of a connection, and its peer
Connections = Mapping[Ends, Carried]
Asked = Callable[[], Iterable[Connection]]


class TcpPaths:
    """Counts what connections to other machines carried since the source was opened, by the peer's address."""

    def __init__(self, proc: Path, ask: Asked | None = None) -> None:
        self._ask = ask or partial(connections, MAX_CONNECTIONS)
        self._before = self._connections()
        self._counters = TcpCounters(proc)
        self._asked_at, self._sent_at = self._counters.at_first.sent, self._counters.sent_to_others()
        self._acked: Counter[str] = Counter()
        self._busy: dict[str, float] = {}
        self._round_trip: dict[str, float] = {}

    def read(self) -> Sample:
        """The peers to which most was carried. Nobody is asked while little is sent to other machines."""
        if self._is_sending():
            now = self._connections()
            for (_, peer), one in bulk_of({ends: one.since(self._before.get(ends)) for ends, one in now.items()}):
                self._add(peer, one)
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
        """Close the files."""
        self._counters.close()

    def _is_sending(self) -> bool:
        """Whether so much was sent since it last was that a connection may have carried bulk data.

        Most segments of a machine whose daemons talk with each other go to itself.
        """
        segments = self._counters.segments().sent
        if segments - self._asked_at < _LEAST_SEGMENTS:
            return False
        sent, before = self._counters.sent_to_others(), self._sent_at
        if sent is not None and before is not None and 0 <= sent - before < _LEAST_BYTES:
            return False  # fewer than none: an interface has gone
        self._asked_at, self._sent_at = segments, sent
        return True

    def _connections(self) -> Connections:
        return dict(carried_of(self._ask()))

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
        most[peer] = max(most.get(peer, 0.0), one.acked)
    for ends, one in connections.items():
        if one.is_bulk and one.acked >= _OF_BUSIEST * most[ends[1]]:
            yield ends, one


def carried_of(found: Iterable[Connection]) -> Iterator[tuple[Ends, Carried]]:
    """Each connection to another machine, and what it carried; none that its kernel does not count (before 4.9)."""
    for one in found:
        if one.acked and one.segments and one.largest and one.round_trip and one.local != one.peer:
            carried = Carried(one.acked, one.busy, one.window_full, one.segments, one.largest, one.round_trip)
            yield (one.ends, one.peer), carried
