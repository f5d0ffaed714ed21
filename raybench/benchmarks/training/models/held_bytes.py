"""Bytes of the tensors that are there at once while a module computes, on a device that has no memory (meta)."""

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_MATRIX_DIMENSIONS = 2
_FINENESS = 0.005  # of the most: so much may be made between two looks at what is still there


class HeldBytes(TorchDispatchMode):
    """Storages that are made inside and are still there. Gradients of parameters do not count, nor while in the making.

    A parameter that several layers share has one of each, which are known by their shape. The most is exact to
    ``_FINENESS``: with a look at each new storage, the time would grow as their number squared.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self._known: dict[int, StorageWeakRef] = {}
        self._sizes: dict[int, int] = {}
        self._made_at: dict[int, int] = {}
        self._gradients: set[int] = set()
        self._looks: list[int] = []  # bytes that were there
        self._last = self._since = 0
        for one in module.parameters():
            if one.requires_grad:
                one.register_hook(self._settle)
        self._shared = _shared_shapes(module)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and look at what it gives."""
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self._add(one.untyped_storage(), tuple(one.shape))
        if self._since > _FINENESS * self._last:
            self._looks.append(self.now())
        return result

    def _add(self, storage: torch.UntypedStorage, shape: tuple[int, ...]) -> None:
        key = storage._cdata
        if key in self._known:
            return
        self._known[key], self._sizes[key] = StorageWeakRef(storage), storage.nbytes()
        if shape in self._shared:
            self._gradients.add(key)
            return
        self._made_at[key] = len(self._looks)
        self._since += self._sizes[key]

    def now(self) -> int:
        """Bytes that are there."""
        for key, reference in list(self._known.items()):
            if reference.expired():
                del self._known[key], self._sizes[key]
                self._made_at.pop(key, None)
                self._gradients.discard(key)
        self._last = sum(size for key, size in self._sizes.items() if key not in self._gradients)
        self._since = 0
        return self._last

    def most_since(self, look: int) -> int:
        """The most bytes that were there at once from a look on (``looks``)."""
        return max(self._looks[look:], default=0)

    @property
    def looks(self) -> int:
        """How often it was looked at what is there."""
        return len(self._looks)

    def _settle(self, gradient: torch.Tensor | None) -> None:
        """A parameter's gradient is there: it was one since it was made."""
        if gradient is None:  # as a kernel of its own may give it
            return
        key = gradient.untyped_storage()._cdata
        if key in self._known and key not in self._gradients:
            self._gradients.add(key)
            for look in range(self._made_at[key], len(self._looks)):
                self._looks[look] -= self._sizes[key]


def _shared_shapes(module: nn.Module) -> set[tuple[int, ...]]:
    """Of matrices that several layers share, and of what a product gives, which lies across."""
    matrices = [one for _, one in module.named_parameters(remove_duplicate=False) if one.dim() == _MATRIX_DIMENSIONS]
    uses = Counter(map(id, matrices))
    shapes = [tuple(one.shape) for one in matrices if uses[id(one)] > 1]
    return {*shapes, *(shape[::-1] for shape in shapes)}
