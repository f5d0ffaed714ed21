"""Which ranks hold up a training now, from the parts that its ranks tell while it goes on. Pure.

The rule of ``straggler`` is asked of the last steps again and again: of few seconds, which show a steady fault soon,
and of more, which show a fitful one at all. What is said now cannot be taken back, so a rank has to be named by a large
excess, by three judgements in a row, which are about a second apart. Where it is slow since others take its processor,
by what its kernel says, that is told and not the rank.

Beside busy neighbours all ranks are slow, and one that needs three times as long for its own work takes half as long
again. The kernel says for how long each was ready to run and had no processor: without that time, healthy ranks of a
crowd (load 13 on two processors) differed by some 5 %, and one that was stopped for two thirds of the time by a factor
of three. So a rank is named as well where what is left is twice the others' throughout, and it waits least of all.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from msgspec.structs import replace

from raybench.benchmarks.training.combine import own_and_wait
from raybench.benchmarks.training.findings import LARGE_EMULATED_EXCESS, straggler_text
from raybench.benchmarks.training.record import TrainingRecord, joined
from raybench.benchmarks.training.straggler import LEAST_STEPS, stragglers
from raybench.benchmarks.workload import LiveRemark
from raybench.documents.run.training.straggler import Straggler
from raybench.stats import median

WINDOWS_SECONDS = (2.0, 10.0)
# For which a rank is named before it is told: by three judgements, whose parts come a little more or less than a second
# apart, and by two.
_LASTING_SECONDS, _UNHINDERED_SECONDS = 1.7, 0.9
_CALM_SECONDS = 4.0  # for which it is not before it is told that it no longer is slow
_PERIOD_SECONDS = 0.9  # between two judgements: ranks tell their parts each second
_LEAST_EXCESS = 0.1
_FEW_STEPS = 6  # in which a rank may be named by its time without a wait for processors
_THIRDS = 3
_LEAST_FACTOR = 2.0  # of that time over the others'
_LEAST_COST = 0.2  # of the others' own time, what it needs more
_LEAST_CONTENDED = 0.5  # of an excess: for so much of it the rank was ready to run
_MOST_PARTS = 64  # of a rank, where another tells none
_LEAST_GROUPS, _MOST_GROUPS = 40, 200  # of steps in a row, which are judged as one: what many ranks tell costs time
_MOST_VALUES = 20_000  # of all ranks
_STRAGGLER = "straggler"
_CONTENDED = "contended-while-measured"  # whose findings timeline/rules/processors_contended.py makes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Some steps of all ranks: own and waiting seconds by rank, and how long each was ready."""

    own: Mapping[int, Sequence[float]]
    wait: Mapping[int, Sequence[float]]
    ready: Mapping[int, float]
    unhindered: Sequence[Mapping[int, float]]  # by third of the window: own seconds without those in which it was ready

    def found(self, least_excess: float) -> list[Straggler]:
        """The ranks that hold up the others by so much."""
        groups = min(max(_MOST_VALUES // len(self.own), _LEAST_GROUPS), _MOST_GROUPS)
        own, wait = ({rank: _grouped(one, groups) for rank, one in each.items()} for each in (self.own, self.wait))
        return [one for one in stragglers(own, wait) if one.excess >= least_excess]

    def slow_unhindered(self) -> Iterator[Straggler]:
        """A rank that is half as fast as the others where it has a processor, and that they wait for."""
        if any(len(third) < len(self.own) for third in self.unhindered):
            return
        own, wait = ({rank: sum(one) for rank, one in each.items()} for each in (self.own, self.wait))
        last = min(wait, key=lambda rank: wait[rank])  # the one that the others wait for
        others = own[last] - _above(own, last)
        more = sum(_above(third, last) for third in self.unhindered)
        throughout = all(_is_twice(third, last) for third in self.unhindered)
        if throughout and more >= _LEAST_COST * others and own[last] >= (1 + _LEAST_EXCESS) * others:
            yield Straggler(
                rank=last,
                excess=own[last] / others - 1,
                z=None,
                own_seconds=own[last] / len(self.own[last]),
                wait_seconds=wait[last] / len(self.own[last]),
                others_wait_seconds=median([one for rank, one in wait.items() if rank != last]) / len(self.own[last]),
            )

    def is_contended(self, one: Straggler) -> bool:
        """Whether the rank was ready to run, and had no processor, for most of what its own time is longer."""
        if len(self.ready) < len(self.own):
            return False
        own = {rank: sum(values) for rank, values in self.own.items()}
        longer, ready = _above(own, one.rank), _above(self.ready, one.rank)
        return ready >= _LEAST_CONTENDED * longer


@dataclass(slots=True)
class _Named:
    """A rank that windows name: since when, and when last; by which rule that was told."""

    first: float
    last: float
    rule: str | None = None


@dataclass(kw_only=True)
class LiveStragglers:
    """One training of one launch. ``emulated`` ranks share processors: one is slow by more before it is named."""

    world_size: int
    emulated: bool
    _parts: dict[int, list[TrainingRecord]] = field(default_factory=dict)  # by rank, those that windows need
    _judged: float = 0.0  # seconds of rank 0's clock
    _named: dict[int, _Named] = field(default_factory=dict)

    def take(self, rank: int, part: TrainingRecord) -> Iterator[LiveRemark]:
        """A part of a rank, with its marks. Gives what is to be told now."""
        parts = self._parts.setdefault(rank, [])
        timed = _timed(part, parts[-1] if parts else None)
        if parts and not _follows(timed, parts[-1]):
            parts.clear()
        parts.append(timed)
        del parts[:-_MOST_PARTS]
        if len(self._parts) < self.world_size or self.world_size < 3:
            return
        end = min(_after(parts[-1]) for parts in self._parts.values())
        windows = self._windows(end)
        if windows:
            yield from self._judge(windows, part.label)

    def _windows(self, end: int) -> list[_Window]:
        """The last steps that all ranks have told, few and more of them; none where these have been judged before."""
        first = max(parts[0].first_step for parts in self._parts.values()) + 1  # when a first step began is unknown
        if end - first < _FEW_STEPS:
            return []
        launch = {rank: _between(parts, first, end) for rank, parts in self._parts.items()}
        ends = launch[min(launch)].stamps
        if ends[-1] - self._judged < _PERIOD_SECONDS:
            return []
        self._judged = ends[-1]
        if not _tell_waiting(launch):
            return []
        own, wait = own_and_wait(launch)
        within = [len(ends) - bisect_left(ends, ends[-1] - seconds) for seconds in WINDOWS_SECONDS]
        counts = [max(within[0], _FEW_STEPS), *(max(one, LEAST_STEPS) for one in within)]
        self._forget(end - counts[-1] - 1)
        return [
            _Window(
                own={rank: values[-count:] for rank, values in own.items()},
                wait={rank: values[-count:] for rank, values in wait.items()},
                ready=_ready(self._parts, end - count, end),
                unhindered=_unhindered(own, self._parts, end - count, end),
            )
            for count in dict.fromkeys(min(one, end - first) for one in counts)
        ]

    def _forget(self, begin: int) -> None:
        for parts in self._parts.values():
            while len(parts) > 1 and parts[1].first_step <= begin:
                del parts[0]

    def _judge(self, windows: Sequence[_Window], label: str) -> Iterator[LiveRemark]:
        least = LARGE_EMULATED_EXCESS if self.emulated else _LEAST_EXCESS
        found: dict[int, tuple[_Window, Straggler, float]] = {}
        for window in windows:
            for one in window.found(least):
                found.setdefault(one.rank, (window, one, _LASTING_SECONDS))
        for one in windows[0].slow_unhindered() if not found else ():
            found[one.rank] = windows[0], one, _UNHINDERED_SECONDS
        for rank, (window, one, lasting) in found.items():
            named = self._named.setdefault(rank, _Named(first=self._judged, last=self._judged))
            named.last = self._judged
            lasts = self._judged - named.first >= lasting
            if lasts and named.rule is None and (remark := self._remark(window, one, label)):
                named.rule = remark.rule
                yield remark
        yield from self._over(found, label)

    def _over(self, found: Mapping[int, object], label: str) -> Iterator[LiveRemark]:
        """Ranks that no window names any more."""
        for rank in [rank for rank in self._named if rank not in found]:
            named = self._named[rank]
            is_calm = self._judged - named.last >= _CALM_SECONDS
            if named.rule is None or is_calm:
                del self._named[rank]
            if named.rule is not None and is_calm:
                text = f"rank {rank} no longer holds up {label}"
                yield LiveRemark(rule=named.rule, severity="warning", text=text, rank=rank, over=True)

    def _remark(self, window: _Window, one: Straggler, label: str) -> LiveRemark | None:
        text = straggler_text(label, one)
        if not window.is_contended(one):
            return LiveRemark(rule=_STRAGGLER, severity="warning", text=text, rank=one.rank)
        if self.emulated:  # where ranks take each other's processors
            return None
        text = f"{text}, most of which it is ready to run while others have its processor"
        return LiveRemark(rule=_CONTENDED, severity="warning", text=text, rank=one.rank)


def _timed(part: TrainingRecord, before: TrainingRecord | None) -> TrainingRecord:
    """A part with its stamps and phases, and without its marks."""
    timed = joined([part], before.stamps[-1] if before else 0.0)
    return replace(timed, first_step=part.first_step, ready_seconds=part.ready_seconds)


def _between(parts: Sequence[TrainingRecord], begin: int, end: int) -> TrainingRecord:
    """The steps from ``begin`` to ``end`` of a rank's parts."""
    kept = slice(begin - parts[0].first_step, end - parts[0].first_step)
    known = all(len(one.collectives) == len(one.stamps) for one in parts)
    return replace(
        parts[-1],
        stamps=tuple(chain.from_iterable(one.stamps for one in parts))[kept],
        phases={
            name: tuple(chain.from_iterable(one.phases.get(name, ()) for one in parts))[kept]
            for name in parts[0].phases
        },
        losses=(),
        collectives=tuple(chain.from_iterable(one.collectives for one in parts))[kept] if known else (),
    )


def _follows(part: TrainingRecord, before: TrainingRecord) -> bool:
    return part.first_step == _after(before) and part.phases.keys() == before.phases.keys()


def _tell_waiting(launch: Mapping[int, TrainingRecord]) -> bool:
    """Whether the records of all ranks tell their own time from their waiting, and in the same way."""
    shards = {bool(record.collectives) for record in launch.values()}
    return shards == {True} or (shards == {False} and all("gradient_sync" in one.phases for one in launch.values()))


def _ready(parts: Mapping[int, Sequence[TrainingRecord]], begin: int, end: int) -> dict[int, float]:
    """For how long each rank was ready to run meanwhile, of those whose kernel says so."""
    found = {}
    for rank, its in parts.items():
        within = [(part, min(end, _after(part)) - max(begin, part.first_step)) for part in its]
        known = [(part.ready_seconds, steps / len(part.stamps)) for part, steps in within if steps > 0]
        if all(seconds is not None for seconds, _ in known):
            found[rank] = sum((seconds or 0.0) * share for seconds, share in known)
    return found


def _unhindered(
    own: Mapping[int, Sequence[float]], parts: Mapping[int, Sequence[TrainingRecord]], begin: int, end: int
) -> list[dict[int, float]]:
    """Own seconds of each rank without those in which it was ready, of those whose kernel says so, by third."""
    bounds = [begin + (end - begin) * third // _THIRDS for third in range(_THIRDS + 1)]
    return [
        {
            rank: max(sum(own[rank][first - end : after - end or None]) - ready, 0.0)
            for rank, ready in _ready(parts, first, after).items()
        }
        for first, after in pairwise(bounds)
    ]


def _is_twice(seconds: Mapping[int, float], rank: int) -> bool:
    return seconds[rank] >= _LEAST_FACTOR * (seconds[rank] - _above(seconds, rank)) > 0


def _after(part: TrainingRecord) -> int:
    return part.first_step + len(part.stamps)


def _grouped(values: Sequence[float], most: int) -> list[float]:
    """The sums of steps in a row, so many at most."""
    if len(values) <= most:
        return list(values)
    bounds = [len(values) * group // most for group in range(most + 1)]
    return [sum(values[begin:end]) for begin, end in pairwise(bounds)]


def _above(seconds: Mapping[int, float], rank: int) -> float:
    return seconds[rank] - median([one for other, one in seconds.items() if other != rank])
