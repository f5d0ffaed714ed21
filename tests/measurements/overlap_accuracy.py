"""Whether the three estimators of exposed communication find a truth that is known.

``python -m tests.measurements.overlap_accuracy`` runs a synthetic step on two real gloo ranks. Its computation is an
operator of known length (it sleeps, so that busy cores do not stretch it), its communication a queue like a NCCL
stream: each message waits for the one before and then takes a known time on a thread of its own, with a real
(tiny) all_reduce in it. So what of it stays exposed follows on paper:

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
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.training.exposure.agreement import agreed
from raybench.benchmarks.training.exposure.intervals import merged, serial_end
from raybench.benchmarks.training.exposure.overlap import difference, profiled
from raybench.benchmarks.training.exposure.stalls import dependencies_of, stalled_seconds
from raybench.benchmarks.training.exposure.trace import Operation, StepTrace, shares_of
from tests.measurements.ranks import run_on_ranks

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedSchedule:
    """Blocks as FSDP runs them: each is gathered while the one before computes; gradients are reduced at the end."""

    computation: tuple[float, ...] = (0.10, 0.20, 0.15)
    gathers: tuple[float, ...] = (0.12, 0.16, 0.15)
    reduction: float = 0.10

    @property
    def messages(self) -> tuple[float, ...]:
        """Seconds of each, in the order in which they are sent."""
        return (*self.gathers, self.reduction)

    @property
    def exposed(self) -> float:
        """The first gather, what the others take beyond the computation before them, and the reduction."""
        now = waited = 0.0
        gathered = self.gathers[0]
        for index, seconds in enumerate(self.computation):
            waited += max(gathered - now, 0.0)
            now = max(gathered, now)
            gathered = now + (*self.gathers, 0.0)[index + 1]
            now += seconds
        return waited + self.reduction


class SyntheticStep:
    """A step by a schedule, with and without its communication."""

    def __init__(self, schedule: Schedule | ShardedSchedule) -> None:
        self._schedule = schedule
        self._tasks: queue.Queue[tuple[float, threading.Event] | None] = queue.Queue()
        self._value = torch.ones(8)
        self.ready: list[float] = []  # of the last step: when each message was, and when the computation ended
        self.computed = self.begin = 0.0
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

    def step(self, number: int, *, synchronised: bool = True) -> None:
        """Compute, send what is ready on the way, and wait for what is not yet sent."""
        sent = []
        self.begin = end = time.perf_counter()
        self.ready = []
        for index, seconds in enumerate(self._schedule.computation):
            end += seconds
            self._compute_until(end)
            if synchronised and index < len(self._schedule.messages):
                sent.append(self._start(index))
        self.computed = time.perf_counter() - self.begin
        for done in sent:
            done.wait()

    def _start(self, index: int) -> threading.Event:
        done = threading.Event()
        self._tasks.put((self._schedule.messages[index], done))
        self.ready.append(time.perf_counter() - self.begin)
        return done

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


class ShardedStep(SyntheticStep):
    """A step by a ShardedSchedule; ``moments`` has when each message of each step was ready."""

    def __init__(self, schedule: ShardedSchedule) -> None:
        super().__init__(schedule)
        self.moments: list[list[float]] = []

    def step(self, number: int, *, synchronised: bool = True) -> None:
        """Gather one block ahead, wait for the one that is computed next, and for the reduction."""
        self.begin, self.ready = time.perf_counter(), []
        self.moments.append(self.ready)
        gathered = self._start(0)
        last = len(self._schedule.computation) - 1
        for index, seconds in enumerate(self._schedule.computation):
            gathered.wait()
            now = time.perf_counter()
            if index < last:
                gathered = self._start(index + 1)
            self._compute_until(now + seconds)
        self._start(last + 1).wait()


def sharded_estimates(rank: int, ranks: int, schedule: ShardedSchedule) -> dict[str, float]:
    """Exposed seconds of a sharded step on this rank; differencing does not apply."""
    context = _context(rank, ranks)
    synthetic = ShardedStep(schedule)
    steps = profiled(context, synthetic, all_threads=True)
    count = len(schedule.messages)
    durations = [
        median(agreed(context, [synthetic.alone(index) for _ in range(3)], dist.ReduceOp.MIN) or [0.0])
        for index in range(count)
    ]
    told = [_told(step, ready) for step, ready in zip(steps, synthetic.moments[-len(steps) :], strict=True)]
    synthetic.close()
    return {
        "profiler": median(shares_of(step, _transfers(context, step)).exposed for step in steps),
        "replay": median(stalled_seconds(one, durations) for step in told if (one := dependencies_of(step))),
    }


def _told(step: StepTrace, ready: Sequence[float]) -> StepTrace:
    """The step with one interval a message, and operations that say when they were ready."""
    operations = [Operation(name="all_gather", elements=8, dtype="float32", ready=moment) for moment in ready]
    return replace(step, communication=tuple(merged(step.communication)), operations=tuple(operations))


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


def measured(schedule: Schedule | ShardedSchedule, *, ranks: int = 2, pairs: int = 5) -> dict[str, float]:
    """Exposed seconds by each estimator: the median over ranks."""
    if isinstance(schedule, ShardedSchedule):
        by_rank = run_on_ranks(ranks, sharded_estimates, ranks, schedule)
    else:
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
        kind = "sharded: " if isinstance(schedule, ShardedSchedule) else ""
        print(f"{kind}computation {schedule.computation}, messages {schedule.messages}: exposed {truth * 1e3:.1f} ms")
        for name, seconds in measured(schedule, pairs=options.pairs).items():
            off = seconds / truth - 1
            worst = max(worst, abs(off))
            print(f"  {name:13} {seconds * 1e3:7.1f} ms  {off:+.1%}")
    print(f"worst {worst:.1%}, allowed {options.limit:.0%}")
    return int(worst > options.limit)


SCHEDULES = (
    Schedule(),
    Schedule(computation=(0.40, 0.20, 0.04), messages=(0.16, 0.48)),
    ShardedSchedule(),
    ShardedSchedule(computation=(0.20, 0.10, 0.30), gathers=(0.10, 0.30, 0.05), reduction=0.20),
)

if __name__ == "__main__":
    sys.exit(main())
