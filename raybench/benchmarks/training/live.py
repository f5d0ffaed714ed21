"""How far a training is and what is wrong with it, from the parts that its ranks tell while it goes on. Pure.

A slow rank is told by the rule of ``straggler``, asked of one window of steps after another: it has to be named in two
of them, and by a large excess, since the rule is asked many times and what is said now cannot be taken back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite

from msgspec.structs import replace

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import own_and_wait
from raybench.benchmarks.training.findings import LARGE_EMULATED_EXCESS, LOSS_RULE
from raybench.benchmarks.training.record import TrainingRecord, joined
from raybench.benchmarks.training.straggler import LEAST_STEPS, stragglers
from raybench.benchmarks.workload import LiveRemark, Progress
from raybench.documents.run.facts import TrainingFacts, typed
from raybench.documents.run.training import Straggler

_LEAST_EXCESS = 0.1
_WINDOWS = 2  # in which a rank is named, or is not any more
_MOST_PARTS = 64  # of a rank, where another tells none
_STRAGGLER = "straggler"


@dataclass(kw_only=True)
class TrainingLive:
    """One training of one launch. ``emulated`` ranks share processors: one is slow by more before it is named."""

    spec: BenchmarkSpec
    world_size: int
    emulated: bool
    _windows: dict[int, list[TrainingRecord]] = field(default_factory=dict)  # parts that are not judged yet, by rank
    _first: TrainingRecord | None = None  # the last part of rank 0
    _before: int = 0  # nanoseconds of its clock at which the part before ended
    _judged: int = 0  # steps that have been in a window
    _diverged: bool = False
    _named: dict[int, int] = field(default_factory=dict)  # windows in a row, by rank
    _told: dict[int, int] = field(default_factory=dict)  # windows since it was last named, of those that were told

    def take(self, rank: int, part: TrainingRecord) -> Iterator[LiveRemark]:
        """A part of a rank. Gives what is to be told now."""
        if part.marks is None or not part.losses:
            return
        if rank == 0:
            self._before = self._first.marks.at[-1] if self._first and self._first.marks else part.started
            self._first = part
        yield from self._divergence(part)
        window = self._windows.setdefault(rank, [])
        window.append(part)
        del window[:-_MOST_PARTS]
        yield from self._slow_ranks()

    def progress(self) -> Progress | None:
        """How far it is, by what rank 0 told last."""
        part = self._first
        if part is None or part.marks is None:
            return None
        done, asked = part.first_step + len(part.losses), int(self.spec.options.steps)
        elapsed = (part.marks.at[-1] - part.started) / 1e9
        latest = (part.marks.at[-1] - self._before) / 1e9
        rate = self._rate(part, latest) if latest > 0 else ""
        left = elapsed / done * (asked - done) if done else None
        return Progress(done=done, total=asked, text=f"loss {part.losses[-1]:.4g}{rate}", left_seconds=left)

    def _rate(self, part: TrainingRecord, seconds: float) -> str:
        options = self.spec.options
        samples = options.batch_size * options.accumulate * self.world_size * len(part.losses) / seconds
        tokens = typed(TrainingFacts, part.facts).tokens_per_sample
        amount, unit = (samples * tokens, "tokens/s") if tokens else (samples, "samples/s")
        return f", {_short(amount)} {unit}"

    def _divergence(self, part: TrainingRecord) -> Iterator[LiveRemark]:
        step = next((step for step, loss in enumerate(part.losses, part.first_step) if not isfinite(loss)), None)
        if step is None or self._diverged:
            return
        self._diverged = True
        text = f"{part.label}: the loss is not a finite number in timed step {step + 1} of {self.spec.options.steps}"
        yield LiveRemark(rule=LOSS_RULE, severity="critical", text=text)

    def _slow_ranks(self) -> Iterator[LiveRemark]:
        launch = self._window()
        if launch is None:
            return
        found = {one.rank: one for one in stragglers(*own_and_wait(launch)) if one.excess >= self._least_excess}
        self._named = {rank: self._named.get(rank, 0) + 1 for rank in found}
        for rank, one in found.items():
            if self._named[rank] == _WINDOWS and rank not in self._told:
                yield self._slow(launch[rank].label, one)
            if self._named[rank] >= _WINDOWS:
                self._told[rank] = 0
        for rank in [rank for rank in self._told if rank not in found]:
            self._told[rank] += 1
            if self._told[rank] >= _WINDOWS:
                del self._told[rank]
                text = f"rank {rank} no longer holds up {launch[rank].label}"
                yield LiveRemark(rule=_STRAGGLER, severity="warning", text=text, rank=rank, over=True)

    @property
    def _least_excess(self) -> float:
        return LARGE_EMULATED_EXCESS if self.emulated else _LEAST_EXCESS

    def _slow(self, label: str, one: Straggler) -> LiveRemark:
        text = f"rank {one.rank} holds up {label}: its own time is {one.excess:.0%} above the others'"
        return LiveRemark(rule=_STRAGGLER, severity="warning", text=text, rank=one.rank)

    def _window(self) -> dict[int, TrainingRecord] | None:
        """The steps that all ranks have told since the last window; None while they are too few."""
        if len(self._windows) < self.world_size or self.world_size < 3:
            return None
        first = max(parts[0].first_step for parts in self._windows.values())
        begin = max(first + 1, self._judged)  # when a first step began is unknown
        end = min(parts[-1].first_step + len(parts[-1].losses) for parts in self._windows.values())
        if end - begin < LEAST_STEPS:
            return None
        self._judged = end
        launch = {rank: _between(parts, begin, end) for rank, parts in self._windows.items()}
        for rank, parts in self._windows.items():
            self._windows[rank] = [one for one in parts if one.first_step + len(one.losses) > end] or parts[-1:]
        tells = all("gradient_sync" in one.phases or one.collectives for one in launch.values())
        return launch if tells else None


def _between(parts: Sequence[TrainingRecord], begin: int, end: int) -> TrainingRecord:
    """The steps from ``begin`` to ``end`` of a rank's parts."""
    whole, first = joined(parts), parts[0].first_step
    kept = slice(begin - first, end - first)
    return replace(
        whole,
        stamps=whole.stamps[kept],
        phases={name: values[kept] for name, values in whole.phases.items()},
        losses=whole.losses[kept],
        collectives=whole.collectives[kept],
    )


def _short(amount: float) -> str:
    """``812``, ``5.2K``, ``1.31M``."""
    for least, suffix in ((1e6, "M"), (1e3, "K")):
        if amount >= least:
            return f"{amount / least:.3g}{suffix}"
    return f"{amount:.3g}"
