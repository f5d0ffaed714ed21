"""Any ``torch.nn.Module`` by its import path, without memory: its parameters, operations and what its step holds.

``python -m raybench.benchmarks.training.models.counted package.module:factory LENGTH TYPE`` prints one line of JSON. In
a process of its own, since the user's code runs here. On the meta device nothing is computed; the operations of a
forward and a backward pass are counted.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

from raybench.benchmarks.training.models.counted_operations import counted_operations
from raybench.benchmarks.training.models.held_bytes import HeldBytes


def main(arguments: list[str]) -> int:
    """Count what is asked for; 1, with the reason on stderr, where that cannot be."""
    path, length, dtype = arguments[0], int(arguments[1]), getattr(torch, arguments[2])
    try:
        sys.stdout.write(f"{json.dumps(counted(path, length, dtype))}\n")
    except Exception as error:  # noqa: BLE001  # the user's code: whatever it raises is the answer
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def counted(path: str, length: int, dtype: torch.dtype) -> dict[str, Any]:
    """Shapes of the parameters of each block and of the rest, operations of a sample, bytes that its step holds.

    ``buffer_bytes``: of buffers, in their own types. ``frozen``: elements of parameters without gradients.
    ``output_elements``: of a sample, whose loss is computed outside; 1 where the module gives its loss.
    ``passing_bytes``: by how much a backward pass has more at its fullest than what autograd keeps, gradients of
    parameters apart.
    """
    place, _, name = path.partition(":")
    sys.path.append("")  # the user's own modules; last, so that none of them stands in for one of ours
    with torch.device("meta"):
        made: Any = importlib.import_module(place)
        for part in name.split("."):
            made = getattr(made, part)
        made = made() if callable(made) and not isinstance(made, nn.Module) else made
    module, inputs = made if isinstance(made, tuple) else (made, None)
    if not isinstance(module, nn.Module):
        raise TypeError(f"{path} gives a {type(module).__name__}, not a torch.nn.Module")
    buffers = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in module.buffers()}
    module = module.to(device="meta", dtype=dtype)
    if inputs is None:
        inputs = (torch.zeros(1, length, dtype=torch.long, device="meta"),)
    inputs = tuple(_moved(one, dtype) for one in (inputs if isinstance(inputs, tuple) else (inputs,)))
    blocks = _blocks(module)
    with _unpacked(), counted_operations(module) as counter:
        _loss(module(*inputs)).backward()
    module.zero_grad()
    kept = _Kept(module, blocks)
    with _unpacked(), mock.patch.object(functional, "scaled_dot_product_attention", _fused_attention):
        with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda one: one):
            outputs = max(one.numel() for one in _trained(module(*inputs)))
        passing = _passing_bytes(module, inputs)
    inside = {id(one) for block in blocks for one in block.parameters()}
    rest = [one for one in module.parameters() if id(one) not in inside]
    return {
        "blocks": len(blocks),
        "block_shapes": [list(one.shape) for one in blocks[0].parameters()] if blocks else [],
        "outer_shapes": [list(one.shape) for one in rest],
        "operations": counter.get_total_flops(),
        "block_kept_bytes": kept.in_blocks / max(1, len(blocks)),
        "outer_kept_bytes": kept.outside,
        "buffer_bytes": sum(buffers.values()),
        "frozen": sum(one.numel() for one in module.parameters() if not one.requires_grad),
        "output_elements": outputs,
        "passing_bytes": passing,
        "width": max((one.in_features for one in module.modules() if isinstance(one, nn.Linear)), default=1024),
    }


@contextmanager
def _unpacked() -> Iterator[None]:
    """Tells transformers, which looks at positions that have no values here, that the sample is no several packed ones.

    It looks where there is no cache (transformers/masking_utils.py of 5.23, find_packed_sequence_indices, which gives
    None for that).
    """
    place = "transformers.masking_utils"
    masks = importlib.import_module(place) if place in sys.modules else None
    if not hasattr(masks, "find_packed_sequence_indices"):
        yield
        return
    with mock.patch.object(masks, "find_packed_sequence_indices", return_value=None):
        yield


def _trained(output: Any) -> list[torch.Tensor]:
    """Outputs that depend on parameters. Raises ValueError where none does."""
    outputs = [one for one in _tensors(output) if one.requires_grad]
    if not outputs:
        raise ValueError("its output depends on no parameter, so that there is nothing to train")
    return outputs


def _loss(output: Any) -> torch.Tensor:
    """A number that depends on all outputs."""
    return torch.stack([one.float().sum() for one in _trained(output)]).sum()


def _passing_bytes(module: nn.Module, inputs: tuple[Any, ...]) -> int:
    """What a backward pass has at its fullest beside what the forward pass leaves.

    Without gradients of parameters, and of outputs whose loss is computed outside.
    """
    with HeldBytes(module) as held:
        outputs = module(*inputs)
        loss, outside = _loss(outputs), sum(int(one.nbytes) for one in _trained(outputs) if one.dim())
        del outputs
        left, first = held.now(), held.looks
        loss.backward()
    return int(max(0, held.most_since(first) - left - outside))


_PLAIN_ATTENTION = functional.scaled_dot_product_attention


def _fused_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, *rest: Any, **options: Any
) -> torch.Tensor:
    """As a GPU has it, which keeps no probabilities; the meta device takes the plain one, which does."""
    if attn_mask is not None or query.dtype == torch.float32:
        return _PLAIN_ATTENTION(query, key, value, attn_mask, *rest, **options)
    own = value.shape[-1]  # of DeepSeek's kind narrower than q and k: padded, as fused kernels want it
    value = functional.pad(value, (0, query.shape[-1] - own)) if own < query.shape[-1] else value
    found: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, True)[0]
    return found[..., :own]


def _blocks(module: nn.Module) -> list[nn.Module]:
    """The longest list of modules whose parameters have equal shapes; none where nothing is repeated."""

    def shapes(one: nn.Module) -> list[torch.Size]:
        return [parameter.shape for parameter in one.parameters()]

    lists = [
        list(one)
        for one in module.modules()
        if isinstance(one, nn.ModuleList | nn.Sequential) and len(one) > 1 and shapes(one[0])
    ]
    alike = [one for one in lists if all(shapes(block) == shapes(one[0]) for block in one)]
    return max(
        alike, key=lambda one: sum(parameter.numel() for parameter in one[0].parameters()) * len(one), default=[]
    )


class _Kept:
    """Bytes of the tensors that autograd keeps, each once, parameters apart."""

    def __init__(self, module: nn.Module, blocks: list[nn.Module]) -> None:
        self.in_blocks, self.outside, self._depth = 0, 0, 0
        self._known = {one.untyped_storage()._cdata for one in module.parameters()}
        self._held: list[torch.Tensor] = []  # a storage's address is given again once it is gone
        for block in blocks:
            block.register_forward_pre_hook(lambda *_: self._move(1))
            block.register_forward_hook(lambda *_: self._move(-1))

    def _move(self, step: int) -> None:
        self._depth += step

    def pack(self, one: torch.Tensor) -> torch.Tensor:
        """Count a tensor that is kept."""
        storage = one.untyped_storage()
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self._held.append(one)
            if self._depth:
                self.in_blocks += storage.nbytes()
            else:
                self.outside += storage.nbytes()
        return one


def _moved(one: Any, dtype: torch.dtype) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return one.to(device="meta", dtype=dtype if one.is_floating_point() else one.dtype)


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, dict):
        for one in output.values():
            yield from _tensors(one)
    elif isinstance(output, tuple | list):
        for one in output:
            yield from _tensors(one)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
