"""What PyTorch's allocator hands out on a CPU, and a limit on what a process may take.

The profiler's trace has an event for each allocation and release: ``{"name": "[memory]", "ts": 4150.2, "args": {"Device
Type": 0, "Addr": 94276, "Bytes": 65536, ...}}``, with negative bytes for a release. Device type 0 is the CPU. Its own
totals go on from one profile to the next, so they are not used: what was allocated before does not count here.
"""

import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch

from raybench.benchmarks.rank.folder import passing_folder

_CPU = 0
_REFUSALS = ("can't allocate memory", "bad_alloc", "Cannot allocate memory")
_SLACK = 96 * 2**20  # stacks of threads, the interpreter's and the profiler's own


def allocated_peak(work: Callable[[], None]) -> int:
    """The most bytes of CPU tensors that are there at once while ``work`` runs, of those that it makes."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        work()
    with passing_folder() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = msgspec.json.decode(path.read_bytes())["traceEvents"]
    return peak_of([event for event in events if event.get("name") == "[memory]"])


def peak_of(events: Sequence[Mapping[str, Any]]) -> int:
    """The most bytes at once by the CPU's memory events, in the order of their times."""
    held: dict[int, int] = {}
    total = peak = 0
    for event in sorted(events, key=lambda event: float(event["ts"])):
        told = event["args"]
        if told["Device Type"] != _CPU:
            continue
        if told["Bytes"] > 0:
            held[told["Addr"]] = told["Bytes"]
            total += told["Bytes"]
        else:
            total -= held.pop(told["Addr"], 0)  # nothing of what was there before
        peak = max(peak, total)
    return peak


@contextmanager
def limited(limit_bytes: int) -> Iterator[None]:
    """Let this process take no more than so many bytes beyond what it has: the kernel refuses, as a full GPU does."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_bytes() + limit_bytes + _SLACK
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def is_refusal(error: BaseException) -> bool:
    """Whether an error is the kernel's refusal of memory."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _REFUSALS)


def _data_bytes() -> int:
    """Private writable memory of this process: what RLIMIT_DATA counts (Linux 4.7 and later)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
