"""One training step of this rank, phase by phase."""

from typing import Any

import torch

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.training.clock import PhaseClock
from raybench.benchmarks.training.data.feed import Feed
from raybench.benchmarks.training.data.samples import Batch
from raybench.benchmarks.training.models.precision import forward_context, loss_scaler
from raybench.benchmarks.training.models.trainable import Trainable
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.ranges import ranges_of
from raybench.benchmarks.training.strategies import Strategy
from raybench.benchmarks.training.update import Update


class Trainer:
    """A model under a strategy with its optimizer. ``step`` numbers choose the data, so a run can be repeated."""

    def __init__(
        self, context: RankContext, trainable: Trainable, strategy: Strategy, options: TrainingOptions, dtype: str
    ) -> None:
        self._context, self._options, self._trainable = context, options, trainable
        self.strategy = strategy
        self.parameters = [one for one in strategy.plain.parameters() if one.requires_grad]
        self._forward = forward_context(dtype, context.device)
        self._scaler = loss_scaler(dtype, context.device)
        self._apply = Update(options, self.parameters, self._scaler)
        self.optimizer = self._apply.optimizer
        self.feed = _feed(context, trainable, options)
        self._clock: PhaseClock | None = None
        self._ranges = ranges_of(context.device, options)
        self._micro_batch = 0
        self._synchronised = True
        self._last_ready: torch.Tensor | None = None  # whose gradient is the last of a backward pass
        self._hooks: dict[torch.Tensor, Any] = {}
        if strategy.has_gradient_marks:
            for parameter in self.parameters:
                register: Any = parameter.register_post_accumulate_grad_hook
                self._hooks[parameter] = register(self._gradient_ready)

    def end(self) -> None:
        """No step comes any more: without its hooks, which DDP's C++ keeps beyond Python's sight, it can be freed."""
        self._unhook(list(self._hooks))
        if self.feed is not None:
            self.feed.end()

    def step(
        self, number: int, clock: PhaseClock | None = None, *, synchronised: bool = True, norm: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Train on the data of a step. Returns this rank's mean loss and, where asked for, the norm of all gradients.

        Neither is read from the device. Without ``synchronised`` the ranks' parameters drift apart.
        """
        self._clock = clock
        losses = []
        for micro in range(self._options.accumulate):
            self._micro_batch = micro
            is_reduced = self.strategy.reduces_each or micro == self._options.accumulate - 1
            losses.append(self._micro(number, synchronised and is_reduced))
        found_norm = self._update(norm=norm)
        loss = (
            torch.stack(losses).mean() if len(losses) > 1 else losses[0]
        )  # within the step: where its end is reached, its loss is there
        self._clock = None
        if clock is not None:
            clock.mark("optimizer")
            clock.end_step()
        return loss, found_norm

    def _micro(self, number: int, synchronised: bool) -> torch.Tensor:
        with self._ranges.phase("data"):
            batch = self._batch(number * self._options.accumulate + self._micro_batch)
        if self.feed is not None:
            self._mark("data")
        with self._ranges.phase("copy"):
            batch = tuple(part.to(self._context.device, non_blocking=True) for part in batch)
        self._mark("data" if self.feed is None else "copy")
        with self.strategy.synchronising(synchronised):
            with self._ranges.phase("forward"), self._forward():
                loss: torch.Tensor = self.strategy.module(*batch)
            self._mark("forward")
            self._synchronised = synchronised
            with self._ranges.phase("backward"):
                share = loss if self._options.accumulate == 1 else loss / self._options.accumulate
                scaled: Any = self._scaler.scale(share)
                scaled.backward()
            self._ranges.end()
            self._keep_one_hook()
        if self.strategy.has_gradient_marks and synchronised:
            self._mark("gradient_sync")
        else:
            self._mark("backward")
        return loss.detach()

    def _batch(self, number: int) -> Batch:
        if self.feed is not None:
            return self.feed.batch(number)
        return batch_of(self._trainable, self._options, self._context.rank, number)

    def _gradient_ready(self, parameter: torch.Tensor) -> None:
        self._mark("backward")  # the last one counts: what follows is waiting for the other ranks
        self._last_ready = parameter
        if len(self._hooks) == 1 and self._synchronised:
            self._ranges.begin("gradient_sync")

    def _keep_one_hook(self) -> None:
        """Gradients of a model get ready in one order: after the first pass only the last of them is asked for.

        A hook at each of the 148 parameters of GPT-2 took an eighth of its step on an H200.
        """
        if len(self._hooks) > 1 and self._last_ready is not None:
            self._unhook([parameter for parameter in self._hooks if parameter is not self._last_ready])

    def _unhook(self, parameters: list[torch.Tensor]) -> None:
        for parameter in parameters:
            self._hooks.pop(parameter).remove()

    def _mark(self, name: str) -> None:
        if self._clock is not None:
            self._clock.mark(f"{name}:{self._micro_batch}")

    def _update(self, *, norm: bool) -> torch.Tensor | None:
        with self._ranges.phase("optimizer"):
            return self._apply(norm=norm)

    def evaluated(self, batch: Batch) -> torch.Tensor:
        """Loss and accuracy of each sample of a batch: (samples, 2). Of shards, every rank must call it."""
        model = self.strategy.plain
        model.eval()
        try:
            with torch.no_grad(), self._forward():
                found: torch.Tensor = model(*(part.to(self._context.device) for part in batch))
            return found
        finally:
            model.train()


def _feed(context: RankContext, trainable: Trainable, options: TrainingOptions) -> Feed | None:
    """What brings micro-batches; None of random samples, which are made where they are used."""
    if trainable.samples is None:
        return None
    return Feed(
        trainable.samples,
        rank=context.rank,
        size=options.batch_size,
        workers=options.data_workers,
        pinned=context.device.type == "cuda",  # gpu: train-bf16
    )


def batch_of(trainable: Trainable, options: TrainingOptions, rank: int, number: int) -> Batch:
    """The samples of one rank and micro-batch, on the CPU: the same whenever and wherever they are made."""
    if trainable.samples is not None:
        return trainable.samples.of(rank, number, options.batch_size)
    generator = torch.Generator().manual_seed(((options.seed * 1_000_003 + number) * 1_000_003 + rank) % 2**63)
    return trainable.batch(generator, options.batch_size)
