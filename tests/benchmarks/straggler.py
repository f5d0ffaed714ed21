"""How fast and how surely a slow rank is named: real gloo ranks, compute of known length, one of them slowed.

``python -m tests.benchmarks.straggler --ranks 4 --slow 0.02 --clean-runs 50``

Each rank "computes" by sleeping, so that more ranks than cores do not slow each other, with 0.5 % of random spread a
step; then all meet in an all_reduce. What is measured goes through the detector that ``raybench train`` uses.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist

from raybench.benchmarks.training.straggler import Straggler, stragglers

from .ranks import run_on_ranks

COMPUTE_SECONDS = 0.05
SPREAD = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run: which rank is slower, by which share (0: none), and for how many steps it is watched."""

    steps: int
    slow_rank: int
    slow: float
    seed: int
    compute_seconds: float = COMPUTE_SECONDS


def work(rank: int, trial: Trial) -> tuple[list[float], list[float]]:
    """Own and waiting seconds of this rank by step."""
    source = random.Random(trial.seed * 1000 + rank)
    own, wait = [], []
    gradients = torch.ones(1024)
    dist.barrier()
    for _ in range(trial.steps):
        begin = time.perf_counter()
        length = trial.compute_seconds * (1 + (trial.slow if rank == trial.slow_rank else 0.0))
        _sleep_until(begin + length * source.gauss(1.0, SPREAD))
        ready = time.perf_counter()
        dist.all_reduce(gradients)
        end = time.perf_counter()
        own.append(ready - begin)
        wait.append(end - ready)
    return own, wait


def _sleep_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(max(left - 0.0005, 0.00005))


def named(ranks: int, trial: Trial) -> tuple[Straggler, ...]:
    """Whom the detector names after one run of real ranks."""
    measured = run_on_ranks(ranks, work, trial)
    own = {rank: values[0] for rank, values in enumerate(measured)}
    wait = {rank: values[1] for rank, values in enumerate(measured)}
    return stragglers(own, wait)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how often the slow rank was named, and how often anybody was in clean runs. Returns 0 when all is right."""
    parser = argparse.ArgumentParser(description="How surely a slow rank is named, and nobody in clean runs.")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--slow", type=float, default=0.02)
    parser.add_argument("--slow-runs", type=int, default=10)
    parser.add_argument("--clean-runs", type=int, default=50)
    options = parser.parse_args(arguments)
    right = wrong = 0
    for number in range(options.slow_runs):
        trial = Trial(steps=options.steps, slow_rank=number % options.ranks, slow=options.slow, seed=number)
        found = named(options.ranks, trial)
        right += [one.rank for one in found] == [trial.slow_rank]
        print(f"slow {trial.slow_rank}: named {[(one.rank, round(one.excess, 4), round(one.z, 1)) for one in found]}")
    for number in range(options.clean_runs):
        found = named(options.ranks, Trial(steps=options.steps, slow_rank=0, slow=0.0, seed=1000 + number))
        wrong += bool(found)
        if found:
            print(f"clean {number}: named {[(one.rank, round(one.excess, 4), round(one.z, 1)) for one in found]}")
    what = f"{options.slow:+.0%} on one of {options.ranks} ranks"
    print(f"{what}: named in {right} of {options.slow_runs} runs of {options.steps} steps")
    print(f"clean: anybody named in {wrong} of {options.clean_runs} runs")
    return int(right < options.slow_runs or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
