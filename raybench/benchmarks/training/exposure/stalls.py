"""What a step would wait for, were each collective as fast as it is alone. Pure.

A step is told by its *progress*: the time in which something else than uncovered communication went on. In it an
operation is ready where its data were there, and needed where computation stopped until its end. With these two kept,
other durations give another wait: operations run one after another, none before it is ready, and progress stands still
where the next thing needs one that is not yet over. An operation that stopped nothing as slow as it was in the step
stops nothing when it is faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from raybench.benchmarks.training.exposure.intervals import Interval, common, length, merged
from raybench.benchmarks.training.exposure.trace import StepTrace

_NEVER = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Progress, seconds, at which each operation is ready and needed; needed is negative where nothing waits for it."""

    ready: tuple[float, ...]
    needed: tuple[float, ...]


def dependencies_of(step: StepTrace) -> Dependencies | None:
    """Of a step's operations in order; None where they are not one interval of communication each."""
    if not step.operations or len(step.operations) != len(step.communication):
        return None
    uncovered = _uncovered(step)
    return Dependencies(
        ready=tuple(_progress(one.ready, uncovered) for one in step.operations),
        needed=tuple(
            _progress(end, uncovered) if _stops(end, uncovered) else _NEVER for _, end in sorted(step.communication)
        ),
    )


def stalled_seconds(dependencies: Dependencies, durations: Sequence[float]) -> float:
    """How long progress stands still in all, if operation i takes ``durations[i]`` seconds."""
    moments = [(at, False, index) for index, at in enumerate(dependencies.ready)]
    pairs = enumerate(zip(dependencies.ready, dependencies.needed, strict=True))
    moments += [(max(ready, needed), True, index) for index, (ready, needed) in pairs if needed >= 0]
    ends: dict[int, float] = {}
    free = stalled = 0.0
    for at, is_needed, index in sorted(moments):
        if not is_needed:
            free = ends[index] = max(at + stalled, free) + durations[index]
        else:
            stalled = max(stalled, ends[index] - at)
    return stalled


def _uncovered(step: StepTrace) -> list[Interval]:
    """Communication while nothing is computed."""
    ends = [0.0, *(moment for interval in merged(step.computation) for moment in interval), float("inf")]
    pauses = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=True) if begin < end]
    return common(merged(step.communication), pauses)


def _progress(moment: float, uncovered: Sequence[Interval]) -> float:
    return moment - length(common(uncovered, [(0.0, moment)]))


def _stops(end: float, uncovered: Sequence[Interval]) -> bool:
    return any(begin < end <= last for begin, last in uncovered)
