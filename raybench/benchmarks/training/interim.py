"""What a rank tells of its timed steps while they go on, so that a run that is cut keeps them.

A part is told between two steps, and so takes its time from them. It is told seldom enough for that to be nothing: at
most every ``LEAST_SECONDS``, and at most ``LARGEST_SHARE`` of the time since the part before, but often enough for a
slow rank to be seen: every ``MOST_SECONDS``. What counts is the processor's time: a rank that loses its processor while
it tells has not taken long to tell. On a GPU a part holds the steps that the device has ended by then, and nothing is
waited for.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from raybench.benchmarks.training.clock import PhaseClock
from raybench.benchmarks.training.record import Check, Exposure, StepMarks, TrainingRecord, Validation
from raybench.benchmarks.training.usage import Usage
from raybench.benchmarks.training.waiting import CollectiveClock

LEAST_SECONDS = 1.0
MOST_SECONDS = 2.0
LARGEST_SHARE = 0.001
UNCHECKED = Check(reason="the run ended before the check")
UNEXPOSED = Exposure(remarks=("exposed communication was not measured: the run ended before",))


class Parts:
    """The parts of one launch. ``losses`` and ``validations`` grow with the steps.

    ``waiting`` is None where nothing is timed there.
    """

    def __init__(  # noqa: PLR0917 - what a record is made of
        self,
        label: str,
        facts: dict[str, Any],
        clock: PhaseClock,
        usage: Usage,
        waiting: CollectiveClock | None,
        losses: Sequence[torch.Tensor],
        validations: Sequence[Validation] = (),
    ) -> None:
        self._label, self._facts = label, facts
        self._clock, self._usage, self._waiting, self._losses = clock, usage, waiting, losses
        self._validations = validations
        self._known = 0  # steps that were told
        self._stream: Any = None
        self._ready = ready_seconds()
        self._due = time.perf_counter() + LEAST_SECONDS

    @property
    def is_due(self) -> bool:
        """Whether it is time for a part."""
        return time.perf_counter() >= self._due

    def tell(self) -> Iterator[TrainingRecord]:
        """The part that is known now, if any. Whoever takes it has sent it when it asks for more."""
        begun = time.thread_time()
        later = self._clock.later(self._known)
        if later:
            yield self._part(later)
        taken = time.thread_time() - begun
        self._due = time.perf_counter() + min(max(LEAST_SECONDS, taken / LARGEST_SHARE), MOST_SECONDS)

    def _part(self, later: Sequence[Mapping[str, int]]) -> TrainingRecord:
        first, after = self._known, self._known + len(later)
        self._known = after
        before, self._ready = self._ready, ready_seconds()
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
            validations=tuple(self._validations),
            ready_seconds=None if before is None or self._ready is None else self._ready - before,
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


def ready_seconds() -> float | None:
    """For how long this thread has been ready to run and had no processor; None where the kernel does not say.

    The second figure of schedstat, nanoseconds (Documentation/scheduler/sched-stats.rst). A thread that is stopped or
    sleeps is not ready.
    """
    try:
        text = Path("/proc/thread-self/schedstat").read_text(encoding="ascii")
        return int(text.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
