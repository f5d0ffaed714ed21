"""How far a training is and what is wrong with it, from the parts that its ranks tell while it goes on. Pure.

A slow rank is told by the rule of ``straggler``: see ``stragglers``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.findings import LOSS_RULE
from raybench.benchmarks.training.live.stragglers import LiveStragglers
from raybench.benchmarks.training.record import TrainingRecord
from raybench.benchmarks.workload import LiveRemark, Progress
from raybench.documents.run.facts import TrainingFacts, typed


@dataclass(kw_only=True)
class TrainingLive:
    """One training of one launch. ``emulated`` ranks share processors: one is slow by more before it is named."""

    spec: BenchmarkSpec
    world_size: int
    emulated: bool
    _first: TrainingRecord | None = None  # the last part of rank 0
    _before: int = 0  # nanoseconds of its clock at which the part before ended
    _diverged: bool = False
    _stragglers: LiveStragglers = field(init=False)

    def __post_init__(self) -> None:
        self._stragglers = LiveStragglers(world_size=self.world_size, emulated=self.emulated)

    def take(self, rank: int, part: TrainingRecord) -> Iterator[LiveRemark]:
        """A part of a rank. Gives what is to be told now."""
        if part.marks is None or not part.losses:
            return
        if rank == 0:
            self._before = self._first.marks.at[-1] if self._first and self._first.marks else part.started
            self._first = part
        yield from self._divergence(part)
        yield from self._stragglers.take(rank, part)

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


def _short(amount: float) -> str:
    """``812``, ``5.2K``, ``1.31M``."""
    for least, suffix in ((1e6, "M"), (1e3, "K")):
        if amount >= least:
            return f"{amount / least:.3g}{suffix}"
    return f"{amount:.3g}"
