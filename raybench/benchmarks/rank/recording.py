"""Every operation of ``torch.distributed`` that this rank enters and leaves, noted in its progress slot.

Within ``recording`` the functions of ``torch.distributed`` are wrapped, so that those that PyTorch itself calls (FSDP,
distributed checkpoints) are noted as well. Those that PyTorch starts below Python (DDP's gradients) are in its flight
recorder: see ``flight_record``.
"""

import contextlib
import functools
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from raybench.benchmarks.rank.progress import DTYPES, NOBODY, OPERATIONS, ProgressSlot

_CODES = {name: code for code, name in enumerate(OPERATIONS)}
_DTYPES = {getattr(torch, name): code for code, name in enumerate(DTYPES) if name and hasattr(torch, name)}
# Position and name of what the record holds of a call: the tensor, the root or peer, the process group.
_ARGUMENTS: dict[str, tuple[tuple[int, str], tuple[int, str] | None, tuple[int, str]]] = {
    "all_reduce": ((0, "tensor"), None, (2, "group")),
    "broadcast": ((0, "tensor"), (1, "src"), (2, "group")),
    "reduce": ((0, "tensor"), (1, "dst"), (3, "group")),
    "all_gather": ((1, "tensor"), None, (2, "group")),
    "all_gather_into_tensor": ((1, "input_tensor"), None, (2, "group")),
    "all_gather_single": ((1, "input"), None, (2, "group")),
    "reduce_scatter": ((0, "output"), None, (3, "group")),
    "reduce_scatter_tensor": ((0, "output"), None, (3, "group")),
    "reduce_scatter_single": ((0, "output"), None, (3, "group")),
    "all_to_all": ((0, "output_tensor_list"), None, (2, "group")),
    "all_to_all_single": ((0, "output"), None, (4, "group")),
    "gather": ((0, "tensor"), (2, "dst"), (3, "group")),
    "scatter": ((0, "tensor"), (2, "src"), (3, "group")),
    "barrier": ((9, ""), None, (0, "group")),
    "send": ((0, "tensor"), (1, "dst"), (2, "group")),
    "recv": ((0, "tensor"), (1, "src"), (2, "group")),
}


class Recorder:
    """Counts the operations of each process group and notes them in a slot. Only the main thread's are noted."""

    def __init__(self, progress: ProgressSlot) -> None:
        self._progress = progress
        self._thread = threading.get_ident()
        self._busy = False
        self._sequences: dict[int | str, int] = {}
        self._groups: dict[Any, tuple[int, int, int, int]] = {}

    @contextlib.contextmanager
    def inside(
        self, name: str, *, count: int = 0, dtype: int = 0, peer: int = NOBODY, source: int = NOBODY
    ) -> Iterator[None]:
        """Note a wait that no function of ``torch.distributed`` stands for, of all ranks or of a pair."""
        if self._busy or threading.get_ident() != self._thread:
            yield
            return
        self._busy = True
        number = self._sequences[name] = self._sequences.get(name, 0) + 1  # not one of its group's collectives
        self._progress.enter_operation((_CODES[name], number, count, dtype, peer, source, 0, 0, 0, 1))
        try:
            yield
        finally:
            self._busy = False
            self._progress.leave_operation()

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of ``torch.distributed`` that notes when it is entered and left."""
        code, progress, thread = _CODES[name], self._progress, self._thread
        sequences, groups, get_ident = self._sequences, self._groups, threading.get_ident
        describe = _description(name)

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if self._busy or get_ident() != thread:  # a part of another operation, or a save in the background
                return function(*arguments, **options)
            count, dtype, peer, source, group = describe(arguments, options)
            key, first, size, stride = groups.get(group) or self._group(group)
            counted = name if source != NOBODY or name == "send" else key
            sequence = sequences[counted] = sequences.get(counted, 0) + 1
            self._busy = True
            progress.enter_operation((code, sequence, count, dtype, peer, source, key, first, size, stride))
            try:
                return function(*arguments, **options)
            finally:
                self._busy = False
                progress.leave_operation()

        return call

    def _group(self, group: Any) -> tuple[int, int, int, int]:
        found = self._groups[group] = _key_of(group)
        return found


_active: list[Recorder] = []


@contextlib.contextmanager
def recording(progress: ProgressSlot) -> Iterator[Recorder]:
    """Note what is called within. In a rank that is until its process ends."""
    recorder = Recorder(progress)
    originals = [
        (module, name, getattr(module, name))
        for module in (dist, distributed_c10d)
        for name in _ARGUMENTS
        if hasattr(module, name)
    ]
    for module, name, function in originals:
        setattr(module, name, recorder.wrapped(name, function))
    _active.append(recorder)
    try:
        yield recorder
    finally:
        _active.remove(recorder)
        for module, name, function in originals:
            setattr(module, name, function)


def inside(name: str) -> contextlib.AbstractContextManager[None]:
    """Note that this rank waits for the others, or for its device, without an operation of ``torch.distributed``."""
    return _active[-1].inside(name) if _active else contextlib.nullcontext()


def inside_message(name: str, tensor: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Note that this rank is in an operation of that name that is not one of ``torch.distributed``."""
    if not _active:
        return contextlib.nullcontext()
    count, dtype = _message(tensor)
    return _active[-1].inside(name, count=count, dtype=dtype)


def exchange(operations: Sequence[dist.P2POp]) -> None:
    """Start point-to-point operations together and wait for all of them."""
    if not _active:
        _wait_for(operations)
        return
    sends = [one for one in operations if one.op is dist.isend]
    receives = [one for one in operations if one.op is dist.irecv]
    name = "send_recv" if sends and receives else "send" if sends else "recv"
    count, dtype = _message(operations[0].tensor)
    to, source = (_rank(ones[0].peer) if ones else NOBODY for ones in (sends, receives))
    with _active[-1].inside(name, count=count, dtype=dtype, peer=to, source=source):
        _wait_for(operations)


def _wait_for(operations: Sequence[dist.P2POp]) -> None:
    for work in dist.batch_isend_irecv(list(operations)):
        work.wait()


def _description(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[int, int, int, int, Any]]:
    """How to tell from the arguments of an operation: elements, type, root or receiver, sender, process group."""
    (tensor_place, tensor_name), peer_at, (group_place, group_name) = _ARGUMENTS[name]
    peer_place, peer_name = peer_at or (len(_ARGUMENTS), "")

    def describe(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, int, int, int, Any]:
        given = len(arguments)
        count, dtype = _message(arguments[tensor_place] if tensor_place < given else options.get(tensor_name))
        group = arguments[group_place] if group_place < given else options.get(group_name)
        if peer_at is None:
            return count, dtype, NOBODY, NOBODY, group
        peer = _rank(arguments[peer_place] if peer_place < given else options.get(peer_name))
        return (count, dtype, NOBODY, peer, group) if name == "recv" else (count, dtype, peer, NOBODY, group)

    return describe


def _message(tensor: Any) -> tuple[int, int]:
    """Elements and type; of a list, those of its first tensor."""
    if isinstance(tensor, torch.Tensor):
        return tensor.numel(), _DTYPES.get(tensor.dtype, 0)
    return _message(tensor[0]) if isinstance(tensor, (list, tuple)) and tensor else (0, 0)


def _rank(value: Any) -> int:
    return value if isinstance(value, int) else NOBODY


def _key_of(group: Any) -> tuple[int, int, int, int]:
    """What tells a process group from others, alike in all of its ranks; and its ranks, where they are regular."""
    if group is None or not dist.is_initialized() or group is dist.group.WORLD:
        return 0, 0, 0, 1
    try:
        ranks = dist.get_process_group_ranks(group)
        name = str(group.group_name)
    except (AttributeError, KeyError, RuntimeError, ValueError):
        return 1, 0, 0, 1
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    regular = stride > 0 and ranks == list(range(ranks[0], ranks[0] + stride * len(ranks), stride))
    return (1 + zlib.crc32(name.encode()), *((ranks[0], len(ranks), stride) if regular else (0, 0, 1)))
