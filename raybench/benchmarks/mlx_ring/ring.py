"""The operations of MLX's ring, each evaluated before it counts as done: MLX computes nothing until it is asked to.

MLX's arrays never change: an operation makes a new one. So a message is copied from its torch tensor before blocks are
timed and back after, and what is timed is MLX alone. The ring works on the processor, whatever computes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from raybench.benchmarks.base import Buffers, CollectiveArguments, Prepared, UnsupportedError
from raybench.benchmarks.messages.operations import OPERATIONS, is_matrix
from raybench.benchmarks.rank.recording import inside_message
from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec

_REDUCTIONS = {"sum": "all_sum", "max": "all_max", "min": "all_min"}
_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")
_WHOLE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}  # of so many bytes, to copy elements bit by bit
_MOST_ELEMENTS = 2**31 - 1  # MLX counts the elements of a dimension in 32 bits

Call = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """All ranks, each connected to its two neighbours. ``core``: the module mlx.core; ``group``: its group of ranks."""

    core: Any
    group: Any

    def refuse(self, spec: BenchmarkSpec) -> None:
        """Raises UnsupportedError, in every rank alike, for what MLX has no operation for."""
        if spec.name not in OPERATIONS:
            raise UnsupportedError(f"{spec.name} runs on torch.distributed, not on MLX: choose --backend gloo")
        if is_matrix(spec):
            raise UnsupportedError("MLX's ring connects neighbours only, and p2p_matrix needs every pair of ranks")
        if spec.name not in _OPERATIONS:
            raise UnsupportedError(f"MLX has no {spec.name}: it has {', '.join(_OPERATIONS)}")
        if spec.name == "all_reduce" and spec.reduce_op not in _REDUCTIONS:
            raise UnsupportedError(f"MLX has no {spec.name} with {spec.reduce_op}: it has {', '.join(_REDUCTIONS)}")
        if spec.name == "reduce_scatter" and spec.reduce_op != "sum":
            raise UnsupportedError(f"MLX has no {spec.name} with {spec.reduce_op}: it has sum")

    def prepare(self, name: str, args: CollectiveArguments, buffers: Buffers) -> Prepared:
        """An operation over the tensors' content: ``load`` takes it in, ``store`` hands back what came last."""
        if max(len(buffers.send), len(buffers.receive)) > _MOST_ELEMENTS:
            raise UnsupportedError(f"MLX holds at most {_MOST_ELEMENTS} elements in a row: choose smaller --sizes")
        call, core, held = self._call(name, args), self.core, _Held()

        def load() -> None:
            held.sent = _to_mlx(core, buffers.send, args.dtype)

        def operate() -> None:
            with inside_message(name, buffers.send):
                held.received = call(held.sent)

        def store() -> None:
            _to_torch(core, held.received, buffers.receive)

        return Prepared(call=operate, load=load, store=store)

    def _call(self, name: str, args: CollectiveArguments) -> Call:
        if name == "send_recv":
            return self._exchange(args)
        function = {"all_gather": "all_gather", "reduce_scatter": "sum_scatter"}.get(name)
        operation = getattr(self.core.distributed, function or _REDUCTIONS[args.reduce_op or "sum"])
        group, stream, evaluate = self.group, self.core.cpu, self.core.eval

        def call(sent: Any) -> Any:
            found = operation(sent, group=group, stream=stream)
            evaluate(found)
            return found

        return call

    def _exchange(self, args: CollectiveArguments) -> Call:
        """To the next while from the previous: on one stream all would send first and wait for each other for ever."""
        core, distributed = self.core, self.core.distributed
        following, previous = (args.rank + 1) % args.world_size, (args.rank - 1) % args.world_size
        there, here = core.new_stream(core.cpu), core.new_stream(core.cpu)

        def call(sent: Any) -> Any:
            sending = distributed.send(sent, following, group=self.group, stream=there)
            found = distributed.recv(sent.shape, sent.dtype, previous, group=self.group, stream=here)
            core.eval(sending, found)
            return found

        return call


@dataclass(slots=True)
class _Held:
    """MLX's arrays of one operation."""

    sent: Any = None
    received: Any = None


def _to_mlx(core: Any, tensor: torch.Tensor, dtype: str) -> Any:
    """A copy, element by element the same bits: NumPy, over which it goes, has no bfloat16."""
    whole = getattr(torch, _WHOLE[DTYPE_BYTES[dtype]])
    array = core.view(core.array(tensor.view(whole).numpy()), getattr(core, dtype), stream=core.cpu)
    core.eval(array)
    return array


def _to_torch(core: Any, array: Any, tensor: torch.Tensor) -> None:
    """Copy an array over a tensor of as many elements. Raises ValueError where it has another number of them."""
    if array.size != len(tensor):
        raise ValueError(f"MLX gave {array.size} elements where {len(tensor)} are due")
    name = _WHOLE[tensor.element_size()]
    whole = core.view(array, getattr(core, name), stream=core.cpu)
    core.eval(whole)
    tensor.view(getattr(torch, name)).copy_(torch.frombuffer(memoryview(whole), dtype=getattr(torch, name)))
