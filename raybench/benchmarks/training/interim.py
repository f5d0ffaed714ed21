"""What a rank tells of its timed steps while they go on, so that a run that is cut keeps them.

A part is told between two steps, and so takes its time from them. It is told seldom enough for that to be nothing: at
most every ``LEAST_SECONDS``, and at most ``LARGEST_SHARE`` of the time since the part before. On a GPU a part holds the
steps that the device has ended by then, and nothing is waited for.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from raybench.benchmarks.training.clock import PhaseClock
from raybench.benchmarks.training.record import Check, Exposure, StepMarks, TrainingRecord
from raybench.benchmarks.training.usage import Usage
from raybench.benchmarks.training.waiting import CollectiveClock

LEAST_SECONDS = 2.0
LARGEST_SHARE = 0.001
UNCHECKED = Check(reason="the run ended before the check")
UNEXPOSED = Exposure(remarks=("exposed communication was not measured: the run ended before",))


class Parts:
    """The parts of one launch. ``losses`` grows with the steps; ``waiting`` is None where nothing is timed there."""

    def __init__(
        self,
        label: str,
        facts: dict[str, Any],
        clock: PhaseClock,
        usage: Usage,
        waiting: CollectiveClock | None,
        losses: Sequence[torch.Tensor],
    ) -> None:
        self._label, self._facts = label, facts
        self._clock, self._usage, self._waiting, self._losses = clock, usage, waiting, losses
        self._known = 0  # steps that were told
        self._stream: Any = None
        self._due = time.perf_counter() + LEAST_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether it is time for a part."""
        return time.perf_counter() >= self._due

    def tell(self) -> Iterator[TrainingRecord]:
        """The part that is known now, if any. Whoever takes it has sent it when it asks for more."""
        begun = time.perf_counter()
        later = self._clock.later(self._known)
        if later:
            yield self._part(later)
        now = time.perf_counter()
        self._due = now + max(LEAST_SECONDS, (now - begun) / LARGEST_SHARE)

    def _part(self, later: Sequence[Mapping[str, int]]) -> TrainingRecord:
        first, after = self._known, self._known + len(later)
        self._known = after
        return TrainingRecord(
            label=self._label,
            stamps=(),
            phases={},
            marks=StepMarks(names=tuple(later[0]), at=tuple(at for marks in later for at in marks.values())),
            started=self._clock.started,
            losses=self._values(self._losses[first:after]),
            collectives=self._waiting.of(first, after) if self._waiting else (),
            memory=self._usage.memory(),
            utilization=self._usage.utilization(),
            exposure=UNEXPOSED,
            check=UNCHECKED,
            facts=self._facts,
            interim=True,
            first_step=first,
        )

    def _values(self, losses: Sequence[torch.Tensor]) -> tuple[float, ...]:  # gpu: qlora-7b-own
        """Losses of steps that are over: of a GPU on a stream of its own, which waits for none that is not."""
        if losses[0].device.type != "cuda":
            return tuple(torch.stack(tuple(losses)).tolist())
        if self._stream is None:
            make: Any = torch.cuda.Stream
            self._stream = make(losses[0].device)
        with torch.cuda.stream(self._stream):
            return tuple(float(loss.item()) for loss in losses)
