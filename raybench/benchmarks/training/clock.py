"""When each phase of a step began and ended: the monotonic clock on a CPU, events on the stream of a GPU.

On a GPU nothing is waited for within a step; the events are read when the steps are over.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Protocol

import torch

Marks = list[tuple[str, float]]  # of one step, in order: name, and seconds since the clock began


class PhaseClock(Protocol):
    """Marks of one step after another."""

    @property
    def started(self) -> int:
        """The moment that ``later`` counts from."""

    def mark(self, name: str) -> None:
        """Something named ends here; where the name was marked in this step before, the later one counts."""

    def end_step(self) -> None:
        """The step is over."""

    def pausing(self) -> contextlib.AbstractContextManager[None]:
        """What is done within, between two steps, is in neither."""

    def later(self, known: int) -> Sequence[dict[str, int]]:
        """The marks of the steps after the ``known`` ones, as far as they are over by now, in nanoseconds.

        They count from ``started``. Waits for nothing. To be asked with the number of all steps that it has given.
        """

    def read(self) -> tuple[list[float], list[Marks]]:
        """Seconds from ``begin`` to the end of each step, and in each the marks in order, as (name, seconds so far)."""


class HostClock:
    """The monotonic clock, read at each mark."""

    def __init__(self) -> None:
        self._begin = time.perf_counter_ns()
        self._steps: list[dict[str, int]] = []
        self._marks: dict[str, int] = {}
        self._paused = 0

    def mark(self, name: str) -> None:
        """See PhaseClock."""
        self._marks.pop(name, None)
        self._marks[name] = time.perf_counter_ns() - self._paused

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """See PhaseClock."""
        begun = time.perf_counter_ns()
        try:
            yield
        finally:
            self._paused += time.perf_counter_ns() - begun

    def end_step(self) -> None:
        """See PhaseClock."""
        self.mark("end")
        self._steps.append(self._marks)
        self._marks = {}

    @property
    def started(self) -> int:
        """See PhaseClock."""
        return self._begin

    def later(self, known: int) -> Sequence[dict[str, int]]:
        """See PhaseClock."""
        return self._steps[known:]

    def read(self) -> tuple[list[float], list[Marks]]:
        """See PhaseClock."""
        steps = [[(name, (at - self._begin) / 1e9) for name, at in marks.items()] for marks in self._steps]
        return [marks[-1][1] for marks in steps], steps


class DeviceClock:  # gpu: train-ddp, step-parity
    """Events on the current stream. A mark set again within a step moves its event."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begin = self._event()
        self._begin.record()
        self._steps: list[dict[str, Any]] = []
        self._marks: dict[str, Any] = {}
        self._resumed: dict[int, Any] = {}  # where a step began other than at the end of the one before
        self._told = 0.0  # seconds to the end of the last step that was given

    @staticmethod
    def _event() -> Any:
        make: Any = torch.cuda.Event
        return make(enable_timing=True)

    def mark(self, name: str) -> None:
        """See PhaseClock."""
        event = self._marks.pop(name, None) or self._event()
        event.record()
        self._marks[name] = event

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """See PhaseClock."""
        try:
            yield
        finally:
            self._resumed[len(self._steps)] = event = self._event()
            event.record()

    def end_step(self) -> None:
        """See PhaseClock."""
        self.mark("end")
        self._steps.append(self._marks)
        self._marks = {}

    @property
    def started(self) -> int:
        """See PhaseClock."""
        return 0

    def later(self, known: int) -> Sequence[dict[str, int]]:
        """See PhaseClock. The device comes to the end of a step after all else that was queued in it."""
        over = takewhile(lambda events: bool(events["end"].query()), self._steps[known:])
        steps = self._seconds(over, known, self._told)
        self._told = steps[-1][-1][1] if steps else self._told
        return [{name: round(at * 1e9) for name, at in marks} for marks in steps]

    def read(self) -> tuple[list[float], list[Marks]]:
        """See PhaseClock."""
        torch.cuda.synchronize(self._device)
        steps = self._seconds(self._steps, 0, 0.0)
        return [marks[-1][1] for marks in steps], steps

    def _seconds(self, later: Iterable[dict[str, Any]], first: int, before: float) -> list[Marks]:
        """Of the steps from ``first`` on; each event is read against the end of the step before, ``before`` seconds on.

        After a pause that is the end of the pause.

        CUDA gives milliseconds in float32: after an hour these would be counted in steps of 0.25 ms.
        """
        steps: list[Marks] = []
        for number, events in enumerate(later, first):
            begin = self._resumed.get(number) or (self._steps[number - 1]["end"] if number else self._begin)
            steps.append([(name, before + begin.elapsed_time(event) / 1e3) for name, event in events.items()])
            before = steps[-1][-1][1]
        return steps


def clock_of(device: torch.device) -> PhaseClock:
    """A clock that starts now."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()  # gpu: train-ddp, step-parity
