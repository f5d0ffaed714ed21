"""Real ranks over gloo (or mlx) in forked processes, without Ray: run a plan in each, return what each of them said."""

import importlib
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait

import torch  # imported once, before the forks
import torch.distributed  # noqa: F401 - the same

from raybench.benchmarks.events import BenchmarkFinished, Event, PointMeasured, RankFailed, decode, encode
from raybench.benchmarks.messages import collective, point_to_point  # noqa: F401 - imported once, before the forks
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.run import run_rank
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples

# Kinds of benchmarks whose optimizers import the compiler: 1.3 s of a processor in each rank, or once before the forks.
COMPILER_NEEDED = {"training", "checkpoint"}
FORK = multiprocessing.get_context("fork")
Sabotage = Callable[[int], None]  # called in each forked rank, with its number, before it starts


def run_ranks(
    world_size: int,
    plan: Sequence[BenchmarkSpec],
    *,
    sabotage: Sabotage | None = None,
    seconds: float = 60.0,
    backend: str = "gloo",
) -> list[list[Event]]:
    """The events of each rank. Raises TimeoutError, with all ranks killed, when they are not through in time."""
    if any(spec.kind in COMPILER_NEEDED for spec in plan):
        importlib.import_module("torch._dynamo")
    with socket.create_server(("127.0.0.1", 0)) as held:
        pairs = [_fork(rank, world_size, plan, held, sabotage, backend) for rank in range(world_size)]
    events: dict[Connection, list[Event]] = {pipe: [] for _, pipe in pairs}
    try:
        _hear(events, plan, time.monotonic() + seconds)
    finally:
        for process, pipe in pairs:
            pipe.close()
            process.kill()
            process.join()
    return list(events.values())


def _hear(events: dict[Connection, list[Event]], plan: Sequence[BenchmarkSpec], deadline: float) -> None:
    open_pipes = set(events)
    while open_pipes:
        ready = wait(list(open_pipes), max(deadline - time.monotonic(), 0))
        if not ready:
            raise TimeoutError(f"ranks hang; they said last: {[heard[-1:] for heard in events.values()]}")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                events[pipe].append(decode(pipe.recv_bytes(), plan))
            except EOFError:
                open_pipes.remove(pipe)


def _fork(
    rank: int,
    world_size: int,
    plan: Sequence[BenchmarkSpec],
    held: socket.socket,
    sabotage: Sabotage | None,
    backend: str,
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_main, args=(rank, world_size, plan, held, sabotage, (backend, there)), daemon=True)
    process.start()
    there.close()
    return process, here


def _main(
    rank: int,
    world_size: int,
    plan: Sequence[BenchmarkSpec],
    held: socket.socket,
    sabotage: Sabotage | None,
    backend_and_pipe: tuple[str, Connection],
) -> None:
    backend, pipe = backend_and_pipe
    if sabotage is not None:
        sabotage(rank)
    assignment = RankAssignment(
        rank=rank,
        local_rank=rank,
        world_size=world_size,
        ranks_on_machine=world_size,
        backend=backend,
        master_address="127.0.0.1",
        master_port=held.getsockname()[1],
        timeout_seconds=10.0,
        listen_fd=held.fileno() if rank == 0 else None,
    )
    good = run_rank(assignment, plan, lambda event: pipe.send_bytes(encode(event)), ProgressSlot())
    pipe.close()
    os._exit(0 if good else 1)


def points_of(events: Sequence[Event], benchmark: int) -> list[RankSamples]:
    """What a rank measured of one benchmark of the plan."""
    return [one.samples for one in events if isinstance(one, PointMeasured) and one.benchmark == benchmark]


def skipped_of(events: Sequence[Event], benchmark: int) -> str | None:
    """Why a rank skipped one benchmark; None where it did not. Raises StopIteration where it never got through."""
    return next(one.skipped for one in events if isinstance(one, BenchmarkFinished) and one.benchmark == benchmark)


def failures_of(events: Sequence[Sequence[Event]]) -> list[RankFailed]:
    """What went wrong, in any rank."""
    return [one for heard in events for one in heard if isinstance(one, RankFailed)]
