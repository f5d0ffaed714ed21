"""Whether the three estimators of exposed communication find a truth that is known.

``python -m tests.benchmarks.overlap`` runs a synthetic step on two real gloo ranks. Its computation is an operator of
known length (it sleeps, so that busy cores do not stretch it), its communication a queue like a NCCL stream: each
message waits for the one before and then takes a known time on a thread of its own, with a real (tiny) all_reduce in
it. So what of it stays exposed follows on paper:

    |==== 0.40 ====|=== 0.20 ===|=== 0.20 ===|       computation
                   |   message 0: 0.28  | message 1: 0.32 |
                                             |- exposed --|
"""

import argparse
import queue
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.progress import ProgressSlot
from raybench.benchmarks.training.intervals import serial_end
from raybench.benchmarks.training.overlap import agreed, difference, profiled
from raybench.benchmarks.training.trace import StepTrace, shares_of

from .ranks import run_on_ranks

_library: Any = torch.library.Library
_LIBRARY = _library("aten", "FRAGMENT")  # so that the profiler takes it for PyTorch's own
_LIBRARY.define("raybench_computation(Tensor like, float end) -> Tensor")


def _computation(like: torch.Tensor, end: float) -> torch.Tensor:
    time.sleep(max(end - time.perf_counter(), 0.0))
    return like.clone()


_LIBRARY.impl("raybench_computation", _computation, "CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Seconds of computation before each message is ready and after the last, and of each message."""

    computation: tuple[float, ...] = (0.40, 0.20, 0.20)
    messages: tuple[float, ...] = (0.28, 0.32)

    @property
    def ready(self) -> tuple[float, ...]:
        """When each message's data are there, from the begin of the step."""
        moments, total = [], 0.0
        for seconds in self.computation[: len(self.messages)]:
            total += seconds
            moments.append(total)
        return tuple(moments)

    @property
    def exposed(self) -> float:
        """What the step waits for: the end of the last message after the end of the computation."""
        return max(serial_end(self.ready, self.messages) - sum(self.computation), 0.0)


class SyntheticStep:
    """A step by a schedule, with and without its communication."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._tasks: queue.Queue[tuple[float, threading.Event] | None] = queue.Queue()
        self._value = torch.ones(8)
        self.ready: list[float] = []  # of the last step: when each message was, and when the computation ended
        self.computed = 0.0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._send(task[0])
            task[1].set()

    def _send(self, seconds: float) -> None:
        with torch.profiler.record_function("gloo:synthetic"):
            end = time.perf_counter() + seconds
            dist.all_reduce(self._value)
            time.sleep(max(end - time.perf_counter(), 0.0))

    def step(self, number: int, *, synchronised: bool = True) -> None:  # noqa: ARG002 - every step is alike
        """Compute, send what is ready on the way, and wait for what is not yet sent."""
        sent = []
        begin = end = time.perf_counter()
        self.ready.clear()
        for index, seconds in enumerate(self._schedule.computation):
            end += seconds
            self._compute_until(end)
            if synchronised and index < len(self._schedule.messages):
                done = threading.Event()
                self._tasks.put((self._schedule.messages[index], done))
                self.ready.append(time.perf_counter() - begin)
                sent.append(done)
        self.computed = time.perf_counter() - begin
        for done in sent:
            done.wait()

    def _compute_until(self, end: float) -> None:
        torch.ops.aten.raybench_computation(self._value, end)

    def alone(self, index: int) -> float:
        """Seconds of one message by itself."""
        done = threading.Event()
        begin = time.perf_counter()
        self._tasks.put((self._schedule.messages[index], done))
        done.wait()
        return time.perf_counter() - begin

    def close(self) -> None:
        """End its thread."""
        self._tasks.put(None)
        self._thread.join()


def estimates(rank: int, ranks: int, schedule: Schedule, pairs: int) -> dict[str, float]:
    """Exposed seconds by each estimator, on this rank."""
    context = _context(rank, ranks)
    synthetic = SyntheticStep(schedule)
    with_it, without = difference(context, synthetic, pairs)
    steps = profiled(context, synthetic, all_threads=True)
    durations = [
        median(agreed(context, [synthetic.alone(index) for _ in range(3)], dist.ReduceOp.MIN) or [0.0])
        for index in range(len(schedule.messages))
    ]
    found = {
        "differencing": median(with_it) - median(without),
        "profiler": median(shares_of(step, _transfers(context, step)).exposed for step in steps),
        "replay": median(_replayed(context, synthetic, durations) for _ in range(3)),
    }
    synthetic.close()
    return found


def _transfers(context: RankContext, step: StepTrace) -> list[float] | None:
    return agreed(context, [end - begin for begin, end in step.communication], dist.ReduceOp.MIN)


def _replayed(context: RankContext, synthetic: SyntheticStep, durations: Sequence[float]) -> float:
    """Exposed seconds if each message took as long as alone, from when it was ready on the last rank."""
    synthetic.step(0)
    ready = agreed(context, synthetic.ready, dist.ReduceOp.MAX) or []
    return max(serial_end(ready, durations) - synthetic.computed, 0.0)


def _context(rank: int, ranks: int) -> RankContext:
    store: Any = dist.distributed_c10d._get_default_store()
    return RankContext(
        rank=rank,
        local_rank=rank,
        world_size=ranks,
        ranks_on_machine=ranks,
        backend="gloo",
        device=torch.device("cpu"),
        progress=ProgressSlot(),
        store=store,
    )


def measured(schedule: Schedule, *, ranks: int = 2, pairs: int = 5) -> dict[str, float]:
    """Exposed seconds by each estimator: the median over ranks."""
    by_rank = run_on_ranks(ranks, estimates, ranks, schedule, pairs)
    return {name: median(one[name] for one in by_rank) for name in by_rank[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print truth and estimates. Returns 1 where one is off by more than the limit."""
    parser = argparse.ArgumentParser(description="Three estimators of exposed communication against a known truth.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.03, help="share of the truth that an estimate may be off")
    options = parser.parse_args(arguments)
    worst = 0.0
    for schedule in SCHEDULES:
        truth = schedule.exposed
        print(f"computation {schedule.computation}, messages {schedule.messages}: exposed {truth * 1e3:.1f} ms")
        for name, seconds in measured(schedule, pairs=options.pairs).items():
            off = seconds / truth - 1
            worst = max(worst, abs(off))
            print(f"  {name:13} {seconds * 1e3:7.1f} ms  {off:+.1%}")
    print(f"worst {worst:.1%}, allowed {options.limit:.0%}")
    return int(worst > options.limit)


SCHEDULES = (
    Schedule(),
    Schedule(computation=(0.40, 0.20, 0.04), messages=(0.16, 0.48)),
)

if __name__ == "__main__":
    sys.exit(main())
