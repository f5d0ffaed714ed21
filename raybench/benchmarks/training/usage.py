"""Memory and utilisation while steps run. On a CPU the memory is the process's own, and says so."""

import os
import re
import time
from pathlib import Path
from typing import Any

import torch

from raybench.benchmarks.base import RankContext


class Usage:
    """Between ``__init__`` and ``read``: peaks of memory, samples at each step, share of CPU time."""

    def __init__(self, context: RankContext) -> None:
        self._device = context.device
        self._samples = self._allocated = self._reserved = self._peak = 0  # how many, and their sums in bytes
        self.held: list[float] = []  # bytes after each step
        self._gpu: list[float] = []
        self._gpu_problem: str | None = None if self._device.type == "cuda" else "the rank has no GPU"  # gpu: train-ddp
        if self._device.type == "cuda":  # gpu: train-ddp
            self.sample_gpu()  # the first call loads NVML, which takes longer than a step
            self._gpu.clear()
            torch.cuda.reset_peak_memory_stats(self._device)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def sample(self) -> None:
        """Note what is in use now: after a step."""
        self._samples += 1
        if self._device.type == "cuda":  # gpu: train-ddp
            self.held.append(float(torch.cuda.memory_allocated(self._device)))
            self._allocated += int(self.held[-1])
            self._reserved += torch.cuda.memory_reserved(self._device)
        else:
            resident = resident_bytes()
            self.held.append(float(resident))
            self._allocated, self._peak = self._allocated + resident, max(self._peak, resident)

    def sample_gpu(self) -> None:  # gpu: train-ddp
        """Note how busy the GPU is: NVML's figure is of the last sixth of a second or more, so this is no hurry."""
        if self._device.type != "cuda":
            return
        try:
            self._gpu.append(float(torch.cuda.utilization(self._device)))
        except Exception as error:  # noqa: BLE001 - NVML fails in as many ways as there are drivers; the reason is kept
            self._gpu_problem = f"NVML: {type(error).__name__}: {' '.join(str(error).split())[:200]}"

    def memory(self) -> dict[str, float | str]:  # gpu: train-ddp
        """Bytes: ``kind`` cuda with allocated and reserved, or rss (resident memory of the process) on a CPU."""
        mean = self._allocated / max(self._samples, 1)
        if self._device.type != "cuda":
            return {"kind": "rss", "peak_bytes": float(self._peak), "mean_bytes": mean}
        return {
            "kind": "cuda",
            "peak_allocated_bytes": float(torch.cuda.max_memory_allocated(self._device)),
            "mean_allocated_bytes": mean,
            "peak_reserved_bytes": float(torch.cuda.max_memory_reserved(self._device)),
            "mean_reserved_bytes": self._reserved / max(self._samples, 1),
            "total_bytes": float(torch.cuda.get_device_properties(self._device).total_memory),
        }

    @property
    def gpu_problem(self) -> str | None:
        """Why ``utilization`` says nothing of the GPU; None where it does, or was not asked yet."""
        return None if self._gpu else self._gpu_problem

    def utilization(self) -> dict[str, float | None]:
        """Shares of 1: ``cpu`` is of one core, over all threads of the rank; ``gpu`` None where NVML does not say."""
        wall = max(time.perf_counter() - self._wall, 1e-9)
        return {
            "cpu": (time.process_time() - self._cpu) / wall,
            "gpu": sum(self._gpu) / len(self._gpu) / 100 if self._gpu else None,
        }


def free_bytes(device: torch.device) -> float | None:
    """What a rank may still take: all of the GPU but what tensors have, else MemAvailable; None if unknown."""
    if device.type == "cuda":  # gpu: train-ddp
        total = torch.cuda.get_device_properties(device).total_memory
        return float(total - torch.cuda.memory_allocated(device))
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable: +([0-9]+) kB$", text, re.MULTILINE)
    return float(found[1]) * 1024 if found else None


def resident_bytes() -> int:
    """Memory of this process that is not shared with another: a forked rank's parent has torch itself."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - once a step
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def device_facts(context: RankContext) -> dict[str, Any]:  # gpu: train-ddp, train-bf16
    """What the hardware table is asked for: the GPU's name, or None."""
    if context.device.type != "cuda":
        return {"gpu": None}
    return {"gpu": torch.cuda.get_device_name(context.device)}
