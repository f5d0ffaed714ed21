"""The machine's TCP connections as its kernel counts them, for what is told by peer: asked over netlink.

No program is started for it: that would cost more than all other sources together. The messages are those of
``sock_diag(7)``: ``struct inet_diag_msg`` of linux/inet_diag.h, behind it ``struct tcp_info`` of linux/tcp.h, of which
a kernel has as much as it knows, and which only ever grew at its end.
"""

import os
import socket
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from diagnostics.agent.sources.base import SourceUnavailableError

MAX_CONNECTIONS = 20_000
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_INET_DIAG_INFO = 2
_SILENT_STATES = (0, 3, 6, 7, 10)  # none, SYN_RECV, TIME_WAIT, CLOSE, LISTEN: they carry nothing (net/tcp_states.h)
_STATES = 0xFFF & ~sum(1 << state for state in _SILENT_STATES)
_LIMIT_SECONDS = 2.0
_LONGEST_ANSWER = 1 << 17
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=IHHIIBBBBI48x")
_NUMBER = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_ENDS = slice(4, 52)  # of inet_diag_msg: ports, addresses, interface, and a number that no other connection gets
_LOCAL, _PEER = slice(8, 24), slice(24, 40)
_MESSAGE_BYTES = 72
_MAPPED = bytes(10) + b"\xff\xff"
_LEAST_ROUND_TRIP_UNKNOWN = 0xFFFFFFFF
_BEGINNING = struct.Struct("=16xI80xI")  # mss, retransmitted: since Linux 2.6
_CARRIED = struct.Struct("=120xQ20xI4xI8xQQ")  # acked, least round trip, segments, busy, window full: since 4.9
_HAD_ALREADY = struct.Struct("=216xI")  # since 4.19


class Connection(NamedTuple):
    """One connection. What its kernel does not count is 0.

    ``ends`` is of this connection alone. Segments sent again, those of which the peer said that it had them; bytes
    acknowledged, seconds with data on its way, of these with the peer's window full, segments with data; the largest
    segment in bytes, and the least round trip in microseconds.
    """

    ends: bytes
    local: str
    peer: str
    sent_again: int
    had_already: int = 0
    acked: int = 0
    busy: float = 0.0
    window_full: float = 0.0
    segments: int = 0
    largest: int = 0
    round_trip: int = 0


def connections(most: int = MAX_CONNECTIONS) -> list[Connection]:
    """All that may carry data, of IPv4 and IPv6, in the network namespace of this process.

    Raises SourceUnavailableError where the kernel does not tell or does not answer, and among more than ``most``.
    """
    found: list[Connection] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as channel:
            channel.settimeout(_LIMIT_SECONDS)
            for family in (socket.AF_INET, socket.AF_INET6):
                for answer in _answers(channel, family):
                    found += read_connections(answer)
                    if len(found) > most:
                        raise SourceUnavailableError(f"more than {most:,} TCP connections")
    except (OSError, AttributeError) as error:  # no netlink, or none for this process
        raise SourceUnavailableError(f"the kernel does not tell its TCP connections: {error}") from error
    return found


def _answers(channel: socket.socket, family: int) -> Iterator[bytes]:
    """What the kernel answers for a family, until it says that this was all."""
    request = (family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _STATES)
    channel.sendto(_REQUEST.pack(_REQUEST.size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, family, 0, *request), (0, 0))
    while True:
        answer, (sender, _) = channel.recvfrom(_LONGEST_ANSWER)
        if sender != 0:
            continue  # not from the kernel
        yield answer
        for kind, sequence, body in _messages(answer):
            if sequence != family:
                continue
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -_NUMBER.unpack_from(answer, body.start)[0] if len(body) >= _NUMBER.size else 0
                raise OSError(number, os.strerror(number))


def _messages(answer: bytes) -> Iterator[tuple[int, int, range]]:
    """Type, sequence number and place of the content of each message; none behind one of a wrong length."""
    place = 0
    while place + _HEADER.size <= len(answer):
        length, kind, _, sequence, _ = _HEADER.unpack_from(answer, place)
        if not _HEADER.size <= length <= len(answer) - place:
            return
        yield kind, sequence, range(place + _HEADER.size, place + length)
        place += (length + 3) & ~3


def read_connections(answer: bytes) -> Iterator[Connection]:
    """The connections of a datagram of the kernel."""
    for kind, _, body in _messages(answer):
        if kind == _SOCK_DIAG_BY_FAMILY and len(body) >= _MESSAGE_BYTES:
            yield _connection(answer[body.start : body.start + _MESSAGE_BYTES], _info(answer, body))


def _info(answer: bytes, body: range) -> bytes:
    """The tcp_info of a message; empty without."""
    place = body.start + _MESSAGE_BYTES
    while place + _ATTRIBUTE.size <= body.stop:
        length, kind = _ATTRIBUTE.unpack_from(answer, place)
        if length < _ATTRIBUTE.size:
            break
        if kind == _INET_DIAG_INFO:
            return answer[place + _ATTRIBUTE.size : min(place + length, body.stop)]
        place += (length + 3) & ~3
    return b""


def _connection(body: bytes, info: bytes) -> Connection:
    family, size = body[0], len(info)
    largest, again = _BEGINNING.unpack_from(info) if size >= _BEGINNING.size else (0, 0)
    had = _HAD_ALREADY.unpack_from(info)[0] if size >= _HAD_ALREADY.size else 0
    ends, local, peer = body[_ENDS], _address(family, body[_LOCAL]), _address(family, body[_PEER])
    if size < _CARRIED.size:
        return Connection(ends, local, peer, again, had, largest=largest)
    acked, round_trip, segments, busy, full = _CARRIED.unpack_from(info)
    if round_trip == _LEAST_ROUND_TRIP_UNKNOWN:
        round_trip = 0
    return Connection(ends, local, peer, again, had, acked, busy / 1e6, full / 1e6, segments, largest, round_trip)


@lru_cache(1024)
def _address(family: int, field: bytes) -> str:
    """``10.0.0.2`` of IPv4, and of IPv6 that carries it."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, field[:4])
    if field[:12] == _MAPPED:
        return socket.inet_ntop(socket.AF_INET, field[12:])
    return socket.inet_ntop(socket.AF_INET6, field)
