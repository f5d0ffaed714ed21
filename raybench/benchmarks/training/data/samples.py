"""Samples to learn from: which of them a rank takes in a micro-batch, whatever the number of ranks.

The samples of a step are consecutive in an order that depends on the seed and the epoch alone, and the ranks share them
out. So one rank with a batch of 8, two with 4 and four with 2 train on the same samples in the same steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from raybench.benchmarks.training.data.corpus import corpus_text
from raybench.benchmarks.training.data.enough import SPIRAL_POINTS, check_enough, divided
from raybench.benchmarks.training.data.files import read_text
from raybench.benchmarks.training.data.tokens import tokens_of
from raybench.benchmarks.training.models.shapes import BYTE_VALUES
from raybench.benchmarks.training.options import SPIRAL_CLASSES, TrainingOptions

Batch = tuple[torch.Tensor, ...]
_SPIRAL_NOISE = 0.15  # radians: arms are 2 pi / 3 apart
_SPIRAL_TURNS = 0.75


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Samples ``0 .. count - 1`` to train on, ``count .. count + held_out - 1`` to validate with.

    ``take(indices)`` gives them as a batch on the CPU. ``remark``: what of the data is not in them.
    """

    name: str
    count: int
    held_out: int
    take: Callable[[Sequence[int]], Batch]
    world_size: int
    seed: int
    remark: str | None = None
    _orders: dict[int, torch.Tensor] = field(default_factory=dict)

    def indices(self, rank: int, number: int, size: int) -> list[int]:
        """Those that a rank takes in a micro-batch, numbered over all steps."""
        first = (number * self.world_size + rank) * size
        return [self._at(place) for place in range(first, first + size)]

    def of(self, rank: int, number: int, size: int) -> Batch:
        """The micro-batch itself."""
        return self.take(self.indices(rank, number, size))

    def held_out_indices(self, rank: int, number: int, size: int) -> list[int]:
        """Those of a batch of the validation that a rank takes; none where the others have the last ones."""
        first = (number * self.world_size + rank) * size
        return list(range(self.count, self.count + self.held_out))[first : first + size]

    def _at(self, place: int) -> int:
        epoch, position = divmod(place, self.count)
        if epoch not in self._orders:
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
            while len(self._orders) > 1:
                self._orders.pop(next(iter(self._orders)))
            self._orders[epoch] = torch.randperm(self.count, generator=generator)
        return int(self._orders[epoch][position])


def samples_of(
    options: TrainingOptions, world_size: int, sequence_length: int, vocabulary: int = BYTE_VALUES
) -> Samples | None:
    """The samples that the options name; None for random ones.

    Raises UsageError for what cannot be read, has a token beyond the ``vocabulary``, or is few.
    """
    if options.data == "random":
        return None
    if options.data == "spiral":
        return _checked(_spiral(options, world_size), options)
    text, cut = (corpus_text(), False) if options.data == "text" else read_text(options.data)
    if options.tokenizer is None:
        table = torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0, dtype=torch.uint8)
    else:
        table = torch.tensor(tokens_of(text, options.tokenizer, vocabulary), dtype=torch.int32)
    remark = f"of {options.data} the first {len(text) >> 20} MiB are read" if cut else None
    return _checked(_windows(table, options, world_size, sequence_length, remark), options)


def _checked(samples: Samples, options: TrainingOptions) -> Samples:
    check_enough(samples.name, samples.count + samples.held_out, options, samples.world_size)
    return samples


def _spiral(options: TrainingOptions, world_size: int) -> Samples:
    """Points of spiral arms in the plane, an arm a class: no line parts them, a small network does."""
    generator = torch.Generator().manual_seed(options.seed)
    classes = torch.arange(SPIRAL_POINTS) % SPIRAL_CLASSES
    radius = torch.rand(SPIRAL_POINTS, generator=generator).sqrt()
    noise = _SPIRAL_NOISE * torch.randn(SPIRAL_POINTS, generator=generator)
    angle = 2 * torch.pi * (_SPIRAL_TURNS * radius + classes / SPIRAL_CLASSES) + noise
    points = 2 * torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1)
    count, held_out = divided(SPIRAL_POINTS, options)

    def take(indices: Sequence[int]) -> Batch:
        chosen = torch.tensor(indices, dtype=torch.long)
        return points[chosen], classes[chosen]

    return Samples(name="spiral", count=count, held_out=held_out, take=take, world_size=world_size, seed=options.seed)


def _windows(
    table: torch.Tensor, options: TrainingOptions, world_size: int, length: int, remark: str | None
) -> Samples:
    """The bytes or tokens of a text in windows of the sequence length; the last of them are to validate with."""
    count, held_out = divided(len(table) // length, options)

    def take(indices: Sequence[int]) -> Batch:
        return (torch.stack([table[index * length : (index + 1) * length] for index in indices]).long(),)

    return Samples(
        name=options.data,
        count=count,
        held_out=held_out,
        take=take,
        world_size=world_size,
        seed=options.seed,
        remark=remark,
    )
