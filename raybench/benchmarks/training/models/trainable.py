"""The models that can be trained, each with the data that it eats and the operations that a sample costs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from raybench.benchmarks.training.data.samples import Batch, Samples, samples_of
from raybench.benchmarks.training.models.shapes import CNN_CLASSES, CNN_IMAGE, CNN_WIDTHS, mlp_sizes, shape_of
from raybench.benchmarks.training.models.transformer import LanguageModel
from raybench.benchmarks.training.models.weight_config import PLAIN, details_of
from raybench.benchmarks.training.options import TrainingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainable:
    """A model to be built and fed.

    ``build()`` gives it with parameters of no value; its ``forward(*batch)`` returns the loss. ``batch(generator,
    size)`` makes random samples on the CPU. ``tokens_per_sample`` is None where there are no tokens. ``tied``: two
    layers share a parameter. ``samples``: those to learn from, in place of random ones; in evaluation ``forward`` then
    returns (samples, 2): loss and accuracy of each.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[torch.Generator, int], Batch]
    tokens_per_sample: int | None
    tied: bool = False
    samples: Samples | None = None


class Perceptron(nn.Module):
    """Linear layers with ReLU between them, in and out as wide as the first of them; mean squared error."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))

    @property
    def blocks(self) -> list[nn.Module]:
        """The parts that are sharded one by one."""
        return list(self.layers)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Both (batch, first width) to the loss."""
        return functional.mse_loss(self.outputs(inputs).float(), targets.float())

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """(batch, first width) to (batch, last width)."""
        hidden = inputs
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden) if index == len(self.layers) - 1 else functional.relu(layer(hidden))
        return hidden


class Classifier(Perceptron):
    """The same with classes for outputs, cross entropy, and values to begin with that keep the size of what passes."""

    scaled_by_inputs = True

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """``inputs`` (batch, first width) and ``targets`` (batch,) to the loss; evaluated, to (batch, 2)."""
        scores = self.outputs(inputs).float()
        if self.training:
            return functional.cross_entropy(scores, targets)
        losses = functional.cross_entropy(scores, targets, reduction="none")
        return torch.stack((losses, (scores.argmax(dim=1) == targets).float()), dim=1)


class ConvolutionalNet(nn.Module):
    """Three stages of two 3x3 convolutions on 32x32 images; group norm, so that ranks need no common statistics."""

    def __init__(self, *, checkpointing: bool = False) -> None:
        super().__init__()
        self._checkpointing = checkpointing
        stages, before = [], 3
        for width in CNN_WIDTHS:
            stages.append(_stage(before, width))
            before = width
        self.stages = nn.ModuleList(stages)
        self.head = nn.Linear(before, CNN_CLASSES)

    @property
    def blocks(self) -> list[nn.Module]:
        """The parts that are sharded, and recomputed, one by one."""
        return list(self.stages)

    def forward(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """``images`` (batch, 3, 32, 32) and ``classes`` (batch,) to the loss."""
        for stage in self.stages:
            if self._checkpointing and self.training:
                images = torch.utils.checkpoint.checkpoint(stage, images, use_reentrant=False)
            else:
                images = stage(images)
        return functional.cross_entropy(self.head(images.mean(dim=(2, 3))).float(), classes)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The parts of a model of this module that are sharded, adapted or recomputed one by one."""
    found: Any = model.blocks
    return list(found)


def _stage(before: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, width, 3, padding=1, bias=False),
        nn.GroupNorm(8, width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, stride=2, bias=False),
        nn.GroupNorm(8, width),
        nn.ReLU(),
    )


def trainable_of(options: TrainingOptions, world_size: int = 1) -> Trainable:
    """The model that the options name. Raises UsageError for one that there is not, or data that cannot be read."""
    if options.model == "mlp":
        return _perceptron(options, world_size)
    if options.model == "cnn":
        return _convolutional(options)
    shape, length = shape_of(options)
    details = PLAIN if options.weights is None else details_of(options.weights)

    def batch(generator: torch.Generator, size: int) -> Batch:
        return (torch.randint(shape.vocabulary, (size, length), generator=generator),)

    return Trainable(
        build=lambda: LanguageModel(shape, checkpointing=options.checkpoint_activations, details=details),
        batch=batch,
        tokens_per_sample=length,
        tied=shape.tied,
        samples=samples_of(options, world_size, length, shape.vocabulary),
    )


def built(trainable: Trainable, device: torch.device) -> nn.Module:
    """The model without memory, which it gets once it is spread; one with a shared parameter would lose the sharing."""
    with torch.device(device if trainable.tied else "meta"):
        return trainable.build()


def _perceptron(options: TrainingOptions, world_size: int) -> Trainable:
    sizes = mlp_sizes(options)

    def batch(generator: torch.Generator, size: int) -> Batch:
        inputs = torch.randn(size, sizes[0], generator=generator)
        return inputs, inputs.roll(1, dims=1)

    samples = samples_of(options, world_size, 1)
    kind = Perceptron if samples is None else Classifier
    return Trainable(build=lambda: kind(sizes), batch=batch, tokens_per_sample=None, samples=samples)


def _convolutional(options: TrainingOptions) -> Trainable:
    def batch(generator: torch.Generator, size: int) -> Batch:
        images = torch.randn(size, 3, CNN_IMAGE, CNN_IMAGE, generator=generator)
        return images, torch.randint(CNN_CLASSES, (size,), generator=generator)

    return Trainable(
        build=lambda: ConvolutionalNet(checkpointing=options.checkpoint_activations),
        batch=batch,
        tokens_per_sample=None,
    )
