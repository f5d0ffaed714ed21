"""Loss and accuracy of the held-out samples, each of which one rank evaluates; between timed steps, and in none."""

import torch
import torch.distributed as dist

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.training.data.samples import Samples
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.record import Validation
from raybench.benchmarks.training.step import Trainer


class Evaluations:
    """Those of one launch, in ``found``. Every rank makes the same."""

    def __init__(
        self, context: RankContext, trainer: Trainer, samples: Samples | None, options: TrainingOptions
    ) -> None:
        self._context, self._trainer, self._samples, self._options = context, trainer, samples, options
        self.found: list[Validation] = []

    def is_due(self, step: int) -> bool:
        """Whether there is one after so many timed steps: every some of them, and after the last."""
        every = self._options.steps_between_evaluations
        return self._samples is not None and every is not None and (step % every == 0 or step == self._options.steps)

    def after(self, step: int) -> None:
        """Evaluate, where samples are held out and evaluations were asked for."""
        if self._samples is not None and self._options.steps_between_evaluations is not None:
            self.found.append(validate(self._context, self._trainer, self._samples, self._options, step))


def validate(
    context: RankContext, trainer: Trainer, samples: Samples, options: TrainingOptions, step: int
) -> Validation:
    """Evaluate after ``step`` timed steps. Every rank must call it; all get the same."""
    sums = torch.zeros(3, dtype=torch.float64)
    taken = options.batch_size * context.world_size
    for number in range(-(-samples.held_out // taken)):  # of shards, as often on every rank
        chosen = samples.held_out_indices(context.rank, number, options.batch_size)
        found = trainer.evaluated(samples.take(chosen or [samples.count])).double().cpu()
        if chosen:
            sums += torch.tensor([*found.sum(dim=0).tolist(), len(chosen)], dtype=torch.float64)
        context.progress.iteration(step)
    total = sums.to(context.device)
    dist.all_reduce(total)
    loss, right, count = total.tolist()
    trained = (options.warmup_steps + step) * options.batch_size * options.accumulate * context.world_size
    return Validation(
        step=step, epoch=trained / samples.count, loss=loss / count, accuracy=right / count, samples=int(count)
    )
