"""Real agents on this machine: the module's own code in processes of their own, on loopback addresses."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
_START = """
import importlib, json, sys
folder = sys.argv[1]
sys.path.insert(0, folder)
import ansible.module_utils
ansible.module_utils.__path__.append(folder)
from ansible.module_utils.raybench_fabric_agent import Agent
Agent(json.load(sys.stdin)).run()
"""


def load(name: str) -> Any:
    """A module of ``playbooks/module_utils``, by its file name."""
    import ansible.module_utils

    folder = str(ROOT / "playbooks/module_utils")
    if folder not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(folder)
    return importlib.import_module(f"ansible.module_utils.{name}")


class RunningAgent:
    """One agent. ``results`` are read from its folder as the module reads them."""

    def __init__(self, folder: Path, work: Mapping[str, Any]) -> None:
        folder.mkdir()
        (folder / "lease").touch()
        self.folder = folder
        command = [sys.executable, "-c", _START, str(ROOT / "playbooks/module_utils")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(dict(work, folder=str(folder))).encode())
        self.process.stdin.close()

    def results(self) -> list[dict[str, Any]]:
        """What it has written."""
        path = self.folder / "results"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def finish(self, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Wait until all its rounds are over, end it, and return its results."""
        end = time.monotonic() + seconds
        rounds = self.folder / "rounds"
        while time.monotonic() < end and not (rounds.exists() and rounds.read_text() == "all"):
            assert self.process.poll() is None, "the agent ended by itself"
            time.sleep(0.05)
        self.process.terminate()
        self.process.wait(60)
        return self.results()

    def kill(self) -> None:
        """End it as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(60)


@contextlib.contextmanager
def agents(folder: Path, works: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, RunningAgent]]:
    """An agent for each host's work, none left at the end."""
    running = {host: RunningAgent(folder / host, work) for host, work in works.items()}
    try:
        yield running
    finally:
        for agent in running.values():
            agent.kill()
