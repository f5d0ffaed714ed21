"""The memory of a rank grows step by step.

Symptom: over ten minutes and more the resident memory of a rank's process grows steadily, by 1 MiB a minute at
least, and as fast in the second half as in the first.

Why: something is kept that should be given back: tensors in a list (a loss with its graph, for one), a cache without
a limit, data loaders. It ends when the kernel kills the process.

Not when: memory grows in a start, and levels off: each half is looked at by itself. Page cache is nobody's resident
memory.

Source: Sen, "Estimates of the regression coefficient based on Kendall's tau" (1968), slope with its 95 % interval. The
limits are this project's.
"""

from collections.abc import Iterator, Sequence

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.slope import SlopeInterval, slope_interval
from diagnostics.agent.window import Point, Window

SHORTEST_SECONDS = 600.0
LIMIT_BYTES_PER_SECOND = (1 << 20) / 60
_MIN_POINTS = 40
_STARTING_SECONDS = 120.0  # of a process, in which its memory may grow as it likes


def check(window: Window) -> Iterator[Observed]:
    """One finding a process."""
    for device, name in window.devices("process", "resident_bytes").items():
        points = window.long_points(name)
        points = [one for one in points if one.seconds - points[0].seconds >= _STARTING_SECONDS]
        growth = _steady_growth(points)
        if growth is None or window.latest(name) is None:
            continue
        available = window.latest("host/memory/available_bytes")
        lasts = f"; what is available lasts {available / growth.middle / 3600:.1f} h" if available else ""
        yield RULE.observed(
            window,
            device=device,
            confidence="likely",
            summary=f"process {device}: its memory grows by {growth.middle * 60 / 2**20:.1f} MiB a minute "
            f"(95 % interval {growth.low * 60 / 2**20:.1f} to {growth.high * 60 / 2**20:.1f}){lasts}",
            explanation="Something is kept that should be given back; the kernel ends the process when none is left.",
            since_seconds=points[0].seconds,
            series=(name,),
        )


def _steady_growth(points: Sequence[Point]) -> SlopeInterval | None:
    if len(points) < _MIN_POINTS or points[-1].seconds - points[0].seconds < SHORTEST_SECONDS:
        return None
    half = len(points) // 2
    first, second, whole = slope_interval(points[:half]), slope_interval(points[half:]), slope_interval(points)
    steady = min(first.low, second.low) >= LIMIT_BYTES_PER_SECOND and second.middle >= first.middle / 2
    return whole if steady else None


RULE = LiveRule(
    id="memory-grows",
    title="The memory of a rank grows step by step",
    severity="warning",
    check=check,
    every_seconds=10.0,
    recommended=advice(
        "find-leak",
        "Find what is kept from step to step: losses that are added up with their graph, lists, caches, data loaders.",
        "py-spy dump --pid <device>",
    ),
)
