"""Ranks of a step: forked from a process that has imported torch and never started CUDA, as raybench's rank host is.

Several ranks share one GPU: each says that it is a host of its own (NCCL_HOSTID), so that their traffic takes the
network as between nodes, and few thread blocks each (NCCL_MAX_CTAS), so that the kernels of all fit the GPU together.
"""

import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch.distributed as dist

from raybench.benchmarks.events import Event, decode, encode
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.folder import FOLDER_VARIABLE
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.recording import recording
from raybench.benchmarks.rank.run import process_group, rank_facts, run_rank
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.log_files import log_name
from raybench.execution.ranks.rank_process import die_with_parent

FORK = multiprocessing.get_context("fork")
Body = Callable[[RankAssignment], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """So many ranks on one device; ``folder`` takes what they log and write."""

    ranks: int
    on_gpu: bool
    folder: Path

    def assignment(self, rank: int, held: socket.socket) -> RankAssignment:
        """One of them."""
        return RankAssignment(
            rank=rank,
            local_rank=rank,
            world_size=self.ranks,
            ranks_on_machine=self.ranks,
            ranks_on_node=self.ranks,
            ranks_on_device=self.ranks if self.on_gpu else 1,
            backend="nccl" if self.on_gpu else "gloo",
            device_index=0 if self.on_gpu else None,
            master_address="127.0.0.1",
            master_port=held.getsockname()[1],
            timeout_seconds=120.0,
            listen_fd=held.fileno() if rank == 0 else None,
        )

    def variables(self, rank: int) -> dict[str, str]:
        """The environment of a rank."""
        shared = {FOLDER_VARIABLE: str(self.folder)}
        if not self.on_gpu:
            return shared
        return shared | {
            "NCCL_HOSTID": f"gpu-proof-{rank}",
            "NCCL_MULTI_RANK_GPU_ENABLE": "1",  # from NCCL 2.30.3 on; unknown to older ones
            "NCCL_MAX_CTAS": "2",
            "NCCL_SOCKET_IFNAME": "=lo",
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH",
            "NCCL_DEBUG_FILE": str(self.folder / log_name(rank)),
        }


def plan_on_ranks(plan: Sequence[BenchmarkSpec], before: Callable[[int], None] | None) -> Body:
    """What a rank does that runs a plan: its events."""

    def body(assignment: RankAssignment) -> list[Event]:
        if before is not None:
            before(assignment.rank)
        told: list[bytes] = []
        run_rank(assignment, plan, lambda event: told.append(encode(event)), ProgressSlot())
        return [decode(data, plan) for data in told]

    return body


def work_on_ranks(work: Callable[..., Any], arguments: Sequence[Any]) -> Body:
    """What a rank does that runs one function in a process group: facts of the rank, and what the function returns."""

    def body(assignment: RankAssignment) -> tuple[dict[str, str], Any]:
        slot = ProgressSlot()
        with recording(slot), process_group(assignment, slot) as context:
            answer = rank_facts(context), work(context, *arguments)
            dist.barrier()  # rank 0 holds the store
            return answer

    return body


def each_rank(place: Place, body: Body, seconds: float) -> list[Any]:
    """What the body returns in each rank. Raises RuntimeError for one that fails, TimeoutError for one that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        pairs = [_fork(place, rank, held, body) for rank in range(place.ranks)]
    try:
        return _answers([pipe for _, pipe in pairs], time.monotonic() + seconds)
    finally:
        for process, pipe in pairs:
            pipe.close()
            process.join(1.0)
            process.kill()
            process.join()


def _answers(pipes: Sequence[Connection], deadline: float) -> list[Any]:
    answers: dict[Connection, Any] = {}
    while len(answers) < len(pipes):
        left = [pipe for pipe in pipes if pipe not in answers]
        ready = wait(left, max(deadline - time.monotonic(), 0))
        if not ready:
            raise TimeoutError(f"rank {pipes.index(left[0])} did not answer in time")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            answers[pipe] = _answer(pipes.index(pipe), pipe)
    return [answers[pipe] for pipe in pipes]


def _answer(rank: int, pipe: Connection) -> Any:
    try:
        good, answer = pipe.recv()
    except EOFError as error:
        raise RuntimeError(f"rank {rank} ended without a word") from error
    if not good:
        raise RuntimeError(f"rank {rank}: {answer}")
    return answer


def _fork(
    place: Place, rank: int, held: socket.socket, body: Body
) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_main, args=(place, rank, held, body, there))
    process.start()
    there.close()
    return process, here


def _main(place: Place, rank: int, held: socket.socket, body: Body, pipe: Connection) -> None:
    die_with_parent()
    os.environ.update(place.variables(rank))
    try:
        answer = True, body(place.assignment(rank, held))
    except Exception as error:  # noqa: BLE001 - whatever ends a rank is the answer
        traceback.print_exc()
        answer = False, f"{type(error).__name__}: {error}"
    pipe.send(answer)
    pipe.close()
    os._exit(0)  # threads of a broken backend may never end
