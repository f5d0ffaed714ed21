"""The node actor without Ray, in a process of its own: what it holds ends with it, however it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from raybench.benchmarks.events import AgentSaid
from raybench.benchmarks.events import encode as encode_event
from raybench.execution.node_actors import heartbeat
from raybench.execution.node_actors.answers import decode_answer, encode_answer
from raybench.execution.node_actors.messages import RankEvent, RanksStopped, StopRanks, decode_request, encode
from raybench.execution.node_actors.node_actor import NodeActor
from raybench.execution.node_actors.node_actors import NodeActors
from tests.processes.waiting import come_true

NODE_ACTOR = """
import sys, threading, time
import msgspec
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.node_actors.node_actor import NodeActor
lease, polls = float(sys.argv[1]), int(sys.argv[2])
actor = NodeActor(lease_seconds=lease)
measuring = threading.Event()
def beat():
    while not measuring.wait(lease / 4):
        actor.beat()
threading.Thread(target=beat, daemon=True).start()
port = actor.reserve_port("127.0.0.1", 0)
assignments = tuple(
    RankAssignment(rank=rank, local_rank=rank, world_size=2, ranks_on_machine=2, backend="gloo",
            master_address="127.0.0.1", master_port=port, timeout_seconds=60.0)
    for rank in range(2)
)
plan = (BenchmarkSpec(name="all_reduce", kind="collective", sizes=tuple(range(1024, 10**6, 1024)), reduce_op="sum"),)
actor.start(msgspec.msgpack.encode((assignments, plan)), {}, 10**6)
while not any(actor.poll(1.0) for _ in range(3)):
    pass
measuring.set()
print("measuring", actor._folder, flush=True)
for _ in range(polls):
    actor.poll(0.1)
    time.sleep(0.1)
time.sleep(60)
"""


@contextmanager
def measuring(lease: float, polls: int = 0) -> Iterator[tuple["subprocess.Popen[str]", list[psutil.Process], Path]]:
    """A node actor whose two ranks measure, everything that it started, and its folder."""
    command = [sys.executable, "-c", NODE_ACTOR, str(lease), str(polls)]
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_node_actor_that_is_killed_takes_its_ranks_and_files_along(number: signal.Signals) -> None:
    with measuring(lease=60) as (process, started, folder):
        assert len(started) == 3  # the process that holds the ranks, and two of them
        os.kill(process.pid, number)
        assert gone(started, 30)
        assert come_true(lambda: not folder.exists(), 30)


def test_a_node_actor_that_nobody_calls_while_it_measures_ends_it_all() -> None:
    with measuring(lease=1.5, polls=12) as (process, started, folder):
        time.sleep(2.2)
        assert process.poll() is None  # it is being called
        assert process.wait(60) == 0
        assert gone(started, 30)
        assert not folder.exists()


PREPARING = """
import sys, time
from raybench.execution.node_actors.node_actor import NodeActor
begun = time.monotonic()
actor = NodeActor(host_socket="/nowhere", lease_seconds=2.0)
print(begun, actor._folder, flush=True)
for _ in range(int(sys.argv[1])):
    time.sleep(0.4)
    actor.beat()
time.sleep(60)
"""


@pytest.mark.parametrize("beats", [0, 6])
def test_a_node_actor_that_is_prepared_lives_as_long_as_its_driver(beats: int) -> None:
    """Its lease was 200 s until its ranks were started: nodes of a driver whose machine had died were held so long."""
    with subprocess.Popen([sys.executable, "-c", PREPARING, str(beats)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            begun, folder = process.stdout.readline().split()  # by the clock of all processes: we may read it late
            assert process.wait(60) == 0
            assert time.monotonic() - float(begun) > 0.4 * beats + 1.9
            assert not Path(folder).exists()
        finally:
            process.kill()


def test_a_driver_beats_to_every_node_actor_until_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_PERIOD_SECONDS", 0.01)
    heard: list[tuple[int, str]] = []

    def actor(index: int) -> Any:
        answer = SimpleNamespace(remote=lambda question: heard.append((index, question)))
        return SimpleNamespace(actor=SimpleNamespace(answer=answer))

    with heartbeat.heartbeat(NodeActors(handles=(actor(0), actor(1)), group=None)):
        assert come_true(lambda: len(heard) >= 4, 30)  # Ray is imported first
    said = len(heard)
    time.sleep(0.1)
    assert len(heard) == said
    assert set(heard) == {(0, "beat"), (1, "beat")}
    assert decode_answer("beat", encode_answer(None)) is None


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


def waiting_poll(pool: ThreadPoolExecutor, actor: NodeActor) -> Future[list[bytes]]:
    """A poll in a thread of its own, which knows by now for which launch it waits."""
    before = actor._heard
    late = pool.submit(actor.poll, 60.0)
    assert come_true(lambda: actor._heard != before, 60)
    return late


@pytest.mark.parametrize("last_words", [None, b"the end of launch 1"])
def test_what_ranks_say_is_for_the_polls_of_their_own_launch(tmp_path: Path, last_words: bytes | None) -> None:
    """A poll may wait for a second after its launch: it took the next one's first words, such as a rank's death."""
    path = str(tmp_path / "ranks")
    no_ranks = msgspec.msgpack.encode(((), ())), {}, 0
    with Listener(path, "AF_UNIX") as listener, ThreadPoolExecutor(1) as pool:
        actor = NodeActor(host_socket=path)
        threading.Thread(target=serve_as_rank_host, args=(listener.accept(), last_words), daemon=True).start()
        actor.start(*no_ranks)
        assert actor.poll(60.0) == [b"of launch 1"]
        late = waiting_poll(pool, actor)
        actor.stop()
        actor.start(*no_ranks)
        assert actor.poll(60.0) == [b"of launch 2"]
        assert late.result() == ([] if last_words is None else [last_words])
        actor.stop()  # with nobody waiting
        actor.start(*no_ranks)
        assert actor.poll(60.0) == [b"of launch 3"]
        actor.close()


def test_what_the_agent_said_last_is_heard_by_whoever_ends_it(tmp_path: Path) -> None:
    """A poll of a launch that has ended may still wait: it took the agent's words with it, and nobody heard them."""
    path = str(tmp_path / "ranks")
    no_ranks = msgspec.msgpack.encode(((), ())), {}, 0
    with Listener(path, "AF_UNIX") as listener, ThreadPoolExecutor(1) as pool:
        actor = NodeActor(host_socket=path)
        threading.Thread(target=serve_as_rank_host, args=(listener.accept(), None), daemon=True).start()
        actor.start(*no_ranks)
        actor._pass_on_agent(b"first")
        heard: list[bytes] = []
        while len(heard) < 2:  # the launch's word and the agent's, by one poll or two
            heard += actor.poll(60.0)
        assert encode_event(AgentSaid(data=b"first")) in heard
        late = waiting_poll(pool, actor)
        began = time.monotonic()
        actor.stop()
        assert late.result() == []
        assert time.monotonic() - began < 30  # it was woken
        actor._pass_on_agent(b"between two launches")
        assert actor.end_agent() == [b"between two launches"]
        actor.close()
