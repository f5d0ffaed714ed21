"""Memory of each device: whether it holds what is written, and how fast it is.

``memory-exact`` writes numbers and then their complement, so that every bit is once 0 and once 1, copies them, and
compares both places with what they must hold: an element that differs has lost a bit. ``memory-speed`` is GB/s (10^9
bytes), counted as STREAM counts: 2 bytes moved for each that is copied, 3 for a triad ``a = b + s c``.
"""

from __future__ import annotations

import glob
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from raybench.benchmarks.node_tests.devices import Device, devices, is_out_of_order, repeats_for, seconds_of
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_MIB = 1 << 20
_ODD = 0x1E3779B97F4A7C15  # spreads the bits of a count over all 64
_CHUNK = 1 << 20  # elements that are compared at a time
_CACHES = 4 / 3  # three arrays of this many times the last cache are four times as large as it
_FREE_SHARE = 0.5  # of the memory that is free, at most


def run(plan: Plan) -> None:
    """All devices at once, as a training loads them."""
    found = devices()
    with ThreadPoolExecutor(len(found)) as pool:
        for figures in pool.map(lambda device: _tested(device, plan), found):
            for figure in figures:
                say(figure)


def _tested(device: Device, plan: Plan) -> list[Figure]:
    mib = plan.gpu_memory_mib if device.is_gpu else max(plan.memory_mib, round(_cache_mib() * _CACHES))
    free = _free_mib(device)
    status, reason, checked, wrong = "ok", "", 0, 0
    samples: dict[str, tuple[float, ...]] = {}
    if 3 * mib > free * _FREE_SHARE:
        status, reason = "missing", f"it takes 3 times {mib} MiB, and {free:.0f} MiB are free"
    else:
        try:
            arrays = _Arrays(device, mib)
            checked, wrong = arrays.checked()
            samples = arrays.samples(plan)
        except RuntimeError as error:
            status = "failed" if is_out_of_order(error) else "missing"
            reason = " ".join(str(error).split())[:300]
    common: dict[str, Any] = {"device": device.name, "model": device.model, "status": status, "reason": reason}
    common["setting"] = f"{mib} MiB, {device.stack}"
    exact = Figure("memory-exact", checked=checked, wrong=wrong, **common)
    cases = samples or {"": ()}
    return [exact, *(Figure("memory-speed", case=case, unit="GB/s", samples=cases[case], **common) for case in cases)]


class _Arrays:
    """Three arrays of a device."""

    def __init__(self, device: Device, mib: int) -> None:
        import torch

        self.device = device
        self.count = mib * _MIB // 8
        self._first, self._second, self._third = (
            torch.zeros(self.count, dtype=torch.int64, device=device.torch_name) for _ in range(3)
        )

    def checked(self) -> tuple[int, int]:
        """How many elements were compared, and how many of them were wrong."""
        wrong = 0
        for flipped in (0, -1):
            for start in range(0, self.count, _CHUNK):
                self._first[start : start + _CHUNK] = self._written(start, flipped)
            self._second.copy_(self._first)
            for start in range(0, self.count, _CHUNK):
                must = self._written(start, flipped)
                for held in (self._first, self._second):
                    wrong += int((held[start : start + _CHUNK] != must).sum())
        return 4 * self.count, wrong

    def _written(self, start: int, flipped: int) -> Any:
        import torch

        last = min(start + _CHUNK, self.count)
        numbers = torch.arange(start, last, dtype=torch.int64, device=self.device.torch_name)
        return numbers.mul_(_ODD).bitwise_xor_(flipped)

    def samples(self, plan: Plan) -> dict[str, tuple[float, ...]]:
        """GB/s of each case, a sample each block; blocks of the cases alternate."""
        import torch

        first, second, third = (one.view(torch.float32).zero_() for one in (self._first, self._second, self._third))
        works = {
            "copy": (2, lambda: first.copy_(second)),
            "triad": (3, lambda: torch.add(second, third, alpha=3.0, out=first)),
        }
        times = {case: repeats_for(work, self.device, plan.block_seconds) for case, (_, work) in works.items()}
        found: dict[str, list[float]] = {case: [] for case in works}
        for _ in range(plan.samples):
            for case, (moved, work) in works.items():
                seconds = seconds_of(work, times[case], self.device)
                found[case].append(moved * 8.0 * self.count * times[case] / seconds / 1e9)
        return {case: tuple(values) for case, values in found.items()}


def _free_mib(device: Device) -> float:
    """What may be taken, in MiB: of a CPU what the kernel and the cgroup would give."""
    if device.is_gpu:  # gpu: node-tests
        import torch

        return float(torch.cuda.mem_get_info(device.torch_name)[0]) / _MIB
    known = [value for value in (_available_mib(), _cgroup_mib()) if value is not None]
    return min(known) if known else 0.0


def _available_mib() -> float | None:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) / 1024
    return None


def _cgroup_mib() -> float | None:
    """What the limit of this cgroup leaves, version 2 or 1; None without a limit that can be read."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        folder = f"/sys/fs/cgroup/memory{path}" if controllers else f"/sys/fs/cgroup{path}"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        limit, used = (_text(f"{folder.rstrip('/')}/{name}").strip() for name in names)
        if limit.isdigit() and used.isdigit():
            return max(0.0, (int(limit) - int(used)) / _MIB)
    return None


def _cache_mib() -> float:
    """The last level of all caches together, in MiB; 0 where the kernel does not tell."""
    largest: dict[tuple[int, str], float] = {}
    for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        level, size, shared = (_text(f"{folder}/{name}").strip() for name in ("level", "size", "shared_cpu_list"))
        if level.isdigit() and size.endswith("K") and size[:-1].isdigit():
            largest[int(level), shared] = int(size[:-1]) / 1024
    last = max((level for level, _ in largest), default=0)
    return sum(mib for (level, _), mib in largest.items() if level == last)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
