"""Operations of a forward and a backward pass: torch's counter, with the grouped matrix products that it leaves out.

torch counts what it does not know as nothing, so that a mixture of experts in one grouped product would cost its
attention alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

Shape = Sequence[int]
_GROUPED = ("_grouped_mm", "_scaled_grouped_mm")  # of torch.ops.aten, as far as this torch has them
_MATRIX_DIMENSIONS = 2


@contextmanager
def counted_operations(module: nn.Module) -> Iterator[FlopCounterMode]:
    """Counts what is run inside. Raises ValueError at its end where a kernel of its own read a matrix of weights."""
    own = _OwnKernels(module)
    with FlopCounterMode(display=False, custom_mapping=dict(_formulas())) as counter, own:
        yield counter
    if own.names:
        raise ValueError(f"the operations of {', '.join(sorted(own.names))} cannot be counted")


def grouped_operations(one: Shape, other: Shape, *_: Any, **__: Any) -> int:
    """Of ``torch._grouped_mm``: rows, columns or what is summed are split among groups, unless both are batches."""
    rows, summed, columns = one[-2], one[-1], other[-1]
    is_batch = len(one) > _MATRIX_DIMENSIONS and len(other) > _MATRIX_DIMENSIONS
    return 2 * rows * summed * columns * (math.prod(one[:-2]) if is_batch else 1)


def _formulas() -> Mapping[Any, Callable[..., int]]:
    return {getattr(torch.ops.aten, name): grouped_operations for name in _GROUPED if hasattr(torch.ops.aten, name)}


class _OwnKernels(TorchDispatchMode):
    """Names of operators that are not torch's own and were given weights of two dimensions or more."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.names: set[str] = set()
        matrices = (one for one in module.parameters() if one.dim() >= _MATRIX_DIMENSIONS)
        self._weights = {one.untyped_storage()._cdata for one in matrices}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and remember it if it is such a one."""
        if func.namespace not in ("aten", "prim", "prims") and any(map(self._is_weight, args)):
            self.names.add(str(func))
        return func(*args, **(kwargs or {}))

    def _is_weight(self, one: Any) -> bool:
        return isinstance(one, torch.Tensor) and one.untyped_storage()._cdata in self._weights
