"""The learning rate over the steps of a run: a warm-up, then constant, or down to nothing by cosine or line. Pure."""

import math

from raybench.benchmarks.training.options import TrainingOptions


def rate_at(options: TrainingOptions, position: int) -> float:
    """The learning rate of a step; ``position`` counts all steps of a run, those before the timed ones too.

    The cosine is that of SGDR without restarts (Loshchilov and Hutter, 2017, equation 5, down to 0).
    """
    warmup, total = options.lr_warmup_steps, options.warmup_steps + options.steps
    if position < warmup:
        return options.learning_rate * (position + 1) / warmup
    done = min((position - warmup) / max(total - warmup, 1), 1.0)
    if options.lr_schedule == "cosine":
        return options.learning_rate * (1 + math.cos(math.pi * done)) / 2
    return options.learning_rate * (1 - done if options.lr_schedule == "linear" else 1.0)
