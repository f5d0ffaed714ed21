"""Python loads this at its start in every process of a command under test: it does to one rank what a file asks for.

The file named by RAYBENCH_TEST_FAULT holds a rank and an action, ``3 sleep``; it is there once the fault is due.
"""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

_PERIOD_SECONDS = 0.05
_FOREVER_SECONDS = 10.0**6


def _sleep(*_: Any, **__: Any) -> None:
    time.sleep(_FOREVER_SECONDS)


def _once(distributed: Any, other: Any) -> None:
    """The next all_reduce of this rank is something else."""
    real = distributed.all_reduce

    def all_reduce(*arguments: Any, **options: Any) -> Any:
        distributed.all_reduce = real
        return other(*arguments)

    distributed.all_reduce = all_reduce


def _do(action: str, distributed: Any) -> None:
    if action == "sleep":  # in whatever it calls next: a collective, or a layer of the model
        distributed.all_reduce = _sleep
        sys.modules["torch"].nn.Module.__call__ = _sleep
    elif action == "mismatch":
        _once(distributed, lambda tensor, *_: distributed.broadcast(tensor, src=0))
    elif action == "skip":
        _once(distributed, lambda *_: None)


def _watch(path: Path) -> None:
    while not path.exists():
        time.sleep(_PERIOD_SECONDS)
    rank, action = path.read_text(encoding="utf-8").split()
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized() and distributed.get_rank() == int(rank):
        _do(action, distributed)


def _begin() -> None:
    threading.Thread(target=_watch, args=(Path(os.environ["RAYBENCH_TEST_FAULT"]),), daemon=True).start()


if "RAYBENCH_TEST_FAULT" in os.environ:
    os.register_at_fork(after_in_child=_begin)  # ranks are forked
