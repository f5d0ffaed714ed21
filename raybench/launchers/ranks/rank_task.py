"""What a launcher starts for each rank: it holds the rank until the run is through, and ends with the run's exit code.

Rank 0's starts the run beside itself (``keeper.py``). All of them ask it, once it has let them go, how it ended, so
that every process of the launcher ends with the exit code of the command.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import AuthenticationError
from pathlib import Path

from raybench.errors import IncompleteRunError
from raybench.execution.launched.meeting import find, key_of, ports_near
from raybench.execution.launched.messages import Hello
from raybench.execution.launched.rank_link import RankLink
from raybench.launchers.ranks.keeper import Keeper, start_keeper
from raybench.launchers.ranks.place import LaunchedRank, rank_of

SECRET_VARIABLE = "RAYBENCH_LAUNCH_SECRET"  # noqa: S105 - the name of a variable
CODE_VARIABLE = "RAYBENCH_LAUNCH_CODE"  # a file for the exit code: torchrun's own is 1 whatever ranks end with
_FIND_SECONDS = 120.0
_ASK_SECONDS = 60.0
_END_SECONDS = 25.0  # after a signal; torchrun kills 30 s after it


def run_rank_task(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Be a rank of ``raybench WORDS``. Returns the exit code of the run, 3 where the run is lost.

    Raises UsageError where no launcher's variables say which rank this is.
    """
    rank = rank_of(environment)
    key = key_of(environment.get(SECRET_VARIABLE, ""), rank.job, rank.master_port, rank.world_size)
    ports = ports_near(rank.master_port, above=rank.port_is_taken)
    keeper = start_keeper(rank, ports, key, words) if rank.rank == 0 else None
    _on_signals(keeper)
    address = "127.0.0.1" if keeper is not None and rank.ranks_on_node == rank.world_size else rank.master_address
    connection, own, there = find(address, ports, key, _FIND_SECONDS)
    RankLink(connection, _hello(rank, own, there, words)).serve()
    code = _asked_code(address, ports, key)
    if keeper is not None:
        with contextlib.suppress(Exception):
            keeper.process.wait(_ASK_SECONDS)
    if path := environment.get(CODE_VARIABLE):
        with contextlib.suppress(OSError):
            Path(path).write_text(str(code), encoding="ascii")
        return 0
    return code


def _hello(rank: LaunchedRank, own: str, there: str, words: Sequence[str]) -> Hello:
    return Hello(
        launcher=rank.launcher,
        rank=rank.rank,
        local_rank=rank.local_rank,
        world_size=rank.world_size,
        ranks_on_node=rank.ranks_on_node,
        host=socket.gethostname(),
        address=own,
        reached=there,
        words=shared_words(words),
    )


def shared_words(words: Sequence[str]) -> tuple[str, ...]:
    """What all ranks must have been started with alike: where results go is of rank 0's node alone."""
    kept: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        if before != "--output-dir" and word.partition("=")[0] != "--output-dir":
            kept.append(word)
    return tuple(kept)


def _on_signals(keeper: Keeper | None) -> None:
    """A launcher tells all ranks to end at once: the run hears it through rank 0's, and then lets all go in order."""

    def told(number: int, _: object) -> None:
        if keeper is not None:
            keeper.end(number)
        threading.Timer(_END_SECONDS, os._exit, (3,)).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)


def _asked_code(address: str, ports: list[int], key: bytes) -> int:
    """How the run ended; 3 where nobody says so any more."""
    with contextlib.suppress(IncompleteRunError, OSError, EOFError, AuthenticationError, ValueError):
        connection, _, _ = find(address, ports, key, _ASK_SECONDS)
        with connection:
            return int(connection.recv_bytes(16))
    return 3
