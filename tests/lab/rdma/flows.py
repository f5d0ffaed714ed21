"""Who sends RDMA data to whom, and when: RoCE v2 packets as they enter the switch, on the one clock of this machine.

What runs inside the machines is not asked. ``python flows.py DEVICE...`` watches devices until SIGTERM and prints
a line of JSON a flow; only the standard library is used, since it is started for each test.
"""

import json
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise

PAUSE_SECONDS = 2.0  # without data, after which more of it is another flow: a test sends for 3 s
_LEAST_PACKETS = 20
_LEAST_BYTES = 512  # of a packet with data; acknowledgements are shorter
_PORT = 4791  # RoCE v2, over UDP
_IPV4, _EVERY_PROTOCOL, _UDP = b"\x08\x00", 0x0003, 17
_SO_TIMESTAMPNS = 35
_HEADERS_BYTES = 64
_BUFFER_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Data from one address to another without a pause. Times are seconds since 1970, of this machine's kernel."""

    source: str
    destination: str
    begin: float
    end: float
    packets: int

    @property
    def ends(self) -> frozenset[str]:
        """The two addresses."""
        return frozenset((self.source, self.destination))


def flows_of(packets: Sequence[tuple[float, str, str]]) -> list[Flow]:
    """Flows in packets with data: when, from, to; in the order in which they came. Strays are left out."""
    recorder = _Recorder()
    for packet in packets:
        recorder.take(*packet)
    return recorder.flows()


def side_by_side(flows: Sequence[Flow]) -> Iterator[tuple[Flow, Flow]]:
    """Flows that went on at the same time."""
    for one, other in combinations(sorted(flows, key=lambda flow: flow.begin), 2):
        if other.begin < one.end:
            yield one, other


def used_twice(flows: Sequence[Flow]) -> list[str]:
    """Where an address took part in two flows at the same time, in words."""
    return [
        f"{'+'.join(sorted(one.ends & other.ends))}: {one.source} -> {one.destination} and "
        f"{other.source} -> {other.destination} for {min(one.end, other.end) - other.begin:.3f} s"
        for one, other in side_by_side(flows)
        if one.ends & other.ends
    ]


class _Recorder:
    def __init__(self) -> None:
        self._times: dict[tuple[str, str], list[float]] = {}

    def take(self, at: float, source: str, destination: str) -> None:
        self._times.setdefault((source, destination), []).append(at)

    def flows(self) -> list[Flow]:
        found = []
        for (source, destination), unsorted in self._times.items():
            times = sorted(unsorted)
            pauses = [index for index, (a, b) in enumerate(pairwise(times), start=1) if b - a > PAUSE_SECONDS]
            cuts = [0, *pauses, len(times)]
            for first, past in pairwise(cuts):
                if past - first >= _LEAST_PACKETS:
                    begin, end = times[first], times[past - 1]
                    found.append(
                        Flow(source=source, destination=destination, begin=begin, end=end, packets=past - first)
                    )
        return sorted(found, key=lambda flow: flow.begin)


def read_flow(line: str) -> Flow:
    """A line that was printed."""
    content: Mapping[str, str | float | int] = json.loads(line)
    return Flow(**content)  # type: ignore[arg-type]


def _ends(frame: bytes) -> tuple[str, str] | None:
    """Source and destination of a RoCE v2 packet with data, None for any other frame."""
    if len(frame) < 38 or frame[12:14] != _IPV4 or frame[14] != 0x45 or frame[23] != _UDP:
        return None
    (length,) = struct.unpack_from("!H", frame, 16)
    (port,) = struct.unpack_from("!H", frame, 36)
    if port != _PORT or length < _LEAST_BYTES:
        return None
    return socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])


def _socket(device: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    found.bind((device, _EVERY_PROTOCOL))
    found.setblocking(False)
    return found


def _drain(packets: socket.socket, recorder: _Recorder) -> None:
    while True:
        try:
            frame, extra, _, (_, _, kind, *_) = packets.recvmsg(_HEADERS_BYTES, 64)
        except BlockingIOError:
            return
        if kind == socket.PACKET_OUTGOING:  # each packet once: where it enters the switch
            continue
        ends = _ends(frame)
        stamp = next((data for level, name, data in extra if name == _SO_TIMESTAMPNS and len(data) >= 16), None)
        if ends is not None and stamp is not None:
            seconds, nanoseconds = struct.unpack("qq", stamp[:16])
            recorder.take(seconds + nanoseconds * 1e-9, *ends)


def main(devices: Sequence[str]) -> None:
    """Watch until SIGTERM, then print."""
    recorder, sockets = _Recorder(), [_socket(device) for device in devices]
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    print("watching", flush=True)
    while not asked:
        for ready in select.select(sockets, [], [], 0.5)[0]:
            _drain(ready, recorder)
    for flow in recorder.flows():
        print(json.dumps(asdict(flow)))


if __name__ == "__main__":
    main(sys.argv[1:])
