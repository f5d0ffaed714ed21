"""What a person would write: a torch script that times all_reduce, without a line of raybench. Under torchrun.

``torchrun --nproc-per-node 2 plain_loop.py OPERATION BLOCKS OUTPUT BYTES...`` writes seconds per operation of each
block, the slowest rank's, as ``{"BYTES": [seconds, ...]}``.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist


def prepared(name: str, count: int) -> Callable[[], object]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if name == "all_reduce":
        tensor = torch.ones(count)
        return lambda: dist.all_reduce(tensor)
    if name == "all_gather":
        part, whole = torch.ones(count // world_size), torch.ones(count)
        return lambda: dist.all_gather_into_tensor(whole, part)
    send, receive = torch.ones(count), torch.ones(count)
    ring = [
        dist.P2POp(dist.isend, send, (rank + 1) % world_size),
        dist.P2POp(dist.irecv, receive, (rank - 1) % world_size),
    ]
    return lambda: [work.wait() for work in dist.batch_isend_irecv(ring)]


def timed(operation: Callable[[], object], iterations: int) -> float:
    dist.barrier()
    start = time.perf_counter()
    for _ in range(iterations):
        operation()
    return (time.perf_counter() - start) / iterations


def slowest(seconds: float) -> float:
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()


def main() -> None:
    name, blocks, output, sizes = sys.argv[1], int(sys.argv[2]), sys.argv[3], [int(size) for size in sys.argv[4:]]
    dist.init_process_group("gloo")
    measured = {}
    for size in sizes:
        operation = prepared(name, size // 4)
        timed(operation, 5)
        iterations = min(max(round(0.05 / slowest(timed(operation, 2))), 4), 50)
        measured[size] = [slowest(timed(operation, iterations)) for _ in range(blocks)]
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(measured))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
