"""Python loads this at its start in every process of a command under test: it does to one rank what a file asks for.

The file named by RAYBENCH_TEST_FAULT holds a rank and an action a line, ``3 sleep``; it is there once they are due.
RAYBENCH_TEST_AGENT is what the diagnostics agent does as soon as it starts.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PERIOD_SECONDS = 0.05
_FOREVER_SECONDS = 10.0**6


def _sleep(*_: Any, **__: Any) -> None:
    time.sleep(_FOREVER_SECONDS)


def _with_forward(other: Callable[..., Any]) -> None:
    """In place of the forward pass of the whole model, which ``other`` is given first."""
    module = sys.modules["torch"].nn.parallel.DistributedDataParallel
    real = module.forward
    module.forward = lambda *arguments, **options: other(real, *arguments, **options)


def _slow(real: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """It takes 20 ms more and three times as long."""
    begin = time.perf_counter()
    result = real(*arguments, **options)
    time.sleep(0.02 + 2 * (time.perf_counter() - begin))
    return result


def _keeping(seconds: float) -> Callable[..., Any]:
    """A step of 40 ms at least; for so long it keeps 10 MiB a second that it should give back."""
    kept: list[bytes] = []
    begin = time.monotonic()

    def forward(real: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        time.sleep(0.04)
        while len(kept) < 10 * min(time.monotonic() - begin, seconds):
            kept.append(b"x" * 2**20)
        return real(*arguments, **options)

    return forward


def _load_slowly() -> None:
    """Each batch comes 20 ms later."""
    step = sys.modules["raybench.benchmarks.training.step"]
    real = step.batch_of

    def batch_of(*arguments: Any) -> Any:
        time.sleep(0.02)
        return real(*arguments)

    step.batch_of = batch_of


def _once(distributed: Any, other: Any) -> None:
    """The next all_reduce of this rank is something else."""
    real = distributed.all_reduce

    def all_reduce(*arguments: Any, **options: Any) -> Any:
        distributed.all_reduce = real
        return other(*arguments)

    distributed.all_reduce = all_reduce


def _idle(distributed: Any) -> None:
    """Each all_reduce begins 20 ms later: the rank goes on, and leaves its processor to others."""
    real = distributed.all_reduce

    def all_reduce(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.02)
        return real(*arguments, **options)

    distributed.all_reduce = all_reduce


_KEPT_SECONDS = {"steady": 0.0, "settle": 8.0, "leak": 120.0}


def _do(action: str, distributed: Any) -> None:
    if action == "sleep":  # in whatever it calls next: a collective, or a layer of the model
        distributed.all_reduce = _sleep
        sys.modules["torch"].nn.Module.__call__ = _sleep
    elif action == "slow":
        _with_forward(_slow)
    elif action in _KEPT_SECONDS:
        _with_forward(_keeping(_KEPT_SECONDS[action]))
    elif action == "data":
        _load_slowly()
    elif action == "idle":
        _idle(distributed)
    elif action == "mismatch":
        _once(distributed, lambda tensor, *_: distributed.broadcast(tensor, src=0))
    elif action == "skip":
        _once(distributed, lambda *_: None)


def _watch(path: Path) -> None:
    while not path.exists():
        time.sleep(_PERIOD_SECONDS)
    distributed = sys.modules.get("torch.distributed")
    for rank, action in (line.split() for line in path.read_text(encoding="utf-8").splitlines()):
        if distributed is not None and distributed.is_initialized() and distributed.get_rank() == int(rank):
            _do(action, distributed)


def _begin() -> None:
    threading.Thread(target=_watch, args=(Path(os.environ["RAYBENCH_TEST_FAULT"]),), daemon=True).start()


if "RAYBENCH_TEST_FAULT" in os.environ:
    os.register_at_fork(after_in_child=_begin)  # ranks are forked


def _of_agent(action: str) -> None:
    """In the process of the agent, and where it is started."""
    if action == "refused":
        _refuse()
    elif action.startswith("gpus") and "diagnostics.agent" in sys.orig_argv:
        _show_gpus(float(action.removeprefix("gpus")))
    elif action == "tenfold":
        if "diagnostics.agent" in sys.orig_argv:
            from diagnostics.agent import options

            options.INTERVAL_SECONDS /= 10  # before anything has read it
    elif "diagnostics.agent" in sys.orig_argv:
        _leave_trace()
        if action == "module":
            sys.meta_path.insert(0, _Missing())
        else:
            threading.Thread(target=_MISDEEDS[action], daemon=True).start()


def _show_gpus(utilization_percent: float) -> None:
    from tests.diagnostics.agent.fake_nvml import FakeNvml

    nvml: Any = FakeNvml(2)
    nvml.nvmlInit = lambda: None
    for gpu in nvml.gpus:
        gpu.figures["utilization"] = utilization_percent
    sys.modules["pynvml"] = nvml


def _leave_trace() -> None:
    Path(os.environ["TMPDIR"], "agent-fault").touch()


class _Missing:
    def find_spec(self, name: str, *_: Any) -> None:
        if name == "diagnostics.agent.agent":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _refuse() -> None:
    real = subprocess.Popen.__init__

    def begin(self: Any, command: Any, *arguments: Any, **options: Any) -> None:
        if "diagnostics.agent" in command:
            _leave_trace()
            raise PermissionError(13, "Permission denied", command[0])
        real(self, command, *arguments, **options)

    subprocess.Popen.__init__ = begin  # type: ignore[method-assign]


def _flood(data: Callable[[], bytes]) -> None:
    while True:
        os.write(1, data())


def _close_output() -> None:
    time.sleep(2)
    os.close(1)


def _eat_memory() -> None:
    eaten = []
    for _ in range(48):
        eaten.append(b"x" * 2**25)
        time.sleep(0.05)
    time.sleep(_FOREVER_SECONDS)


def _jump() -> None:
    real_time, real_monotonic = time.time, time.monotonic
    time.sleep(2)
    time.time = lambda: real_time() - 86400
    time.monotonic = lambda: real_monotonic() + 3600


def _spin() -> None:
    while True:
        pass


def _leave_child() -> None:
    subprocess.Popen(["sleep", "600"], start_new_session=True)


def _say_nothing() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


_MISDEEDS: dict[str, Callable[[], None]] = {
    "garbage": lambda: _flood(lambda: os.urandom(4096)),
    "endless": lambda: _flood(lambda: b"x" * 2**16),
    "closed": _close_output,
    "memory": _eat_memory,
    "clock": _jump,
    "spin": _spin,
    "child": _leave_child,
    "silent": _say_nothing,
}

if "RAYBENCH_TEST_AGENT" in os.environ:
    _of_agent(os.environ["RAYBENCH_TEST_AGENT"])
