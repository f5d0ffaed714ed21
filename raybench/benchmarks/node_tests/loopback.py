"""Collectives between ranks of the node alone: NCCL or RCCL between its GPUs, gloo between processes of a CPU.

What a job's traffic inside the node goes over, without any other node: NVLink, Infinity Fabric or PCIe, and shared
memory. ``loopback-exact`` compares every element on every rank with what it must be; ``loopback-speed`` is the bus
bandwidth in GB/s (10^9 bytes; the factors are nccl-tests'), a sample each block.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from raybench.benchmarks.node_tests.children import start
from raybench.benchmarks.node_tests.devices import Device, devices
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_RANK = "raybench.benchmarks.node_tests.loopback_rank"
_MOST_OF_A_CPU = 4
_LIMIT_SECONDS = 90.0
_FIGURES = ("loopback-exact", "loopback-speed")


def run(plan: Plan) -> None:
    """Start a rank for each GPU, or a few on a CPU, and add up what they say."""
    found = devices()
    if found[0].is_gpu and len(found) < 2:
        for test in _FIGURES:
            say(Figure(test, found[0].name, status="skipped", reason="one GPU", model=found[0].model))
        return
    ranks = len(found) if found[0].is_gpu else max(2, min(_MOST_OF_A_CPU, os.cpu_count() or 2))
    _say(found[0], ranks, plan, _Ranks(ranks, found[0], plan).result())


class _Ranks:
    """All ranks, and what each has said until now."""

    def __init__(self, count: int, device: Device, plan: Plan) -> None:
        import torch.distributed as dist

        make_store: Any = dist.TCPStore  # type: ignore[attr-defined]
        self.count = count
        limit = min(plan.seconds, _LIMIT_SECONDS)
        self._ends = time.monotonic() + limit
        self._store = make_store("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        setting = {
            "backend": "nccl" if device.is_gpu else "gloo",
            "mib": plan.gpu_message_mib if device.is_gpu else plan.message_mib,
            "samples": plan.samples,
            "block_seconds": plan.block_seconds,
        }
        environment = (
            {"OMP_NUM_THREADS": "1"} if device.is_gpu else {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        )
        self._processes = [
            start(_RANK, [setting, rank, count, self._store.port, limit, os.getpid()], environment)
            for rank in range(count)
        ]
        self.said: list[list[dict[str, Any]]] = [[] for _ in range(count)]

    def result(self) -> tuple[list[dict[str, Any]], str, str]:
        """What was measured by rank and operation; the status, and the reason where it is not ok."""
        try:
            late = self._listen()
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
        done = [one for lines in self.said for one in lines if "operation" in one]
        wrong = next((one["error"] for lines in self.said for one in lines if "error" in one), "")
        if wrong:
            return done, "failed" if all(map(_joined, self.said)) else "missing", wrong
        if not all(map(_joined, self.said)):
            return done, "missing", "its ranks did not start in time" if late else "a rank ended before it began"
        if late or not all({"ended": True} in lines for lines in self.said):
            at = max((one.get("begun", "") for lines in self.said for one in lines), default="")
            return done, "failed", f"ranks {'hang' if late else 'ended'} in {at or 'their first operation'}"
        return done, "ok", ""

    def _listen(self) -> bool:
        """Take lines until all ranks have closed their output; whether the time was over before."""
        streams = {process.stdout.fileno(): rank for rank, process in enumerate(self._processes) if process.stdout}
        pieces = dict.fromkeys(streams, b"")
        while streams:
            if time.monotonic() >= self._ends:
                return True
            for stream in select.select(list(streams), [], [], 0.5)[0]:
                piece = os.read(stream, 1 << 16)
                *lines, pieces[stream] = (pieces[stream] + piece).split(b"\n")
                self.said[streams[stream]] += filter(None, map(_line, lines))
                if not piece:
                    del streams[stream]
        return False


def _joined(lines: list[dict[str, Any]]) -> bool:
    return any("joined" in one for one in lines)


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None  # what a library printed
    return found if isinstance(found, dict) else None


def _say(device: Device, ranks: int, plan: Plan, result: tuple[list[dict[str, Any]], str, str]) -> None:
    done, status, reason = result
    mib = plan.gpu_message_mib if device.is_gpu else plan.message_mib
    name = "gpus" if device.is_gpu else "cpu"
    common: dict[str, Any] = {"device": name, "model": device.model, "status": status, "reason": reason}
    common["setting"] = f"{ranks} ranks, {mib} MiB, {device.stack}"
    operations = list(dict.fromkeys(one["operation"] for one in done)) or [""]
    for operation in operations:
        own = [one for one in done if one["operation"] == operation]
        samples = next((tuple(one["samples"]) for one in own if one["rank"] == 0), ())
        checked, wrong = (sum(one[key] for one in own) for key in ("checked", "wrong"))
        say(Figure("loopback-exact", case=operation, checked=checked, wrong=wrong, **common))
        say(Figure("loopback-speed", case=operation, unit="GB/s", samples=samples, **common))
