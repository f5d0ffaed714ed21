"""A function on real gloo ranks, each a forked process, for benchmarks that need no plan and no Ray."""

import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_FORK = multiprocessing.get_context("fork")
_LONGEST_SECONDS = 300.0


def run_on_ranks(ranks: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``work(rank, *arguments)`` returns in each rank of a process group. Raises RuntimeError on a failure."""
    with tempfile.TemporaryDirectory(prefix="raybench-ranks-") as folder:
        pairs = [_start(rank, ranks, Path(folder, "store"), work, arguments) for rank in range(ranks)]
        try:
            return [_result(rank, pipe) for rank, (_, pipe) in enumerate(pairs)]
        finally:
            for process, pipe in pairs:
                process.join(5)
                process.kill()
                pipe.close()


def _start(
    rank: int, ranks: int, store: Path, work: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_main, args=(rank, ranks, store, there, work, arguments), daemon=True)
    process.start()
    there.close()
    return process, here


def _main(
    rank: int, ranks: int, store: Path, pipe: Connection, work: Callable[..., Any], arguments: Sequence[Any]
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    pipe.send(work(rank, *arguments))
    dist.barrier()
    dist.destroy_process_group()


def _result(rank: int, pipe: Connection) -> Any:
    if not pipe.poll(_LONGEST_SECONDS):
        raise RuntimeError(f"rank {rank} did not answer within {_LONGEST_SECONDS:.0f} s")
    try:
        return pipe.recv()
    except EOFError as error:
        raise RuntimeError(f"rank {rank} ended without a result") from error
