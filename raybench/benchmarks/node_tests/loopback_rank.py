"""One rank of ``loopback``: it says on its output that it has joined, what it begins, and what it measured."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any, Callable, NamedTuple

from raybench.benchmarks.node_tests.children import end_with

_MIB = 1 << 20
_PRIME = 251  # sums of so many ranks' numbers stay exact in fp32


class _Operation(NamedTuple):
    """``made`` gives from the sent tensor and the number of ranks what does it and the tensor that holds the result.

    ``factor``: bytes on the bus for each of the message, by the number of ranks.
    """

    name: str
    made: Callable[[Any, int], tuple[Callable[[], object], Any]]
    must: Callable[[Any, int], Any]
    factor: Callable[[int], float]


def main(setting: dict[str, Any], rank: int, ranks: int, port: int, limit_seconds: float, parent: int) -> None:
    """Do all operations of a setting with the other ranks."""
    end_with(parent, time.monotonic() + limit_seconds)
    import torch.distributed as dist

    try:
        _join(setting["backend"], rank, ranks, port, limit_seconds)
        _say(joined=True)
        for operation in OPERATIONS:
            _say(begun=operation.name)
            _do(operation, setting, rank, ranks)
        dist.destroy_process_group()
    except (RuntimeError, OSError, ValueError) as error:
        _say(error=" ".join(f"{type(error).__name__}: {error}".split())[:300])
        return
    _say(ended=True)


def _join(backend: str, rank: int, ranks: int, port: int, limit_seconds: float) -> None:
    import torch
    import torch.distributed as dist

    if backend == "nccl":  # gpu: node-tests
        torch.cuda.set_device(rank)
    make_store: Any = dist.TCPStore  # type: ignore[attr-defined]
    limit = timedelta(seconds=limit_seconds)
    store = make_store("127.0.0.1", port, is_master=False, timeout=limit)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
    dist.barrier()


def numbers(count: int, rank: int) -> Any:
    """What a rank sends: whole numbers below 251, others on each rank."""
    import torch

    return (torch.arange(count, dtype=torch.float32) * (rank + 1) + rank).fmod(_PRIME)


def _do(operation: _Operation, setting: dict[str, Any], rank: int, ranks: int) -> None:
    import torch
    import torch.distributed as dist

    count = setting["mib"] * _MIB // 4 // ranks * ranks
    on_gpu = setting["backend"] == "nccl"  # gpu: node-tests
    device = f"cuda:{rank}" if on_gpu else "cpu"  # gpu: node-tests
    sent = numbers(count, rank).to(device)
    work, held = operation.made(sent, ranks)
    work()
    must = operation.must(count, ranks).to(device)
    wrong, checked = int((held != must).sum()), held.numel()

    def seconds(times: int) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            work()
        if on_gpu:  # gpu: node-tests
            torch.cuda.synchronize()
        return time.perf_counter() - began

    once = torch.tensor([max(seconds(2) / 2, 1e-6)], device=device)
    dist.all_reduce(once, op=dist.ReduceOp.MAX)  # the same number of times on all ranks
    times = max(1, min(1000, round(setting["block_seconds"] / float(once))))
    moved = operation.factor(ranks) * count * 4 * times / 1e9
    samples = [moved / seconds(times) for _ in range(setting["samples"])]
    _say(operation=operation.name, rank=rank, checked=checked, wrong=wrong, samples=samples)


def _all_reduce(sent: Any, _: int) -> tuple[Callable[[], object], Any]:
    import torch.distributed as dist

    held = sent.clone()  # after the first time it holds sums of sums, which take as long
    return (lambda: dist.all_reduce(held)), held


def _all_gather(sent: Any, ranks: int) -> tuple[Callable[[], object], Any]:
    import torch
    import torch.distributed as dist

    part = sent[: sent.numel() // ranks].clone()
    held = torch.empty_like(sent)
    pieces = list(held.chunk(ranks))
    return (lambda: dist.all_gather(pieces, part)), held


def _summed(count: int, ranks: int) -> Any:
    return sum(numbers(count, rank) for rank in range(ranks))


def _gathered(count: int, ranks: int) -> Any:
    import torch

    return torch.cat([numbers(count, rank)[: count // ranks] for rank in range(ranks)])


OPERATIONS = (
    _Operation("all_reduce", _all_reduce, _summed, lambda ranks: 2 * (ranks - 1) / ranks),
    _Operation("all_gather", _all_gather, _gathered, lambda ranks: (ranks - 1) / ranks),
)


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
