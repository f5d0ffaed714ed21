"""When each phase of a step began and ended: the monotonic clock on a CPU, events on the stream of a GPU.

On a GPU nothing is waited for within a step; the events are read when the steps are over.
"""

import time
from typing import Any, Protocol

import torch


class PhaseClock(Protocol):
    """Marks of one step after another."""

    def mark(self, name: str) -> None:
        """Something named ends here; where the name was marked in this step before, the later one counts."""

    def end_step(self) -> None:
        """The step is over."""

    def read(self) -> tuple[list[float], list[list[tuple[str, float]]]]:
        """Seconds from ``begin`` to the end of each step, and in each the marks in order, as (name, seconds so far)."""


class HostClock:
    """The monotonic clock, read at each mark."""

    def __init__(self) -> None:
        self._begin = time.perf_counter_ns()
        self._steps: list[dict[str, int]] = []
        self._marks: dict[str, int] = {}

    def mark(self, name: str) -> None:
        """See PhaseClock."""
        self._marks.pop(name, None)
        self._marks[name] = time.perf_counter_ns()

    def end_step(self) -> None:
        """See PhaseClock."""
        self.mark("end")
        self._steps.append(self._marks)
        self._marks = {}

    def read(self) -> tuple[list[float], list[list[tuple[str, float]]]]:
        """See PhaseClock."""
        steps = [[(name, (at - self._begin) / 1e9) for name, at in marks.items()] for marks in self._steps]
        return [marks[-1][1] for marks in steps], steps


class DeviceClock:
    """Events on the current stream. A mark set again within a step moves its event."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begin = self._event()
        self._begin.record()
        self._steps: list[dict[str, Any]] = []
        self._marks: dict[str, Any] = {}

    @staticmethod
    def _event() -> Any:
        make: Any = torch.cuda.Event
        return make(enable_timing=True)

    def mark(self, name: str) -> None:
        """See PhaseClock."""
        event = self._marks.pop(name, None) or self._event()
        event.record()
        self._marks[name] = event

    def end_step(self) -> None:
        """See PhaseClock."""
        self.mark("end")
        self._steps.append(self._marks)
        self._marks = {}

    def read(self) -> tuple[list[float], list[list[tuple[str, float]]]]:
        """See PhaseClock. Each event is read against the end of the step before.

        CUDA gives milliseconds in float32: after an hour these would be counted in steps of 0.25 ms.
        """
        torch.cuda.synchronize(self._device)
        steps, before, begin = [], 0.0, self._begin
        for events in self._steps:
            steps.append([(name, before + begin.elapsed_time(event) / 1e3) for name, event in events.items()])
            before, begin = steps[-1][-1][1], events["end"]
        return [marks[-1][1] for marks in steps], steps


def clock_of(device: torch.device) -> PhaseClock:
    """A clock that starts now."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()


def phase_seconds(steps: list[list[tuple[str, float]]]) -> dict[str, tuple[float, ...]]:
    """Seconds of each phase in each step: the sum over its marks of the time since the mark before.

    A mark ``forward:2`` ends a piece of the phase ``forward``; what is before the first mark of a run counts from zero.
    """
    names = list(dict.fromkeys(name.partition(":")[0] for marks in steps for name, _ in marks if name != "end"))
    phases: dict[str, list[float]] = {name: [] for name in names}
    before = 0.0
    for marks in steps:
        spent = dict.fromkeys(names, 0.0)
        for name, at in marks:
            if name != "end":
                spent[name.partition(":")[0]] += at - before
            before = at
        for name, seconds in spent.items():
            phases[name].append(seconds)
    return {name: tuple(values) for name, values in phases.items()}
