"""The agent below a node actor: what it says comes in bounded pieces, and nothing of it outlives anybody."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import Clock, Message, Source
from raybench.execution.node_actors import agent_process
from raybench.execution.node_actors.agent_process import AgentProcess
from tests.processes.waiting import come_true, has_ended

PARENT = """
import sys, time
from raybench.execution.node_actors.agent_process import AgentProcess
agent = AgentProcess("gpu-1", sys.argv[1], lambda piece: print(agent._process.pid, flush=True))
time.sleep(60)
"""


def heard_until(agent_said: list[bytes], kind: type[Message]) -> list[Message]:
    """What an agent said, once a message of that kind is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(MessageReader().feed(b"".join(agent_said)))
        if any(isinstance(one, kind) for one in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {kind.__name__} in {agent_said}")


@pytest.mark.parametrize("stopped", [False, True])
def test_an_agent_ends_with_its_parent_even_if_it_is_stopped(tmp_path: Path, stopped: bool) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    agent = psutil.Process(int(parent.stdout.readline()))
    if stopped:
        agent.suspend()
    parent.kill()
    parent.wait()
    assert come_true(lambda: has_ended(agent.pid))


def test_an_agent_speaks_until_it_is_ended(tmp_path: Path) -> None:
    said: list[bytes] = []
    agent = AgentProcess("gpu-1", str(tmp_path), said.append)
    try:
        assert heard_until(said, Clock)
        assert agent._process is not None
        process = psutil.Process(agent._process.pid)
        assert process.nice() > 0
    finally:
        agent.end()
    agent._thread.join(60)  # which collects it
    assert not process.is_running()
    assert not any(isinstance(one, Source) and one.name == "agent" for one in MessageReader().feed(b"".join(said)))


def test_what_an_agent_says_while_it_is_ended_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late.py").write_text("import sys\nprint('x', flush=True)\nsys.stdin.read()\nprint('last words')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(agent_process, "MODULE", "late")
    monkeypatch.setattr(agent_process, "_END_SECONDS", 60.0)  # its niceness is 10 and more: it may wait for a processor
    said: list[bytes] = []
    agent = AgentProcess("gpu-1", str(tmp_path), said.append)
    assert come_true(lambda: said)
    agent.end()
    assert b"".join(said) == b"x\nlast words\n"


def test_an_agent_that_is_stopped_is_ended_in_time(tmp_path: Path) -> None:
    agent = AgentProcess("gpu-1", str(tmp_path), lambda _: None)
    agent._started.wait(60)
    assert agent._process is not None
    process = psutil.Process(agent._process.pid)
    process.suspend()
    began = time.monotonic()
    agent.end()
    assert time.monotonic() - began < 30
    agent._thread.join(60)
    assert not process.is_running()


def test_an_agent_that_ends_by_itself_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bytes] = []
    monkeypatch.setattr(agent_process, "MODULE", "diagnostics.no_agent")
    agent = AgentProcess("gpu-1", str(tmp_path), said.append)
    (source,) = (one for one in heard_until(said, Source) if isinstance(one, Source))
    assert not source.available
    assert "No module named diagnostics.no_agent" in source.reason
    agent.end()


def test_an_agent_that_cannot_be_started_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bytes] = []
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    agent = AgentProcess("gpu-1", str(tmp_path), said.append)
    (source,) = (one for one in heard_until(said, Source) if isinstance(one, Source))
    assert "does not start" in source.reason
    assert "/nowhere/python" in source.reason
    agent.watch([1], [])
    agent.end()


def test_a_noisy_agent_is_passed_on_at_a_bounded_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noisy.py").write_text("while True:\n    print('x' * 60000, flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(agent_process, "MODULE", "noisy")
    said: list[bytes] = []
    began = time.monotonic()
    agent = AgentProcess("gpu-1", str(tmp_path), said.append)
    assert come_true(lambda: len(said) > 3)
    agent.end()
    assert len(said) <= 2 + (time.monotonic() - began) / agent_process._PAUSE_SECONDS
    assert max(map(len, said)) <= 2**16


def test_an_agent_that_reads_nothing_holds_nobody_who_tells_it_of_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(agent_process, "MODULE", "deaf")
    agent = AgentProcess("gpu-1", str(tmp_path), lambda _: None)

    def tell() -> None:
        for _ in range(10):
            agent.watch(range(10_000), [])

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    telling.join(60)
    told = not telling.is_alive()
    agent.end()
    assert told


def test_only_what_has_its_own_program_is_the_node_actor() -> None:
    from raybench.execution.incidents.process_watch import component_of

    title = ["ray::RayNodeActor.answer"]
    assert component_of(title, "raylet") == "node actor"
    assert component_of(title, "node actor") is None  # the agent that is being started looks like it
