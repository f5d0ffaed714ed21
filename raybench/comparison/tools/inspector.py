"""What NCCL Inspector wrote, as a side: the time of every call of a collective, the slowest rank deciding. Pure."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from raybench.comparison.run_side import ALLOWED, ALLOWED_SHORT
from raybench.comparison.side import FigureKey, Side, SideFigure, blocks_of
from raybench.expectations.baseline import LEAST_BYTES
from raybench.units import exact_bytes

_MOST_CHARACTERS = 2**16  # of an object
_MOST_LOST = 0.01  # of the calls
_BEGIN = re.compile(r'\{\s{0,99}"header"')


class Header(msgspec.Struct, frozen=True):
    """The communicator."""

    id: str
    n_ranks: int
    rank: int | None = None
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


@dataclass(slots=True)
class _Call:
    """One call: the slowest time of all ranks, and which ranks told theirs."""

    seconds: float = 0.0
    ranks: set[int | None] = field(default_factory=set)


@dataclass(slots=True)
class _Calls:
    """The calls of one collective and size on communicators of ``n_ranks``, by communicator and number."""

    n_ranks: int
    calls: dict[tuple[str, int], _Call] = field(default_factory=dict)

    @property
    def whole(self) -> Sequence[tuple[str, int]]:
        """Those of which every rank told its time, or of which it is not known which rank did."""
        return [which for which, call in self.calls.items() if None in call.ranks or len(call.ranks) >= self.n_ranks]

    @property
    def samples(self) -> tuple[float, ...]:
        """In the order of their numbers: the whole ones; where there is none, what is known of all."""
        return tuple(self.calls[which].seconds for which in sorted(self.whole or self.calls, key=lambda one: one[1]))


def inspector_side(name: str, texts: Sequence[str]) -> Side:
    """A side of the files of all processes: a call is one sample, and takes as long as its slowest rank.

    A call of which a rank tells nothing may have been slower: it is left out, and the record is incomplete where that
    is more than the last calls of a job that was ended.
    """
    found: dict[tuple[FigureKey, int], _Calls] = {}
    sizes: dict[str, None] = {}
    for text in texts:
        for event in inspector_events(text):
            one, seconds = event.coll_perf, event.coll_perf.coll_exec_time_us / 1e6
            if not 0 < seconds < 1e6 or one.coll_msg_size_bytes < 1:
                continue
            sizes[f"{event.header.nnodes or 'unknown'} x {event.header.n_ranks}"] = None
            benchmark = f"{one.coll}, {event.header.n_ranks} ranks"
            key = FigureKey(benchmark=benchmark, point=exact_bytes(one.coll_msg_size_bytes))
            calls = found.setdefault((key, one.coll_msg_size_bytes), _Calls(event.header.n_ranks))
            call = calls.calls.setdefault((event.header.id, one.coll_sn), _Call())
            call.seconds = max(seconds, call.seconds)
            call.ranks.add(event.header.rank)
    lacking = tuple(_lacking(found))
    return Side(
        name=name,
        kind="record of NCCL Inspector",
        run_ids=(name,),
        machine={"nodes x ranks": ", ".join(sorted(sizes)) or "unknown"},
        environment={f"calls of {key.benchmark}, {key.point}": str(len(one.calls)) for (key, _), one in found.items()},
        outcomes={"status": "incomplete" if lacking else _known_status(found.values())},
        figures={key: _figure(size, one.samples) for (key, size), one in found.items()},
        remarks=tuple(f"{name}: {text}" for text in lacking),
    )


def _lacking(found: Mapping[tuple[FigureKey, int], _Calls]) -> Iterator[str]:
    """Of each collective what ranks did not tell."""
    for (key, _), one in found.items():
        lost = len(one.calls) - len(one.whole)
        few = max(_MOST_LOST * len(one.calls), len({which for which, _ in one.calls}))  # each broke off in its last
        if lost and (lost > few or not one.whole):
            seen = len({rank for call in one.calls.values() for rank in call.ranks})
            ranks = f"{seen} of {one.n_ranks} ranks were seen" if seen < one.n_ranks else "each was seen"
            yield f"{lost} of {len(one.calls)} calls of {key.benchmark}, {key.point} lack the time of a rank: {ranks}"


def _known_status(found: Iterable[_Calls]) -> str:
    return "unknown" if any(None in call.ranks for one in found for call in one.calls.values()) else "complete"


def _figure(message_bytes: int, samples: tuple[float, ...]) -> SideFigure:
    allowed = ALLOWED if message_bytes >= LEAST_BYTES else ALLOWED_SHORT
    return SideFigure(unit="s", runs=((blocks_of(samples),),), allowed=allowed, order=message_bytes)
