"""Where the process of the tests begins. It ends with who started it, and at its time limit, with all its children."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from raybench.benchmarks.node_tests.conduct import conduct
from raybench.benchmarks.node_tests.plan import plan_of

_LOOK_SECONDS = 0.5


def main(values: dict[str, Any], limit_seconds: float, parent: int) -> None:
    """Do a plan's tests for the process ``parent``. This process is the first of its own group."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # so that torch counts the GPUs as NVML does
    ends = time.monotonic() + limit_seconds
    threading.Thread(target=_watch, args=(parent, ends), daemon=True).start()
    conduct(plan_of(values))


def _watch(parent: int, ends: float) -> None:
    """End the group where nobody is left to be told, or that nobody ended in time."""
    while os.getppid() == parent and time.monotonic() < ends:
        time.sleep(_LOOK_SECONDS)
    os.killpg(0, signal.SIGKILL)
