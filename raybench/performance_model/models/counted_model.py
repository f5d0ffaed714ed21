"""A model of any kind whose parameters, operations and kept activations were counted, in a transformer's place."""

import math
from dataclasses import dataclass

from raybench.performance_model.models.transformer import Transformer

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedModel(Transformer):
    """``operations`` of a sample, forward and backward; bytes that autograd keeps of a sample, in the compute type.

    ``layers`` blocks with parameters of ``shapes_of_block``. Heads and widths of the transformer mean nothing here, but
    for ``hidden``: the widest input of a linear layer, which decides on efficiency. ``vocabulary``: outputs for each
    token, over which the loss is computed; 1 where the module gives its loss. ``buffer_bytes``: what each rank holds
    beside parameters, sharded or not. ``passing_bytes``: of a sample, by how much its backward pass has more at its
    fullest than what autograd keeps.
    """

    shapes_of_block: Shapes
    shapes_outside: Shapes
    operations: float
    sample_length: int
    block_kept_bytes: float
    outer_kept_bytes: float
    buffer_bytes: int = 0
    frozen_parameters: int = 0
    passing_bytes: float = 0.0

    def linears(self) -> dict[str, tuple[int, int]]:
        """None is known by a name."""
        return {}

    @property
    def trained_parameters(self) -> int:
        """Those that have gradients."""
        return self.parameters - self.frozen_parameters

    @property
    def output_weights(self) -> int:
        """Those of the largest parameter outside the blocks."""
        return self.token_table_parameters

    def block_shapes(self) -> Shapes:
        """As counted."""
        return self.shapes_of_block

    def outer_shapes(self) -> Shapes:
        """As counted."""
        return self.shapes_outside

    @property
    def parameters_per_layer(self) -> int:
        """Of one block."""
        return sum(math.prod(shape) for shape in self.shapes_of_block)

    @property
    def outer_parameters(self) -> int:
        """Of all else."""
        return sum(math.prod(shape) for shape in self.shapes_outside)

    @property
    def token_table_parameters(self) -> int:
        """The largest parameter outside the blocks, which is the last to have a gradient."""
        return max((math.prod(shape) for shape in self.shapes_outside), default=0)

    def attention_flops_per_token(self, sequence_length: int) -> float:  # noqa: ARG002  # counted at one length
        """Part of what was counted."""
        return 0.0

    def flops_per_token(self, sequence_length: int) -> float:  # noqa: ARG002  # counted at one length
        """As counted, whatever the length."""
        return self.operations / self.sample_length

    def hardware_flops_per_token(self, sequence_length: int, *, recompute: float = 1.0) -> float:
        """With the share of the forward pass, a third of all, that is done twice."""
        return self.flops_per_token(sequence_length) * (1 + recompute / 3)
