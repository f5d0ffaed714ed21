"""Functions that make a rank hang, or slow, each in its way.

A ``fault(rank)`` runs in every rank before it joins: it puts something in the place of a function of PyTorch or of
raybench, as a library or a file of the user's may. PyTorch is imported there and not here, since tests that only read
the table of faults would pay for it.
"""

import ctypes
import importlib
import itertools
import os
import pkgutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

FOREVER = 10**6
_DISTRIBUTED, TRAINER = "torch.distributed", "raybench.benchmarks.training.step:Trainer"
_NTH = 40  # the call at which it happens: warm-up and a block are over


def collectives() -> Any:
    """``torch.distributed``."""
    return importlib.import_module("torch.distributed")


def replaced(place: Any, name: str, rank: int, guilty: tuple[int, ...], nth: int = _NTH) -> Callable[[Any], None]:
    """Put a function in the place of another in the guilty ranks: at the nth call, the other one is called.

    ``place``: what has it, or where that is, ``module`` or ``module:class``.
    """

    def put(other: Callable[..., Any]) -> None:
        owner = pkgutil.resolve_name(place) if isinstance(place, str) else place
        real, calls = getattr(owner, name), [0]

        def call(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            return (other if calls[0] == nth else real)(*arguments, **options)

        if rank in guilty:
            setattr(owner, name, call)

    return put


def doze(*_: Any, **__: Any) -> None:
    time.sleep(FOREVER)


def doze_in_c(*_: Any, **__: Any) -> None:
    ctypes.PyDLL(None).sleep(FOREVER)  # holds the interpreter


def spin(*_: Any, **__: Any) -> None:
    while True:
        pass


def hash_for_ever(*_: Any, **__: Any) -> None:
    any(hash((number, "x")) is None for number in itertools.count())  # on one line, whenever it is looked at


def read_a_pipe(*_: Any, **__: Any) -> None:
    reading, _writing = os.pipe()
    os.read(reading, 1)


def fill_a_pipe(*_: Any, **__: Any) -> None:
    _reading, writing = os.pipe()
    while True:
        os.write(writing, bytes(4096))


def open_a_fifo(*_: Any, **__: Any) -> None:
    path = Path(tempfile.mkdtemp(prefix="raybench-fifo-")) / "fifo"
    os.mkfifo(path)
    path.read_bytes()


def stop_oneself(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def before_all_reduce(what: Callable[..., None], *guilty: int) -> Callable[[int], None]:
    def fault(rank: int) -> None:
        real = collectives().all_reduce
        replaced(_DISTRIBUTED, "all_reduce", rank, guilty)(lambda *a, **k: (what(), real(*a, **k)))

    return fault


def after_all_reduce(what: Callable[..., None], *guilty: int) -> Callable[[int], None]:
    def fault(rank: int) -> None:
        real = collectives().all_reduce
        replaced(_DISTRIBUTED, "all_reduce", rank, guilty)(lambda *a, **k: (real(*a, **k), what()))

    return fault


def between_operations(what: Callable[..., None], *guilty: int) -> Callable[[int], None]:
    """In the loop itself, when no operation is entered."""
    return lambda rank: replaced("raybench.benchmarks.timing", "synchronize", rank, guilty, 4)(what)


def inside_all_reduce(what: Callable[..., None], *guilty: int) -> Callable[[int], None]:
    """Started, and not waited for."""

    def fault(rank: int) -> None:
        real = collectives().all_reduce
        replaced(_DISTRIBUTED, "all_reduce", rank, guilty)(lambda *a, **k: (real(*a, **k, async_op=True), what()))

    return fault


def other_operation(other: "Callable[[torch.Tensor], Any]", *guilty: int) -> Callable[[int], None]:
    return lambda rank: replaced(_DISTRIBUTED, "all_reduce", rank, guilty)(lambda tensor, *_, **__: other(tensor))


def other_message(change: "Callable[[torch.Tensor], torch.Tensor]", *guilty: int) -> Callable[[int], None]:
    """In the program, not in PyTorch: gloo ends the process that gets more than it expects."""

    def fault(rank: int) -> None:
        def all_reduce(tensor: "torch.Tensor", *arguments: Any) -> Any:
            return collectives().all_reduce(tensor, *arguments)

        program = SimpleNamespace(all_reduce=all_reduce)
        replaced(program, "all_reduce", rank, guilty)(lambda tensor, *a: collectives().all_reduce(change(tensor), *a))
        importlib.import_module("raybench.benchmarks.collectives.all_reduce").dist = program

    return fault


def skipped(name: str, *guilty: int, nth: int = _NTH) -> Callable[[int], None]:
    return lambda rank: replaced(_DISTRIBUTED, name, rank, guilty, nth)(lambda *_, **__: None)


def in_method(place: str, name: str, what: Callable[..., None], *guilty: int, nth: int = 1) -> Callable[[int], None]:
    return lambda rank: replaced(place, name, rank, guilty, nth)(what)


def never(_: int) -> None:
    """No fault."""


def slow_rank(seconds: float) -> Callable[[int], None]:
    def fault(rank: int) -> None:
        real = collectives().all_reduce

        def call(*arguments: Any, **options: Any) -> Any:
            time.sleep(seconds)
            return real(*arguments, **options)

        if rank == 1:
            collectives().all_reduce = call

    return fault


def slow_step(seconds: float) -> Callable[[int], None]:
    def fault(_: int) -> None:
        trainer = pkgutil.resolve_name(TRAINER)
        real = trainer._update

        def call(*arguments: Any, **options: Any) -> Any:
            time.sleep(seconds)
            return real(*arguments, **options)

        trainer._update = call

    return fault


def computing(seconds: float) -> Callable[[int], None]:
    """A rank that needs long for its first step, and uses its processor for it."""

    def fault(rank: int) -> None:
        trainer = pkgutil.resolve_name(TRAINER)
        real, ones = trainer._micro, importlib.import_module("torch").ones

        def call(*arguments: Any, **options: Any) -> Any:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                ones(1000).sum()
            return real(*arguments, **options)

        if rank == 1:
            trainer._micro = call

    return fault


def forward(what: Callable[..., None], *guilty: int) -> Callable[[int], None]:
    return in_method("torch.nn.functional", "cross_entropy", what, *guilty, nth=8)
