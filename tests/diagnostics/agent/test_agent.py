"""The agent as a process and its loop: what it says, how it ends, and that no source holds up the others."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from diagnostics.agent.agent import Agent
from diagnostics.agent.message_reader import decode
from diagnostics.agent.messages import Clock, Message, Reading, Source, Watch, encode
from diagnostics.agent.options import AgentOptions
from diagnostics.agent.outlet import MAX_WAITING, Outlet
from diagnostics.agent.sampler import Answer, Sampler
from diagnostics.agent.sources.base import Sample, SourceUnavailableError

from .machine import machine


@contextmanager
def agent_of(root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-m", "diagnostics.agent", "--interval", "0.1", "--sys", str(root / "sys")]
    child = subprocess.Popen(
        [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def until(child: subprocess.Popen[str], wanted: Callable[[Message], bool]) -> list[Message]:
    assert child.stdout is not None
    found: list[Message] = []
    for line in child.stdout:
        found.append(decode(line))
        if wanted(found[-1]):
            return found
    raise AssertionError(f"the agent ended after {found}")


def test_the_process_says_the_clock_its_sources_and_what_they_read(tmp_path: Path) -> None:
    with agent_of(machine(tmp_path), "--host", "node-7", "--folder", str(tmp_path)) as child:
        wanted = {"ports", "nics", f"filesystem {tmp_path}"}  # each has a thread of its own: in any order

        def last(one: Message) -> bool:
            wanted.difference_update({one.source} if isinstance(one, Reading) else ())
            return not wanted

        said = until(child, last)
        assert isinstance(said[0], Clock)
        assert said[0].host == "node-7"
        assert abs(said[0].wall_seconds - time.time()) < 60
        sources = {one.name: one.available for one in said if isinstance(one, Source)}
        assert sources["ports"]
        assert sources["nics"]
        status = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(status[16]) >= 10  # its niceness
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""


def test_it_is_told_of_processes_and_ends_with_its_standard_input(tmp_path: Path) -> None:
    with agent_of(machine(tmp_path), "--control") as child:
        assert child.stdin is not None
        child.stdin.write("what?\n" + encode(Watch(pids=(os.getpid(),))) + "\n")
        child.stdin.flush()
        name = f"process/{os.getpid()}/resident_bytes"
        until(child, lambda one: isinstance(one, Reading) and name in one.values)
        child.stdin.close()
        assert child.wait(timeout=60) == 0
        child.stdin = None


def test_it_ends_when_nobody_reads(tmp_path: Path) -> None:
    with agent_of(machine(tmp_path)) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(timeout=60) == 0
        child.stdout = None


class Stuck:
    """A source whose second reading never comes back, as a dead NFS server's."""

    def __init__(self, released: threading.Event) -> None:
        self.released, self.readings = released, 0

    def read(self) -> Sample:
        self.readings += 1
        if self.readings > 1:
            self.released.wait()
        return Sample(values={"filesystem//nfs/free_bytes": 1})

    def close(self) -> None:
        pass


def test_a_source_that_is_stuck_is_said_to_be_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diagnostics.agent.agent.SILENT_SECONDS", 0.3)
    said: list[Message] = []
    root = machine(tmp_path)
    agent = Agent(AgentOptions(host="a", interval_seconds=0.1, sys=root / "sys", proc=root / "proc"), said.append)
    released = threading.Event()
    agent._samplers["nfs"] = Sampler("nfs", lambda: Stuck(released), agent._answers, 0.1)
    agent.run(rounds=20)
    of_nfs = [one for one in said if isinstance(one, Source) and one.name == "nfs"]
    assert [one.available for one in of_nfs] == [True, False]
    assert "has not answered" in of_nfs[1].reason
    assert sum(isinstance(one, Reading) and one.source == "ports" for one in said) >= 5
    released.set()


def test_a_source_that_breaks_says_so_and_is_no_end_of_the_agent() -> None:
    answers: SimpleQueue[Answer] = SimpleQueue()

    def broken() -> Stuck:
        raise KeyError("what")

    def absent() -> Stuck:
        raise SourceUnavailableError("no driver")

    for opener, reason in ((broken, "reading it failed: KeyError: 'what'"), (absent, "no driver")):
        sampler = Sampler("x", opener, answers, 0.1)
        sampler.start()
        assert answers.get(timeout=60).reason == reason
        sampler.stop()


def test_messages_that_nobody_takes_are_bounded_and_warnings_outlive_readings() -> None:
    written: list[str] = []
    released, began = threading.Event(), threading.Event()

    def write(text: str) -> None:
        began.set()
        released.wait(60)
        written.append(text)

    outlet = Outlet(write, lambda: None)
    reading = Reading(monotonic_seconds=1.0, source="s", values={})
    outlet.send(reading)
    began.wait(60)
    source = Source(monotonic_seconds=1.0, name="gpus", available=False, reason="gone")
    outlet.send(source)
    for _ in range(MAX_WAITING + 100):
        outlet.send(reading)
    assert outlet.dropped == 100
    released.set()
    outlet.close(60)
    kinds = [json.loads(line)["kind"] for line in "".join(written).splitlines()]
    assert kinds.count("reading") == MAX_WAITING + 1
    assert kinds[1] == "source"


def test_what_was_dropped_and_what_is_not_judged_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.agent.window.MAX_SERIES", 20)
    said: list[Message] = []
    root = machine(tmp_path)
    options = AgentOptions(host="a", interval_seconds=0.1, sys=root / "sys", proc=root / "proc")
    Agent(options, said.append, dropped=lambda: 7).run(rounds=2)
    readings = [one for one in said if isinstance(one, Reading) and one.source == "host"]
    assert readings[-1].values["agent/self/dropped_messages"] == 7
    assert [one.available for one in said if isinstance(one, Source) and one.name == "series"] == [False]
