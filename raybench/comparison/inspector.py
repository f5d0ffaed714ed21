"""What NCCL Inspector wrote, as a side: the time of every call of a collective, the slowest rank deciding. Pure."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from raybench.comparison.run_side import ALLOWED, ALLOWED_SHORT
from raybench.comparison.side import FigureKey, Side, SideFigure, blocks_of
from raybench.expectations.baseline import LEAST_BYTES
from raybench.units import format_bytes

_MOST_CHARACTERS = 2**16  # of an object
_BEGIN = re.compile(r'\{\s{0,99}"header"')


class Header(msgspec.Struct, frozen=True):
    """The communicator."""

    id: str
    n_ranks: int
    nnodes: int = 0


class Collective(msgspec.Struct, frozen=True):
    """One call on one rank: its number on the communicator, message and time."""

    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: float


class Event(msgspec.Struct, frozen=True):
    """One object of Inspector, which writes one a rank and call, a line each.

    ``{"header":{"id":"0x7f8c","rank":0,"n_ranks":4,"nnodes":2},"coll_perf":{"coll":"AllReduce","coll_sn":1,...}}``
    """

    header: Header
    coll_perf: Collective


def inspector_events(text: str) -> Iterator[Event]:
    """The objects in a text, one a line or spread over lines; whatever else is there is passed over."""
    decoder, end = json.JSONDecoder(), 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < end:
            continue  # within an object
        try:
            content, end = decoder.raw_decode(text[begin.start() : begin.start() + _MOST_CHARACTERS])
        except RecursionError:
            end = begin.start() + _MOST_CHARACTERS
            continue
        except ValueError:  # cut: what follows begins a line
            end = text.find("\n", begin.start()) % (len(text) + 1)
            continue
        end += begin.start()
        with contextlib.suppress(msgspec.ValidationError):
            yield msgspec.convert(content, Event)


def inspector_side(name: str, texts: Sequence[str]) -> Side:
    """A side of the files of all processes: a call is one sample, and takes as long as its slowest rank."""
    calls: dict[tuple[FigureKey, int], dict[tuple[str, int], float]] = {}
    sizes: dict[str, None] = {}
    for text in texts:
        for event in inspector_events(text):
            one, seconds = event.coll_perf, event.coll_perf.coll_exec_time_us / 1e6
            if not 0 < seconds < 1e6 or one.coll_msg_size_bytes < 1:
                continue
            sizes[f"{event.header.nnodes or 'unknown'} x {event.header.n_ranks}"] = None
            benchmark = f"{one.coll}, {event.header.n_ranks} ranks"
            key = FigureKey(benchmark=benchmark, point=format_bytes(one.coll_msg_size_bytes))
            call = calls.setdefault((key, one.coll_msg_size_bytes), {})
            which = event.header.id, one.coll_sn
            call[which] = max(seconds, call.get(which, 0.0))
    return Side(
        name=name,
        kind="record of NCCL Inspector",
        run_ids=(name,),
        machine={"nodes x ranks": ", ".join(sorted(sizes)) or "unknown"},
        figures={key: _figure(size, call) for (key, size), call in calls.items()},
    )


def _figure(message_bytes: int, calls: "dict[tuple[str, int], float]") -> SideFigure:
    samples = tuple(seconds for _, seconds in sorted(calls.items(), key=lambda call: call[0][1]))
    allowed = ALLOWED if message_bytes >= LEAST_BYTES else ALLOWED_SHORT
    return SideFigure(unit="s", runs=((blocks_of(samples),),), allowed=allowed, order=message_bytes)
