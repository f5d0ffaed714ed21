"""How fast a processor is by itself, without what a thread waited for one: also where nodes share their processors.

One thread multiplies small matrices that stay in its caches. From the time the kernel's own count of what the thread
was ready and had no processor is taken off (schedstat), so that busy neighbours are no slow machine; a low clock is.
"""

from __future__ import annotations

import time

from raybench.benchmarks.node_tests.devices import cpu_model
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_WIDTH = 192
_SAMPLES_A_BLOCK = 3
_FIRST_TIMES = 10  # products that tell how many make a sample
_LONGEST, _LONGEST_BESIDE_SECONDS = 10.0, 5.0  # over the time that it takes alone: a full machine leaves it less
_LEAST_OF_ITS_OWN = 0.05  # a sample that almost only waited says nothing: what is left is the error of the count


def run(plan: Plan) -> None:
    """Samples of a third of a block each, three times as many as of other tests."""
    import torch

    if _waited_seconds() is None:
        reason = "this kernel does not count what a thread waits for a processor"
        say(Figure("processor", "cpu", status="missing", reason=reason, model=cpu_model()))
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        samples = _samples(plan)
    finally:
        torch.set_num_threads(threads)
    setting = f"1 thread, {_WIDTH} x {_WIDTH}, torch {torch.__version__}"
    say(Figure("processor", "cpu", "fp32", model=cpu_model(), setting=setting, unit="GFLOP/s", samples=tuple(samples)))


def _samples(plan: Plan) -> list[float]:
    import torch

    factor = torch.full((_WIDTH, _WIDTH), 1 / _WIDTH)
    product = torch.empty_like(factor)

    def seconds(times: int) -> tuple[float, float]:
        """What the thread computed for, and what passed meanwhile."""
        waited, began = _waited_seconds() or 0.0, time.perf_counter()
        for _ in range(times):
            torch.mm(factor, factor, out=product)
        elapsed = time.perf_counter() - began
        return elapsed - ((_waited_seconds() or 0.0) - waited), elapsed

    began, block_seconds = time.perf_counter(), plan.block_seconds / _SAMPLES_A_BLOCK
    seconds(_FIRST_TIMES)
    first = [own for own, passed in (seconds(_FIRST_TIMES) for _ in range(5)) if own >= _LEAST_OF_ITS_OWN * passed]
    if not first:
        return []
    times = max(_FIRST_TIMES, int(_FIRST_TIMES * block_seconds / sorted(first)[len(first) // 2]))
    found: list[tuple[float, float]] = []
    while len(found) < plan.samples * _SAMPLES_A_BLOCK:
        found.append(seconds(times))
        if time.perf_counter() - began > _LONGEST * plan.samples * plan.block_seconds + _LONGEST_BESIDE_SECONDS:
            break
    return [2.0 * _WIDTH**3 * times / own / 1e9 for own, passed in found if own >= _LEAST_OF_ITS_OWN * passed]


def _waited_seconds() -> float | None:
    """What this thread has waited for a processor so far; None where the kernel does not count it."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None
