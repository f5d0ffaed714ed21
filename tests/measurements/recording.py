"""``python -m tests.measurements.recording``: what it costs a rank to note where it is, and which operation it enters.

Each figure is the least of many rounds, of processor time: other processes only add to it.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.recording import Recorder

_ROUNDS, _CALLS = 40, 5000


def least_nanoseconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.process_time_ns()
        for _ in range(_CALLS):
            work()
        rounds.append((time.process_time_ns() - begin) / _CALLS)
    return min(rounds)


def main() -> None:
    """Print both costs, without those of the call itself."""
    slot, tensor = ProgressSlot(), torch.ones(4)

    def nothing(*_: Any) -> None:
        return None

    noted = Recorder(slot).wrapped("all_reduce", nothing)
    plain = least_nanoseconds(lambda: nothing(tensor, None))
    sys.stdout.write(f"an iteration: {least_nanoseconds(lambda: slot.iteration(7)) - plain:.0f} ns\n")
    sys.stdout.write(f"an operation: {least_nanoseconds(lambda: noted(tensor, None)) - plain:.0f} ns\n")


if __name__ == "__main__":
    main()
