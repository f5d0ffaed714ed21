"""How micro-batches reach a rank: made when they are asked for, or by a DataLoader whose workers are ahead.

With a loader the phase ``data`` of a step is what the rank waits for it, and ``copy`` what the transfer to a GPU takes.
"""

from collections.abc import Iterator

from torch.utils.data import DataLoader, Dataset

from raybench.benchmarks.training.data.samples import Batch, Samples


class _Batches(Dataset[Batch]):
    """A whole micro-batch an item, by the indices of its samples."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __getitem__(self, indices: list[int]) -> Batch:
        return self._samples.take(indices)


class Feed:
    """The micro-batches of one rank by their numbers. Those that were announced come from the loader."""

    def __init__(self, samples: Samples, *, rank: int, size: int, workers: int, pinned: bool) -> None:
        self._samples, self._rank, self._size = samples, rank, size
        self._workers, self._pinned = workers, pinned
        self._coming: Iterator[Batch] | None = None
        self._next = -1

    def announce(self, first: int, count: int) -> None:
        """The ``count`` micro-batches from ``first`` on are asked for next, in their order: workers begin with them."""
        order = [self._samples.indices(self._rank, number, self._size) for number in range(first, first + count)]
        loader = DataLoader(
            _Batches(self._samples),
            sampler=order,  # an index is a list of samples
            batch_size=None,
            num_workers=self._workers,
            pin_memory=self._pinned,
        )
        self._coming, self._next = iter(loader), first

    def batch(self, number: int) -> Batch:
        """A micro-batch on the CPU, pinned where it goes to a GPU."""
        if self._coming is not None and number == self._next:
            self._next += 1
            return tuple(next(self._coming))
        made = self._samples.of(self._rank, number, self._size)
        return tuple(part.pin_memory() for part in made) if self._pinned else made

    def end(self) -> None:
        """Workers end."""
        self._coming = None
