"""A GPU waits while the ranks run.

Symptom: over two minutes a GPU that is at work computes in less than 80 % of the time, while ranks run on the node.

Why: data loading, checkpoints or the network are slower than the GPU; a batch that is too small.

Not when: no rank was named to the agent, the GPU has not been busy yet (a start, a compilation), or it idles all the
time: a GPU that nobody uses. NVML counts the time in which any kernel runs, a waiting collective's too: a high figure
proves nothing.

Source: this project's seed documents, which set the limit of 80 %; NVML, nvmlDeviceGetUtilizationRates.
"""

from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LIMIT_PERCENT = 80.0
LOOKED_AT_SECONDS = 120.0
_BUSY_SHARE = 0.25  # of the readings, in which a GPU that is at work computes


def check(window: Window) -> Iterator[Observed]:
    """One finding a GPU."""
    if not window.pids:
        return
    for device, name in window.devices("gpu", "utilization_percent").items():
        values = [point.value for point in window.points(name, LOOKED_AT_SECONDS)]
        if not window.covers(name, LOOKED_AT_SECONDS) or window.latest(name) is None:
            continue
        mean = sum(values) / len(values)
        half = len(values) // 2
        at_work = min(_busy(values[:half]), _busy(values[half:])) >= _BUSY_SHARE
        if at_work and mean < LIMIT_PERCENT:
            yield RULE.observed(
                window,
                device=device,
                confidence="possible",
                summary=f"GPU {device}: busy {mean:.0f} % of the last {LOOKED_AT_SECONDS:.0f} s "
                f"(limit {LIMIT_PERCENT:.0f} %)",
                explanation="It waits for data, for a checkpoint, for the network, or for its own host.",
                since_seconds=window.now - LOOKED_AT_SECONDS,
                series=(name,),
            )


def _busy(values: list[float]) -> float:
    return sum(value > 0 for value in values) / len(values)


RULE = LiveRule(
    id="gpu-underused",
    title="A GPU waits while the ranks run",
    severity="info",
    check=check,
    longest_interval_seconds=10.0,
    every_seconds=10.0,
    recommended=advice(
        "find-wait",
        "See what a step waits for: a profiler's trace of one rank, or `raybench train` for a model of the same size.",
        "nvidia-smi dmon -s u -i <device>",
    ),
)
