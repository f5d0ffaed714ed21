"""The agent of a node without Ray, in a process of its own: what it holds ends with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import msgspec
import psutil
import pytest

from raybench.execution.agents.messages import RankEvent, RanksStopped, StopRanks, decode_request, encode
from raybench.execution.agents.node import NodeAgent

AGENT = """
import sys, time
import msgspec
from raybench.benchmarks.job import RankJob
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.agents.node import NodeAgent
lease, polls = float(sys.argv[1]), int(sys.argv[2])
agent = NodeAgent(lease_seconds=lease)
port = agent.reserve_port("127.0.0.1", 0)
jobs = tuple(
    RankJob(rank=rank, local_rank=rank, world_size=2, ranks_on_machine=2, backend="gloo", master_address="127.0.0.1",
            master_port=port, timeout_seconds=60.0)
    for rank in range(2)
)
plan = (BenchmarkSpec(name="all_reduce", kind="collective", sizes=tuple(range(1024, 10**6, 1024)), reduce_op="sum"),)
agent.start(msgspec.msgpack.encode((jobs, plan)), {}, 10**6)
while not any(agent.poll(1.0) for _ in range(3)):
    pass
print("measuring", agent._folder, flush=True)
for _ in range(polls):
    agent.poll(0.1)
    time.sleep(0.1)
time.sleep(60)
"""


@contextmanager
def measuring(lease: float, polls: int = 0) -> Iterator[tuple["subprocess.Popen[str]", list[psutil.Process], Path]]:
    """An agent whose two ranks measure, everything that it started, and its folder."""
    command = [sys.executable, "-c", AGENT, str(lease), str(polls)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        started: list[psutil.Process] = []
        try:
            assert process.stdout is not None
            said = process.stdout.readline().split()
            started = psutil.Process(process.pid).children(recursive=True)
            assert said[:1] == ["measuring"]
            yield process, started, Path(said[1])
        finally:
            process.kill()
            for one in started:
                with_suppressed_kill(one)


def with_suppressed_kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def come_true(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_is_killed_takes_its_ranks_and_files_along(number: signal.Signals) -> None:
    with measuring(lease=60) as (process, started, folder):
        assert len(started) == 3  # the process that holds the ranks, and two of them
        os.kill(process.pid, number)
        assert gone(started, 5)
        assert come_true(lambda: not folder.exists(), 5)


def test_an_agent_that_nobody_calls_while_it_measures_ends_it_all() -> None:
    with measuring(lease=1.0, polls=15) as (process, started, folder):
        time.sleep(2.0)
        assert process.poll() is None  # it is being called
        assert process.wait(8) == 0
        assert gone(started, 5)
        assert not folder.exists()


def serve_as_rank_host(connection: Connection, last_words: bytes | None) -> None:
    """A launch's ranks speak as soon as they are started, and may once more as they are ended."""
    launch = 0
    with suppress(EOFError):
        while True:
            if not isinstance(decode_request(connection.recv_bytes()), StopRanks):
                launch += 1
                connection.send_bytes(encode(RankEvent(data=b"of launch %d" % launch)))
                continue
            if last_words is not None:
                connection.send_bytes(encode(RankEvent(data=last_words)))
            connection.send_bytes(encode(RanksStopped()))


@pytest.mark.parametrize("last_words", [None, b"the end of launch 1"])
def test_what_ranks_say_is_for_the_polls_of_their_own_launch(tmp_path: Path, last_words: bytes | None) -> None:
    """A poll may wait for a second after its launch: it took the next one's first words, such as a rank's death."""
    path = str(tmp_path / "ranks")
    no_ranks = msgspec.msgpack.encode(((), ())), {}, 0
    with Listener(path, "AF_UNIX") as listener, ThreadPoolExecutor(1) as pool:
        agent = NodeAgent(host_socket=path)
        threading.Thread(target=serve_as_rank_host, args=(listener.accept(), last_words), daemon=True).start()
        agent.start(*no_ranks)
        assert agent.poll(5.0) == [b"of launch 1"]
        late = pool.submit(agent.poll, 1.0)
        assert come_true(late.running, 5)
        agent.stop()
        agent.start(*no_ranks)
        assert agent.poll(5.0) == [b"of launch 2"]
        assert late.result() == ([] if last_words is None else [last_words])
        agent.stop()  # with nobody waiting
        agent.start(*no_ranks)
        assert agent.poll(5.0) == [b"of launch 3"]
        agent.close()
