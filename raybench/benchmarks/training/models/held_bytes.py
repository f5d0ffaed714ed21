"""Bytes of the tensors that are there at once while a module computes, on a device that has no memory (meta)."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_MATRIX_DIMENSIONS = 2
_FINENESS = 0.005  # of the most: so much may be made between two looks at what is still there
_SUMS = (torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor)


@dataclass(slots=True, eq=False)
class _Storage:
    """One that was made inside: from which look on it was there, and up to which. ``summands``: what was added up."""

    reference: StorageWeakRef
    size: int
    made_at: int
    gone_at: int | None = None
    is_gradient: bool = False
    summands: "list[_Storage]" = field(default_factory=list)


class HeldBytes(TorchDispatchMode):
    """Storages that are made inside and are still there. Gradients of parameters do not count, nor while in the making.

    A parameter that several layers share has one of each, which are known by the sum that its own is. The most is exact
    to ``_FINENESS``: with a look at each new storage, the time would grow as their number squared.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self._known: dict[int, _Storage] = {}
        self._looks: list[int] = []  # bytes that were there
        self._last = self._since = 0
        shared = _shared_matrices(module)
        for one in module.parameters():
            if one.requires_grad:
                one.register_hook(partial(self._settle, is_sum=id(one) in shared))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and look at what it gives."""
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                made = self._add(one.untyped_storage())
                if func in _SUMS:
                    made.summands += self._summands(made, args[:2])
        if self._since > _FINENESS * self._last:
            self._looks.append(self.now())
        return result

    def _add(self, storage: torch.UntypedStorage) -> _Storage:
        key = storage._cdata
        if key not in self._known:
            size = storage.nbytes()
            self._known[key] = _Storage(StorageWeakRef(storage), size, made_at=len(self._looks))
            self._since += size
        return self._known[key]

    def _summands(self, made: _Storage, args: tuple[Any, ...]) -> list[_Storage]:
        """As far as they were made inside, and are as large."""
        keys = [one.untyped_storage()._cdata for one in args if isinstance(one, torch.Tensor)]
        found = [self._known[key] for key in keys if key in self._known]
        return [one for one in found if one is not made and one.size == made.size]

    def now(self) -> int:
        """Bytes that are there."""
        for key, one in list(self._known.items()):
            if one.reference.expired():
                one.gone_at = len(self._looks)
                del self._known[key]
        self._last = sum(one.size for one in self._known.values() if not one.is_gradient)
        self._since = 0
        return self._last

    def most_since(self, look: int) -> int:
        """The most bytes that were there at once from a look on (``looks``)."""
        return max(self._looks[look:], default=0)

    @property
    def looks(self) -> int:
        """How often it was looked at what is there."""
        return len(self._looks)

    def _settle(self, gradient: torch.Tensor | None, *, is_sum: bool) -> None:
        """A parameter's gradient is there: it was one since it was made, and so was what it is the sum of."""
        if gradient is None:  # as a kernel of its own may give it
            return
        found = self._known.get(gradient.untyped_storage()._cdata)
        left = [found] if found else []
        while left:
            one = left.pop()
            if one.is_gradient:
                continue
            one.is_gradient = True
            for look in range(one.made_at, len(self._looks) if one.gone_at is None else one.gone_at):
                self._looks[look] -= one.size
            left += one.summands if is_sum else []


def _shared_matrices(module: nn.Module) -> set[int]:
    """Those that several layers share, by their id."""
    matrices = [one for _, one in module.named_parameters(remove_duplicate=False) if one.dim() == _MATRIX_DIMENSIONS]
    return {one for one, uses in Counter(map(id, matrices)).items() if uses > 1}
