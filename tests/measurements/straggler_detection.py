"""How fast and how surely a slow rank is named: real gloo ranks, compute of known length, one of them slowed.

``python -m tests.measurements.straggler_detection --ranks 4 --slow 0.02 --clean-runs 50``
``python -m tests.measurements.straggler_detection --strategy fsdp --compute 0.1 --slow-runs 10``

Each rank "computes" by sleeping, so that more ranks than cores do not slow each other, with 0.5 % of random spread. As
replicas all meet in an all_reduce at the end of each step. As shards (``--strategy fsdp``) a perceptron is trained by
``raybench train``'s own code: each layer sleeps between its collectives, a third of it in the forward pass. What is
measured goes through the detector that ``raybench train`` uses.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from raybench.benchmarks.events import WorkloadMeasured
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.combine import own_and_wait, pieces_of
from raybench.benchmarks.training.models import trainable as models
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import TrainingRecord
from raybench.benchmarks.training.straggler import stragglers
from raybench.documents.run.training.straggler import Straggler
from tests.benchmarks.gloo_ranks import run_ranks
from tests.measurements.ranks import run_on_ranks

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


class Sleeping(torch.autograd.Function):
    """Hands on what it gets, a third of ``seconds()`` later; its gradient two thirds later."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, seconds: Callable[[], float]) -> torch.Tensor:
        ctx.seconds = seconds
        _sleep_until(time.perf_counter() + seconds() / 3)
        return states.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        _sleep_until(time.perf_counter() + ctx.seconds() * 2 / 3)
        return gradients[0], None


def sleeping_layers(trial: Trial) -> Callable[[int], None]:
    """What makes a rank's perceptron take the trial's time in its layers."""

    def change(rank: int) -> None:
        torch.set_num_threads(1)
        source = random.Random(trial.seed * 1000 + rank)
        length = trial.compute_seconds * (1 + (trial.slow if rank == trial.slow_rank else 0.0))

        def forward(self: models.Perceptron, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            hidden = inputs
            for layer in self.layers:
                seconds = length / len(self.layers)
                hidden = Sleeping.apply(layer(hidden), lambda each=seconds: each * source.gauss(1.0, SPREAD))
            return functional.mse_loss(hidden, targets)

        models.Perceptron.forward = forward

    return change


def named_among_shards(ranks: int, trial: Trial) -> tuple[Straggler, ...]:
    """Whom the detector names when real ranks have trained with FSDP2."""
    options = TrainingOptions(model="mlp", batch_size=2, steps=trial.steps, warmup_steps=2, overlap_steps=0)
    plan = BenchmarkSpec(name="fsdp", kind="training", sizes=(), options=options, verify=False)
    heard = run_ranks(ranks, [plan], sabotage=sleeping_layers(trial), seconds=300.0)
    told = [one for events in heard for one in events if isinstance(one, WorkloadMeasured)]
    launch = {one.rank: one.record for one in told if isinstance(one.record, TrainingRecord) and not one.record.interim}
    return stragglers(*own_and_wait(launch), pieces_of(launch))


NAMED = {"ddp": named, "fsdp": named_among_shards}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how often the slow rank was named, and how often anybody was in clean runs. Returns 0 when all is right."""
    parser = argparse.ArgumentParser(description="How surely a slow rank is named, and nobody in clean runs.")
    parser.add_argument("--strategy", choices=sorted(NAMED), default="ddp")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--compute", type=float, default=COMPUTE_SECONDS, help="seconds of a step's own work")
    parser.add_argument("--slow", type=float, default=0.02)
    parser.add_argument("--slow-runs", type=int, default=10)
    parser.add_argument("--clean-runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each takes the next")
    options = parser.parse_args(arguments)
    right = sum(_is_right(options, options.seed + number, options.slow) for number in range(options.slow_runs))
    clean = sum(_is_right(options, options.seed + 1000 + number, 0.0) for number in range(options.clean_runs))
    what = f"{options.strategy}, {options.slow:+.0%} on one of {options.ranks} ranks"
    print(f"{what}: named, and nobody else, in {right} of {options.slow_runs} runs of {options.steps} steps")
    print(f"clean: nobody named in {clean} of {options.clean_runs} runs")
    return int(right < options.slow_runs or clean < options.clean_runs)


def _is_right(options: argparse.Namespace, seed: int, slow: float) -> bool:
    """One run: whether the slow rank alone was named, or without one nobody."""
    trial = Trial(
        steps=options.steps, slow_rank=seed % options.ranks, slow=slow, seed=seed, compute_seconds=options.compute
    )
    found = NAMED[options.strategy](options.ranks, trial)
    right = [one.rank for one in found] == ([trial.slow_rank] if slow else [])
    if slow or not right:
        told = [(one.rank, f"{one.excess:+.2%}", f"z {one.z:.1f}") for one in found]
        print(f"{f'slow {trial.slow_rank}' if slow else 'clean'}, seed {seed}: named {told}", flush=True)
    return right


if __name__ == "__main__":
    sys.exit(main())
